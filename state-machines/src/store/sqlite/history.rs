//! Pages of a history. Entries have no index of their history ids, which every
//! step would have to keep: as the ids grow with the seqs, where to begin is
//! found by halving.

use futures::TryStreamExt;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqlitePool;

use super::rows::{Rows, entry_key};
use crate::store::limits::SEPARATOR;
use crate::store::paging::Paging;
use crate::store::{HistoryPage, HistoryQuery};

type EntryRow = (i64, String);

pub(super) async fn page(
    pool: &SqlitePool,
    id: &str,
    query: &HistoryQuery,
) -> Rows<Option<HistoryPage>> {
    // One moment for all of it: it may be forgotten meanwhile.
    let mut moment = pool.begin().await?;
    let found: Option<(i64, i64, i64)> =
        sqlx::query_as("SELECT number, next_seq, next_history_id FROM executions WHERE id = ?")
            .bind(id)
            .fetch_optional(&mut *moment)
            .await?;
    let Some((number, next_seq, next_history_id)) = found else {
        return Ok(None);
    };
    let mut paging = Paging::new(query, next_history_id.cast_unsigned());
    if let Some(first) = paging.next() {
        let number = number.cast_unsigned();
        let journal = (
            entry_key(number, 1),
            entry_key(number, next_seq.cast_unsigned()),
        );
        let key = entry_with(&mut moment, journal, first).await?;
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
        let mut entries = sqlx::query_as(sql).bind(key).bind(end).fetch(&mut *moment);
        while paging.next().is_some()
            && let Some(entry) = entries.try_next().await?
        {
            take(&mut paging, &entry);
        }
    }
    moment.commit().await?;
    Ok(Some(paging.finish()))
}

fn take(paging: &mut Paging, (first_history_id, history): &EntryRow) {
    if !history.is_empty() {
        let events: Vec<&str> = history.split(SEPARATOR).collect();
        paging.take(first_history_id.cast_unsigned(), &events);
    }
}

/// The key of the entry that has this history event: the last one whose first
/// event is not behind it. A journal has no gaps.
async fn entry_with(
    connection: &mut SqliteConnection,
    (first, end): (i64, i64),
    history_id: u64,
) -> Rows<i64> {
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
