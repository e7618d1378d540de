//! Reads what a group refers to, before it is decided.

use serde::de::DeserializeOwned;
use sqlx::SqliteConnection;

use super::group::{GroupKeys, GroupView};
use super::rows::{SqlResult, decode_error, status_from_code, to_json_array};
use crate::store::rules::ExecutionHead;

/// An execution's head as the statements here return it.
type HeadRow = (
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

/// Selects heads as one JSON text: sqlx hands each row from thread to thread, which
/// costs more.
macro_rules! select_heads {
    ($from:literal) => {
        concat!(
            "SELECT json_group_array(json_array(e.id, e.number, e.status, e.next_seq,
                    e.next_history_id, e.fence, e.worker, e.due_at_ms, e.posted,
                    e.posted_at_ms, e.taken)) FROM ",
            $from
        )
    };
}

/// Begins the transaction and reads what the group refers to.
pub(super) async fn read_group(
    connection: &mut SqliteConnection,
    mentioned: &GroupKeys<'_>,
) -> SqlResult<GroupView> {
    let mut view = GroupView::default();
    let sql = concat!(
        "BEGIN IMMEDIATE; ",
        select_heads!("json_each(?) w CROSS JOIN executions e ON e.id = w.value")
    );
    let ids = to_json_array(mentioned.ids.iter());
    read_heads(&mut view, &fetch_text(connection, sql, ids).await?)?;
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
        // Every held execution has a due time, so this uses the index on due times.
        // An index on workers would cost every claim.
        let sql = select_heads!("executions e WHERE e.due_at_ms IS NOT NULL AND e.worker = ?");
        read_heads(
            &mut view,
            &fetch_text(connection, sql, (*worker).to_owned()).await?,
        )?;
    }
    Ok(view)
}

async fn read_due(
    connection: &mut SqliteConnection,
    view: &mut GroupView,
    until_ms: i64,
    most: usize,
) -> SqlResult<Vec<String>> {
    let sql = select_heads!(
        "(SELECT * FROM executions WHERE due_at_ms <= ? ORDER BY due_at_ms, number LIMIT ?) e"
    );
    let query = sqlx::query_as(sql).bind(until_ms);
    let query = query.bind(i64::try_from(most).unwrap_or(i64::MAX));
    let (found,): (String,) = query.fetch_one(connection).await?;
    let mut due = read_heads(view, &found)?;
    // SQL does not guarantee an order within an aggregate.
    due.sort_by_cached_key(|id| {
        let head = view.executions.get(id);
        head.map(|head| (head.due_at_ms, head.number))
    });
    Ok(due)
}

/// Adds heads to the view and returns their ids. Heads that are there already came
/// from the same transaction and are equal.
fn read_heads(view: &mut GroupView, rows: &str) -> SqlResult<Vec<String>> {
    let mut ids = Vec::new();
    for row in parse_rows::<HeadRow>(rows)? {
        let head = ExecutionHead {
            number: row.1,
            status: status_from_code(row.2)?,
            next_seq: row.3,
            next_history_id: row.4,
            fence: row.5,
            worker: row.6,
            due_at_ms: row.7,
            posted: row.8,
            posted_at_ms: row.9,
            messages_read: row.10,
        };
        ids.push(row.0.clone());
        view.executions.insert(row.0, head);
    }
    Ok(ids)
}

async fn read_created(
    connection: &mut SqliteConnection,
    mentioned: &GroupKeys<'_>,
    view: &mut GroupView,
) -> SqlResult<()> {
    let (before, definitions, last): (String, String, i64) = sqlx::query_as(
        "SELECT (SELECT json_group_array(json_array(e.id, e.workflow, p.input))
                 FROM json_each(?) w CROSS JOIN executions e ON e.id = w.value
                 CROSS JOIN payloads p ON p.execution = e.number),
                (SELECT json_group_array(d.hash)
                 FROM json_each(?) w CROSS JOIN definitions d ON d.hash = w.value),
                coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'executions'), 0)",
    )
    .bind(to_json_array(mentioned.created.iter()))
    .bind(to_json_array(mentioned.definitions.iter()))
    .fetch_one(connection)
    .await?;
    for (id, workflow, input) in parse_rows::<(String, _, _)>(&before)? {
        view.before.insert(id, (workflow, input));
    }
    view.definitions.extend(parse_rows::<String>(&definitions)?);
    view.last_number = last.cast_unsigned();
    Ok(())
}

async fn read_messages(
    connection: &mut SqliteConnection,
    mentioned: &GroupKeys<'_>,
    view: &mut GroupView,
) -> SqlResult<()> {
    let sql = "SELECT json_group_array(json_array(e.id, m.key, m.number, m.body))
               FROM json_each(?) w CROSS JOIN executions e ON e.id = w.value ->> 0
               CROSS JOIN messages m ON m.execution = e.number AND m.key = w.value ->> 1";
    let found = fetch_text(connection, sql, to_json_array(mentioned.messages.iter())).await?;
    for (id, key, number, body) in parse_rows::<(String, String, u64, String)>(&found)? {
        view.messages.insert((id, key), (number, body));
    }
    Ok(())
}

/// Runs a query that returns one text.
async fn fetch_text(
    connection: &mut SqliteConnection,
    sql: &'static str,
    bound: String,
) -> SqlResult<String> {
    let (text,) = sqlx::query_as(sql)
        .bind(bound)
        .fetch_one(connection)
        .await?;
    Ok(text)
}

fn parse_rows<T: DeserializeOwned>(rows: &str) -> SqlResult<Vec<T>> {
    serde_json::from_str(rows).map_err(decode_error)
}
