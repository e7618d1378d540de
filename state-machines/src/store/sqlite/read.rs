//! The readers' questions. All of them seek in an index; none grows with the
//! number of executions, or with the length of a history, beyond what it
//! returns.

use std::collections::{BTreeMap, HashMap};

use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{FromRow, QueryBuilder, Row as _, Sqlite, SqliteConnection};

use super::rows::{Rows, array, code_of, entry_key, execution_of, seq_of, status_of};
use crate::store::limits::LIST_MAX;
use crate::store::{
    Claim, Deployed, Found, Lease, Mail, Message, Query, Recorded, Row, Snapshot, Status,
};

/// What is read of an execution, in the order of [`RowFields`].
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

struct FoundFields {
    row: RowFields,
    input: String,
    outcome: Option<String>,
}

impl FromRow<'_, SqliteRow> for FoundFields {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            row: RowFields::from_row(row)?,
            input: row.try_get("input")?,
            outcome: row.try_get("outcome")?,
        })
    }
}

pub(super) async fn definition(pool: &SqlitePool, hash: &str) -> Rows<Option<String>> {
    let found: Option<(String,)> = sqlx::query_as("SELECT text FROM definitions WHERE hash = ?")
        .bind(hash)
        .fetch_optional(pool)
        .await?;
    Ok(found.map(|(text,)| text))
}

pub(super) async fn deployed(pool: &SqlitePool) -> Rows<Vec<Deployed>> {
    let rows: Vec<(String, String, i64)> =
        sqlx::query_as("SELECT name, hash, at_ms FROM deployments ORDER BY name")
            .fetch_all(pool)
            .await?;
    let deployed = |(name, hash, at_ms)| Deployed { name, hash, at_ms };
    Ok(rows.into_iter().map(deployed).collect())
}

pub(super) async fn get(pool: &SqlitePool, id: &str) -> Rows<Option<Found>> {
    let found: Option<FoundFields> = sqlx::query_as(concat!(
        "SELECT ",
        row_fields!(),
        ", p.input, p.outcome
         FROM executions e CROSS JOIN payloads p ON p.execution = e.number WHERE e.id = ?"
    ))
    .bind(id)
    .fetch_optional(pool)
    .await?;
    let found = found.map(|found| {
        Ok(Found {
            row: row(found.row)?,
            input: found.input,
            outcome: found.outcome,
        })
    });
    found.transpose()
}

pub(super) async fn list(pool: &SqlitePool, query: &Query) -> Rows<Vec<Row>> {
    let mut sql = QueryBuilder::<Sqlite>::new(concat!(
        "SELECT ",
        row_fields!(),
        " FROM executions e WHERE true"
    ));
    if let Some(workflow) = &query.workflow {
        sql.push(" AND e.workflow = ").push_bind(workflow);
    }
    if let Some(status) = query.status {
        sql.push(" AND e.status = ").push_bind(code_of(status));
    }
    if let Some(before) = query.before {
        sql.push(" AND e.number < ").push_bind(clamped(before));
    }
    sql.push(" ORDER BY e.number DESC LIMIT ");
    sql.push_bind(clamped(query.limit.min(LIST_MAX) as u64));
    let rows: Vec<RowFields> = sql.build_query_as().fetch_all(pool).await?;
    rows.into_iter().map(row).collect()
}

pub(super) async fn counts(pool: &SqlitePool) -> Rows<BTreeMap<Status, u64>> {
    let rows: Vec<(u8, i64)> = sqlx::query_as("SELECT status, count FROM tallies WHERE count > 0")
        .fetch_all(pool)
        .await?;
    let count = |(status, count): (u8, i64)| Ok((status_of(status)?, count.cast_unsigned()));
    rows.into_iter().map(count).collect()
}

pub(super) async fn next_wake(pool: &SqlitePool) -> Rows<Option<i64>> {
    let (at,): (Option<i64>,) =
        sqlx::query_as("SELECT min(due_at_ms) FROM executions WHERE due_at_ms IS NOT NULL")
            .fetch_one(pool)
            .await?;
    Ok(at)
}

/// What those who were given these leases need. A lease that another has
/// taken since is left out.
pub(super) async fn claims(pool: &SqlitePool, leases: &[Lease]) -> Rows<Vec<Claim>> {
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    // One moment for all of it.
    let mut moment = pool.begin().await?;
    let held = held(&mut moment, leases).await?;
    let mut claims = Vec::with_capacity(held.len());
    let mut places = HashMap::with_capacity(held.len());
    let mut read = Vec::with_capacity(held.len());
    for fields in held {
        read.push((fields.number.cast_unsigned(), fields.taken.cast_unsigned()));
        let row = row(fields)?;
        places.insert(row.number, claims.len());
        claims.push(Claim {
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
    for (execution, snapshot) in snapshots(&mut moment, &read).await? {
        if let Some(place) = places.get(&execution) {
            claims[*place].snapshot = Some(snapshot);
        }
    }
    let after = claims.iter().map(|claim| {
        let seq = claim.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let number = claim.row.number;
        (entry_key(number, seq), entry_key(number + 1, 0))
    });
    let after = array(after);
    for (execution, entry) in entries(&mut moment, after).await? {
        if let Some(place) = places.get(&execution) {
            claims[*place].entries.push(entry);
        }
    }
    for (execution, message) in unread(&mut moment, &read).await? {
        if let Some(place) = places.get(&execution) {
            claims[*place].messages.push(message);
        }
    }
    moment.commit().await?;
    Ok(claims)
}

pub(super) async fn messages(pool: &SqlitePool, leases: &[Lease]) -> Rows<Vec<Mail>> {
    let mut moment = pool.begin().await?;
    let mut held = held(&mut moment, leases).await?;
    held.retain(|fields| fields.waiting > 0);
    let read: Vec<_> = held
        .iter()
        .map(|fields| (fields.number.cast_unsigned(), fields.taken.cast_unsigned()))
        .collect();
    let mut found: HashMap<u64, Vec<Message>> = HashMap::new();
    for (execution, message) in unread(&mut moment, &read).await? {
        found.entry(execution).or_default().push(message);
    }
    moment.commit().await?;
    let mail = held.into_iter().filter_map(|fields| {
        let messages = found.remove(&fields.number.cast_unsigned())?;
        let fence = fields.fence.cast_unsigned();
        let lease = Lease {
            id: fields.id,
            fence,
        };
        Some(Mail { lease, messages })
    });
    Ok(mail.collect())
}

/// The message of an execution that has this key.
pub(super) async fn message(pool: &SqlitePool, id: &str, key: &str) -> Rows<Option<Message>> {
    let found: Option<(i64, String, String, i64)> = sqlx::query_as(
        "SELECT m.number, m.key, m.body, m.at_ms
         FROM executions e JOIN messages m ON m.execution = e.number
         WHERE e.id = ? AND m.key = ?",
    )
    .bind(id)
    .bind(key)
    .fetch_optional(pool)
    .await?;
    Ok(found.map(|(number, key, body, at_ms)| Message {
        number: number.cast_unsigned(),
        key,
        body,
        at_ms,
    }))
}

/// The executions that are held by these leases, in their order.
async fn held(connection: &mut SqliteConnection, leases: &[Lease]) -> Rows<Vec<RowFields>> {
    let wanted = leases.iter().map(|lease| (&lease.id, lease.fence));
    sqlx::query_as(concat!(
        "SELECT ",
        row_fields!(),
        " FROM json_each(?) w CROSS JOIN executions e ON e.id = w.value ->> 0
          WHERE e.fence = w.value ->> 1 AND e.worker IS NOT NULL ORDER BY w.key"
    ))
    .bind(array(wanted))
    .fetch_all(connection)
    .await
}

async fn snapshots(
    connection: &mut SqliteConnection,
    executions: &[(u64, u64)],
) -> Rows<Vec<(u64, Snapshot)>> {
    let rows: Vec<(i64, i64, String)> = sqlx::query_as(
        "SELECT s.execution, s.seq, s.text
         FROM json_each(?) w CROSS JOIN snapshots s ON s.execution = w.value ->> 0",
    )
    .bind(array(executions.iter()))
    .fetch_all(connection)
    .await?;
    let snapshot = |(execution, seq, text): (i64, i64, String)| {
        let seq = seq.cast_unsigned();
        (execution.cast_unsigned(), Snapshot { seq, text })
    };
    Ok(rows.into_iter().map(snapshot).collect())
}

/// The entries between these keys, in the order of the journals.
async fn entries(connection: &mut SqliteConnection, between: String) -> Rows<Vec<(u64, Recorded)>> {
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
        let seq = seq_of(key);
        (execution_of(key), Recorded { seq, at_ms, event })
    };
    Ok(rows.into_iter().map(entry).collect())
}

/// The messages after those that were read, in order.
async fn unread(
    connection: &mut SqliteConnection,
    read: &[(u64, u64)],
) -> Rows<Vec<(u64, Message)>> {
    let rows: Vec<(i64, i64, String, String, i64)> = sqlx::query_as(
        "SELECT m.execution, m.number, m.key, m.body, m.at_ms
         FROM json_each(?) w CROSS JOIN messages m
           ON m.execution = w.value ->> 0 AND m.number > w.value ->> 1
         ORDER BY m.execution, m.number",
    )
    .bind(array(read.iter()))
    .fetch_all(connection)
    .await?;
    let message = |(execution, number, key, body, at_ms): (i64, i64, _, _, _)| {
        let number = number.cast_unsigned();
        let message = Message {
            number,
            key,
            body,
            at_ms,
        };
        (execution.cast_unsigned(), message)
    };
    Ok(rows.into_iter().map(message).collect())
}

fn row(fields: RowFields) -> Rows<Row> {
    Ok(Row {
        id: fields.id,
        number: fields.number.cast_unsigned(),
        workflow: fields.workflow,
        definition: fields.definition,
        created_at_ms: fields.created_at_ms,
        status: status_of(fields.status)?,
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

fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
