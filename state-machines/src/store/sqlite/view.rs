//! Reads for the writer what a group mentions, before it is decided.

use serde::de::DeserializeOwned;
use sqlx::SqliteConnection;

use super::group::{Mentioned, View};
use super::rows::{Rows, array, decode, status_of};
use crate::store::rules::Kept;

/// An execution as the statements here give it.
type KeptRow = (
    String,
    u64,
    u8,
    u64,
    u64,
    u64,
    Option<String>,
    Option<i64>,
    u64,
    i64,
    u64,
);

/// What all of them read of an execution. One JSON text for all rows: each row
/// by itself would be handed from thread to thread.
macro_rules! select_kept {
    ($from:literal) => {
        concat!(
            "SELECT json_group_array(json_array(e.id, e.number, e.status, e.next_seq,
                    e.next_history_id, e.fence, e.worker, e.due_at_ms, e.posted,
                    e.posted_at_ms, e.taken)) FROM ",
            $from
        )
    };
}

/// Begins the transaction and reads all that the group mentions.
pub(super) async fn begin(
    connection: &mut SqliteConnection,
    mentioned: &Mentioned<'_>,
) -> Rows<View> {
    let mut view = View::default();
    let sql = concat!(
        "BEGIN IMMEDIATE; ",
        select_kept!("json_each(?) w CROSS JOIN executions e ON e.id = w.value")
    );
    let ids = array(mentioned.ids.iter());
    take_kept(&mut view, &one(connection, sql, ids).await?)?;
    if !mentioned.created.is_empty() {
        read_created(connection, mentioned, &mut view).await?;
    }
    if !mentioned.messages.is_empty() {
        read_messages(connection, mentioned, &mut view).await?;
    }
    if let Some((until_ms, most)) = mentioned.due {
        view.due = read_due(connection, &mut view, until_ms, most).await?;
    }
    for worker in &mentioned.workers {
        // All that are open have a due time or are not held: no need for an
        // index that every claim would have to keep.
        let sql = select_kept!("executions e WHERE e.due_at_ms IS NOT NULL AND e.worker = ?");
        take_kept(
            &mut view,
            &one(connection, sql, (*worker).to_owned()).await?,
        )?;
    }
    Ok(view)
}

async fn read_due(
    connection: &mut SqliteConnection,
    view: &mut View,
    until_ms: i64,
    most: usize,
) -> Rows<Vec<String>> {
    let sql = select_kept!(
        "(SELECT * FROM executions WHERE due_at_ms <= ? ORDER BY due_at_ms, number LIMIT ?) e"
    );
    let query = sqlx::query_as(sql).bind(until_ms);
    let query = query.bind(i64::try_from(most).unwrap_or(i64::MAX));
    let (found,): (String,) = query.fetch_one(connection).await?;
    let mut due = take_kept(view, &found)?;
    // SQL promises no order within an aggregate.
    due.sort_by_cached_key(|id| {
        let kept = view.executions.get(id);
        kept.map(|kept| (kept.due_at_ms, kept.number))
    });
    Ok(due)
}

/// Puts executions into the view, and says which they were. What is in it
/// already was read by the same transaction, and is the same.
fn take_kept(view: &mut View, rows: &str) -> Rows<Vec<String>> {
    let mut ids = Vec::new();
    for row in read::<KeptRow>(rows)? {
        let kept = Kept {
            number: row.1,
            status: status_of(row.2)?,
            next_seq: row.3,
            next_history_id: row.4,
            fence: row.5,
            worker: row.6,
            due_at_ms: row.7,
            posted: row.8,
            posted_at_ms: row.9,
            taken: row.10,
        };
        ids.push(row.0.clone());
        view.executions.insert(row.0, kept);
    }
    Ok(ids)
}

async fn read_created(
    connection: &mut SqliteConnection,
    mentioned: &Mentioned<'_>,
    view: &mut View,
) -> Rows<()> {
    let (before, definitions, last): (String, String, i64) = sqlx::query_as(
        "SELECT (SELECT json_group_array(json_array(e.id, e.workflow, p.input))
                 FROM json_each(?) w CROSS JOIN executions e ON e.id = w.value
                 CROSS JOIN payloads p ON p.execution = e.number),
                (SELECT json_group_array(d.hash)
                 FROM json_each(?) w CROSS JOIN definitions d ON d.hash = w.value),
                coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'executions'), 0)",
    )
    .bind(array(mentioned.created.iter()))
    .bind(array(mentioned.definitions.iter()))
    .fetch_one(connection)
    .await?;
    for (id, workflow, input) in read::<(String, _, _)>(&before)? {
        view.before.insert(id, (workflow, input));
    }
    view.definitions.extend(read::<String>(&definitions)?);
    view.last_number = last.cast_unsigned();
    Ok(())
}

async fn read_messages(
    connection: &mut SqliteConnection,
    mentioned: &Mentioned<'_>,
    view: &mut View,
) -> Rows<()> {
    let sql = "SELECT json_group_array(json_array(e.id, m.key, m.number, m.body))
               FROM json_each(?) w CROSS JOIN executions e ON e.id = w.value ->> 0
               CROSS JOIN messages m ON m.execution = e.number AND m.key = w.value ->> 1";
    let found = one(connection, sql, array(mentioned.messages.iter())).await?;
    for (id, key, number, body) in read::<(String, String, u64, String)>(&found)? {
        view.messages.insert((id, key), (number, body));
    }
    Ok(())
}

/// Asks for one text.
async fn one(connection: &mut SqliteConnection, sql: &'static str, bound: String) -> Rows<String> {
    let (text,) = sqlx::query_as(sql)
        .bind(bound)
        .fetch_one(connection)
        .await?;
    Ok(text)
}

fn read<T: DeserializeOwned>(rows: &str) -> Rows<Vec<T>> {
    serde_json::from_str(rows).map_err(decode)
}
