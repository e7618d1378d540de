//! Pages of a history. There is no index of history ids, which every step would
//! have to update. History ids grow with seqs, so a binary search over entries
//! finds the start.

use futures::TryStreamExt;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;

use super::rows::{SqlResult, entry_key};
use crate::store::limits::SEPARATOR;
use crate::store::paging::HistoryPageBuilder;
use crate::store::{HistoryPage, HistoryQuery};

type HistoryRow = (i64, String);

pub(super) async fn page(
    pool: &SqlitePool,
    id: &str,
    query: &HistoryQuery,
) -> SqlResult<Option<HistoryPage>> {
    // One read transaction, because the execution may be deleted meanwhile.
    let mut transaction = pool.begin().await?;
    let found: Option<(i64, i64, i64)> =
        sqlx::query_as("SELECT number, next_seq, next_history_id FROM executions WHERE id = ?")
            .bind(id)
            .fetch_optional(&mut *transaction)
            .await?;
    let Some((number, next_seq, next_history_id)) = found else {
        return Ok(None);
    };
    let mut paging = HistoryPageBuilder::new(query, next_history_id.cast_unsigned());
    if let Some(first) = paging.next() {
        let number = number.cast_unsigned();
        let journal = (
            entry_key(number, 1),
            entry_key(number, next_seq.cast_unsigned()),
        );
        let key = find_entry_key(&mut transaction, journal, first).await?;
        let sql = match query.newest_first {
            false => {
                "SELECT first_history_id, history FROM entries
                 WHERE key >= ? AND key < ? ORDER BY key"
            }
            true => {
                "SELECT first_history_id, history FROM entries
                 WHERE key <= ? AND key >= ? ORDER BY key DESC"
            }
        };
        let end = if query.newest_first {
            journal.0
        } else {
            journal.1
        };
        let mut entries = sqlx::query_as(sql)
            .bind(key)
            .bind(end)
            .fetch(&mut *transaction);
        while paging.next().is_some()
            && let Some(entry) = entries.try_next().await?
        {
            add_entry(&mut paging, &entry);
        }
    }
    transaction.commit().await?;
    Ok(Some(paging.finish()))
}

fn add_entry(paging: &mut HistoryPageBuilder, (first_history_id, history): &HistoryRow) {
    if !history.is_empty() {
        let events: Vec<&str> = history.split(SEPARATOR).collect();
        paging.add_events(first_history_id.cast_unsigned(), &events);
    }
}

/// The key of the entry with this history event, by binary search: the last entry
/// whose first event is not after it. Journals have no gaps.
async fn find_entry_key(
    connection: &mut SqliteConnection,
    (first, end): (i64, i64),
    history_id: u64,
) -> SqlResult<i64> {
    let (key,): (i64,) = sqlx::query_as(
        "WITH RECURSIVE halves (low, high) AS (
             SELECT ?1, ?2
             UNION ALL
             SELECT CASE WHEN e.first_history_id <= ?3 THEN e.key ELSE low END,
                    CASE WHEN e.first_history_id <= ?3 THEN high ELSE e.key END
             FROM halves CROSS JOIN entries e ON e.key = (low + high) / 2
             WHERE high - low > 1)
         SELECT low FROM halves ORDER BY high - low LIMIT 1",
    )
    .bind(first)
    .bind(end)
    .bind(history_id.cast_signed())
    .fetch_one(connection)
    .await?;
    Ok(key)
}
