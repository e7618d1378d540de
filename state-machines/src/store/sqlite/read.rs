//! Read queries. Each seeks in an index, and reads no more than it returns.

use std::collections::{BTreeMap, HashMap};

use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{FromRow, QueryBuilder, Row as _, Sqlite, SqliteConnection};

use super::rows::{
    SqlResult, entry_key, execution_from_key, seq_from_key, status_from_code, status_to_code,
    to_json_array,
};
use crate::store::limits::LIST_MAX;
use crate::store::{
    ClaimedExecution, Deployment, ExecutionQuery, ExecutionRecord, ExecutionRow, ExecutionSnapshot,
    Lease, StoredEntry, StoredMessage, StoredStatus, UnreadMessages,
};

/// The columns of an execution, in the order of [`RowFields`].
macro_rules! row_fields {
    () => {
        "e.id, e.number, e.workflow, e.definition, e.created_at_ms, e.status, e.paused,
         e.position, e.ended_at_ms, e.next_seq, e.next_history_id, e.fence, e.worker,
         e.due_at_ms, e.posted - e.taken AS waiting, e.taken"
    };
}

struct RowFields {
    id: String,
    number: i64,
    workflow: String,
    definition: String,
    created_at_ms: i64,
    status: u8,
    paused: bool,
    position: String,
    ended_at_ms: Option<i64>,
    next_seq: i64,
    next_history_id: i64,
    fence: i64,
    worker: Option<String>,
    due_at_ms: Option<i64>,
    waiting: i64,
    taken: i64,
}

impl FromRow<'_, SqliteRow> for RowFields {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            number: row.try_get("number")?,
            workflow: row.try_get("workflow")?,
            definition: row.try_get("definition")?,
            created_at_ms: row.try_get("created_at_ms")?,
            status: row.try_get("status")?,
            paused: row.try_get("paused")?,
            position: row.try_get("position")?,
            ended_at_ms: row.try_get("ended_at_ms")?,
            next_seq: row.try_get("next_seq")?,
            next_history_id: row.try_get("next_history_id")?,
            fence: row.try_get("fence")?,
            worker: row.try_get("worker")?,
            due_at_ms: row.try_get("due_at_ms")?,
            waiting: row.try_get("waiting")?,
            taken: row.try_get("taken")?,
        })
    }
}

struct RecordFields {
    row: RowFields,
    input: String,
    outcome: Option<String>,
}

impl FromRow<'_, SqliteRow> for RecordFields {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            row: RowFields::from_row(row)?,
            input: row.try_get("input")?,
            outcome: row.try_get("outcome")?,
        })
    }
}

pub(super) async fn definition(pool: &SqlitePool, hash: &str) -> SqlResult<Option<String>> {
    let found: Option<(String,)> = sqlx::query_as("SELECT text FROM definitions WHERE hash = ?")
        .bind(hash)
        .fetch_optional(pool)
        .await?;
    Ok(found.map(|(text,)| text))
}

pub(super) async fn deployed(pool: &SqlitePool) -> SqlResult<Vec<Deployment>> {
    let rows: Vec<(String, String, i64)> =
        sqlx::query_as("SELECT name, hash, at_ms FROM deployments ORDER BY name")
            .fetch_all(pool)
            .await?;
    let deployed = |(name, hash, at_ms)| Deployment { name, hash, at_ms };
    Ok(rows.into_iter().map(deployed).collect())
}

pub(super) async fn get(pool: &SqlitePool, id: &str) -> SqlResult<Option<ExecutionRecord>> {
    let found: Option<RecordFields> = sqlx::query_as(concat!(
        "SELECT ",
        row_fields!(),
        ", p.input, p.outcome
         FROM executions e CROSS JOIN payloads p ON p.execution = e.number WHERE e.id = ?"
    ))
    .bind(id)
    .fetch_optional(pool)
    .await?;
    let found = found.map(|found| {
        Ok(ExecutionRecord {
            row: to_row(found.row)?,
            input: found.input,
            outcome: found.outcome,
        })
    });
    found.transpose()
}

pub(super) async fn list(
    pool: &SqlitePool,
    query: &ExecutionQuery,
) -> SqlResult<Vec<ExecutionRow>> {
    let mut sql = QueryBuilder::<Sqlite>::new(concat!(
        "SELECT ",
        row_fields!(),
        " FROM executions e WHERE true"
    ));
    if let Some(workflow) = &query.workflow {
        sql.push(" AND e.workflow = ").push_bind(workflow);
    }
    if let Some(status) = query.status {
        sql.push(" AND e.status = ")
            .push_bind(status_to_code(status));
    }
    if let Some(before) = query.before {
        sql.push(" AND e.number < ").push_bind(to_sql_limit(before));
    }
    sql.push(" ORDER BY e.number DESC LIMIT ");
    sql.push_bind(to_sql_limit(query.limit.min(LIST_MAX) as u64));
    let rows: Vec<RowFields> = sql.build_query_as().fetch_all(pool).await?;
    rows.into_iter().map(to_row).collect()
}

pub(super) async fn counts(pool: &SqlitePool) -> SqlResult<BTreeMap<StoredStatus, u64>> {
    let rows: Vec<(u8, i64)> = sqlx::query_as("SELECT status, count FROM tallies WHERE count > 0")
        .fetch_all(pool)
        .await?;
    let count = |(status, count): (u8, i64)| Ok((status_from_code(status)?, count.cast_unsigned()));
    rows.into_iter().map(count).collect()
}

pub(super) async fn next_due(pool: &SqlitePool) -> SqlResult<Option<i64>> {
    let (at,): (Option<i64>,) =
        sqlx::query_as("SELECT min(due_at_ms) FROM executions WHERE due_at_ms IS NOT NULL")
            .fetch_one(pool)
            .await?;
    Ok(at)
}

/// Reads what the holders of these leases need. Lost leases are left out.
pub(super) async fn claims(
    pool: &SqlitePool,
    leases: &[Lease],
) -> SqlResult<Vec<ClaimedExecution>> {
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    // One read transaction for all of it.
    let mut transaction = pool.begin().await?;
    let held = leased_rows(&mut transaction, leases).await?;
    let mut claims = Vec::with_capacity(held.len());
    let mut places = HashMap::with_capacity(held.len());
    let mut read = Vec::with_capacity(held.len());
    for fields in held {
        read.push((fields.number.cast_unsigned(), fields.taken.cast_unsigned()));
        let row = to_row(fields)?;
        places.insert(row.number, claims.len());
        claims.push(ClaimedExecution {
            lease: Lease {
                id: row.id.clone(),
                fence: row.fence,
            },
            row,
            snapshot: None,
            entries: Vec::new(),
            messages: Vec::new(),
        });
    }
    for (execution, snapshot) in snapshots(&mut transaction, &read).await? {
        if let Some(place) = places.get(&execution) {
            claims[*place].snapshot = Some(snapshot);
        }
    }
    let after = claims.iter().map(|claim| {
        let seq = claim.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let number = claim.row.number;
        (entry_key(number, seq), entry_key(number + 1, 0))
    });
    let after = to_json_array(after);
    for (execution, entry) in entries(&mut transaction, after).await? {
        if let Some(place) = places.get(&execution) {
            claims[*place].entries.push(entry);
        }
    }
    for (execution, message) in messages_after(&mut transaction, &read).await? {
        if let Some(place) = places.get(&execution) {
            claims[*place].messages.push(message);
        }
    }
    transaction.commit().await?;
    Ok(claims)
}

pub(super) async fn unread_messages(
    pool: &SqlitePool,
    leases: &[Lease],
) -> SqlResult<Vec<UnreadMessages>> {
    let mut transaction = pool.begin().await?;
    let mut held = leased_rows(&mut transaction, leases).await?;
    held.retain(|fields| fields.waiting > 0);
    let read: Vec<_> = held
        .iter()
        .map(|fields| (fields.number.cast_unsigned(), fields.taken.cast_unsigned()))
        .collect();
    let mut found: HashMap<u64, Vec<StoredMessage>> = HashMap::new();
    for (execution, message) in messages_after(&mut transaction, &read).await? {
        found.entry(execution).or_default().push(message);
    }
    transaction.commit().await?;
    let mail = held.into_iter().filter_map(|fields| {
        let messages = found.remove(&fields.number.cast_unsigned())?;
        let fence = fields.fence.cast_unsigned();
        let lease = Lease {
            id: fields.id,
            fence,
        };
        Some(UnreadMessages { lease, messages })
    });
    Ok(mail.collect())
}

/// The message of an execution with this key.
pub(super) async fn find_message(
    pool: &SqlitePool,
    id: &str,
    key: &str,
) -> SqlResult<Option<StoredMessage>> {
    let found: Option<(i64, String, String, i64)> = sqlx::query_as(
        "SELECT m.number, m.key, m.body, m.at_ms
         FROM executions e JOIN messages m ON m.execution = e.number
         WHERE e.id = ? AND m.key = ?",
    )
    .bind(id)
    .bind(key)
    .fetch_optional(pool)
    .await?;
    Ok(found.map(|(number, key, body, at_ms)| StoredMessage {
        number: number.cast_unsigned(),
        key,
        body,
        at_ms,
    }))
}

/// The executions held by these leases, in the order of the leases.
async fn leased_rows(
    connection: &mut SqliteConnection,
    leases: &[Lease],
) -> SqlResult<Vec<RowFields>> {
    let wanted = leases.iter().map(|lease| (&lease.id, lease.fence));
    sqlx::query_as(concat!(
        "SELECT ",
        row_fields!(),
        " FROM json_each(?) w CROSS JOIN executions e ON e.id = w.value ->> 0
          WHERE e.fence = w.value ->> 1 AND e.worker IS NOT NULL ORDER BY w.key"
    ))
    .bind(to_json_array(wanted))
    .fetch_all(connection)
    .await
}

async fn snapshots(
    connection: &mut SqliteConnection,
    executions: &[(u64, u64)],
) -> SqlResult<Vec<(u64, ExecutionSnapshot)>> {
    let rows: Vec<(i64, i64, String)> = sqlx::query_as(
        "SELECT s.execution, s.seq, s.text
         FROM json_each(?) w CROSS JOIN snapshots s ON s.execution = w.value ->> 0",
    )
    .bind(to_json_array(executions.iter()))
    .fetch_all(connection)
    .await?;
    let snapshot = |(execution, seq, text): (i64, i64, String)| {
        let seq = seq.cast_unsigned();
        (execution.cast_unsigned(), ExecutionSnapshot { seq, text })
    };
    Ok(rows.into_iter().map(snapshot).collect())
}

/// The entries between these keys, in the order of the journals.
async fn entries(
    connection: &mut SqliteConnection,
    between: String,
) -> SqlResult<Vec<(u64, StoredEntry)>> {
    let rows: Vec<(i64, i64, String)> = sqlx::query_as(
        "SELECT e.key, e.at_ms, e.event
         FROM json_each(?) w CROSS JOIN entries e
           ON e.key > w.value ->> 0 AND e.key < w.value ->> 1
         ORDER BY e.key",
    )
    .bind(between)
    .fetch_all(connection)
    .await?;
    let entry = |(key, at_ms, event)| {
        let seq = seq_from_key(key);
        (execution_from_key(key), StoredEntry { seq, at_ms, event })
    };
    Ok(rows.into_iter().map(entry).collect())
}

/// The unread messages, in order.
async fn messages_after(
    connection: &mut SqliteConnection,
    read: &[(u64, u64)],
) -> SqlResult<Vec<(u64, StoredMessage)>> {
    let rows: Vec<(i64, i64, String, String, i64)> = sqlx::query_as(
        "SELECT m.execution, m.number, m.key, m.body, m.at_ms
         FROM json_each(?) w CROSS JOIN messages m
           ON m.execution = w.value ->> 0 AND m.number > w.value ->> 1
         ORDER BY m.execution, m.number",
    )
    .bind(to_json_array(read.iter()))
    .fetch_all(connection)
    .await?;
    let message = |(execution, number, key, body, at_ms): (i64, i64, _, _, _)| {
        let number = number.cast_unsigned();
        let message = StoredMessage {
            number,
            key,
            body,
            at_ms,
        };
        (execution.cast_unsigned(), message)
    };
    Ok(rows.into_iter().map(message).collect())
}

fn to_row(fields: RowFields) -> SqlResult<ExecutionRow> {
    Ok(ExecutionRow {
        id: fields.id,
        number: fields.number.cast_unsigned(),
        workflow: fields.workflow,
        definition: fields.definition,
        created_at_ms: fields.created_at_ms,
        status: status_from_code(fields.status)?,
        paused: fields.paused,
        position: fields.position,
        ended_at_ms: fields.ended_at_ms,
        next_seq: fields.next_seq.cast_unsigned(),
        next_history_id: fields.next_history_id.cast_unsigned(),
        fence: fields.fence.cast_unsigned(),
        worker: fields.worker,
        due_at_ms: fields.due_at_ms,
        waiting: fields.waiting.cast_unsigned(),
    })
}

fn to_sql_limit(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
