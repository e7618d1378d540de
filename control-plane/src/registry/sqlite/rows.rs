//! The writer's statements. Each takes its rows as one JSON array, so that groups of
//! any size cost the same few statements.

use std::collections::{HashMap, HashSet};

use ballast_domain::Timestamp;
use ballast_domain::registry::{RecordKey, RecordKind};
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use super::group::{Batch, Counters, RecordState};

type StatementResult<T> = Result<T, sqlx::Error>;

pub(super) async fn read_counters(
    connection: &mut SqliteConnection,
) -> StatementResult<(Counters, Timestamp)> {
    let (revision, sequence, at): (i64, i64, i64) = sqlx::query_as(
        "SELECT coalesce((SELECT max(revision) FROM commits), 0),
                coalesce((SELECT max(sequence) FROM events), 0),
                coalesce((SELECT max(at_ms) FROM commits), 0)",
    )
    .fetch_one(connection)
    .await?;
    let counters = Counters {
        revision: revision.cast_unsigned(),
        sequence: sequence.cast_unsigned(),
    };
    Ok((counters, Timestamp::from_unix_ms(at)))
}

pub(super) async fn read_records(
    connection: &mut SqliteConnection,
    keys: &[&RecordKey],
) -> StatementResult<HashMap<RecordKey, RecordState>> {
    let wanted = array(keys.iter().map(|key| json!([key.kind as u8, key.id])));
    let rows: Vec<(i64, String, i64, bool, i64, String, String)> = sqlx::query_as(
        "SELECT r.kind, r.id, r.version, r.live, r.sequence, r.terms, r.tallies
         FROM json_each(?) w CROSS JOIN records r
           ON r.kind = w.value ->> 0 AND r.id = w.value ->> 1",
    )
    .bind(wanted)
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|(kind, id, version, live, sequence, terms, tallies)| {
            let known = RecordState {
                version: version.cast_unsigned(),
                live,
                sequence: sequence.cast_unsigned(),
                terms: serde_json::from_str(&terms).map_err(decode)?,
                tallies: serde_json::from_str(&tallies).map_err(decode)?,
            };
            Ok((RecordKey::new(kind_from_number(kind)?, id), known))
        })
        .collect()
}

pub(super) async fn read_tallies(
    connection: &mut SqliteConnection,
    tallies: &[(RecordKind, &str)],
) -> StatementResult<HashMap<(RecordKind, String), u64>> {
    let wanted = array(
        tallies
            .iter()
            .map(|(kind, tally)| json!([*kind as u8, tally])),
    );
    let rows: Vec<(i64, String, i64)> = sqlx::query_as(
        "SELECT t.kind, t.tally, t.count
         FROM json_each(?) w CROSS JOIN tallies t
           ON t.kind = w.value ->> 0 AND t.tally = w.value ->> 1",
    )
    .bind(wanted)
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|(kind, tally, count)| Ok(((kind_from_number(kind)?, tally), count.cast_unsigned())))
        .collect()
}

/// The requests that have an unexpired reply.
pub(super) async fn read_replies(
    connection: &mut SqliteConnection,
    ids: &[&str],
    now: Timestamp,
) -> StatementResult<HashSet<String>> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let rows: Vec<(String,)> = sqlx::query_as(
        "SELECT r.id FROM json_each(?) w CROSS JOIN replies r ON r.id = w.value
         WHERE r.expires_ms > ?",
    )
    .bind(array(ids.iter().map(|id| json!(id))))
    .bind(now.unix_ms())
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}

/// Writes a group's rows.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    batch: &Batch,
) -> StatementResult<()> {
    insert_log(connection, batch).await?;
    insert_indexes(connection, batch).await?;
    for reply in &batch.replies {
        sqlx::query("INSERT OR REPLACE INTO replies (id, expires_ms, sealed) VALUES (?, ?, ?)")
            .bind(&reply.id)
            .bind(reply.expires_at.unix_ms())
            .bind(&reply.sealed)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn insert_log(connection: &mut SqliteConnection, batch: &Batch) -> StatementResult<()> {
    let commits = array(batch.commits.iter().map(|row| {
        let actor = serde_json::to_string(&row.commit.actor).unwrap_or_default();
        json!([
            row.revision,
            row.at.unix_ms(),
            row.commit.action,
            actor,
            row.commit.reason,
            row.first_sequence
        ])
    }));
    run(
        connection,
        "INSERT OR IGNORE INTO actors (actor) SELECT DISTINCT value ->> 3 FROM json_each(?)",
        commits.clone(),
    )
    .await?;
    run(
        connection,
        "INSERT INTO commits (revision, at_ms, action, actor, reason, first_sequence)
         SELECT value ->> 0, value ->> 1, value ->> 2,
                (SELECT id FROM actors WHERE actor = value ->> 3), value ->> 4, value ->> 5
         FROM json_each(?)",
        commits,
    )
    .await?;
    let events = array(batch.events.iter().map(|row| {
        json!([
            row.sequence,
            row.revision,
            row.key.kind as u8,
            row.key.id,
            row.version,
            row.previous,
            row.body
        ])
    }));
    run(
        connection,
        "INSERT INTO events (sequence, revision, kind, id, version, previous, body)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
                value ->> 6
         FROM json_each(?)",
        events,
    )
    .await
}

async fn insert_indexes(connection: &mut SqliteConnection, batch: &Batch) -> StatementResult<()> {
    let records = array(batch.records.iter().map(|(key, known)| {
        let list = |terms: &Vec<String>| json!(terms).to_string();
        json!([
            key.kind as u8,
            key.id,
            known.version,
            u8::from(known.live),
            known.sequence,
            list(&known.terms),
            list(&known.tallies)
        ])
    }));
    run(
        connection,
        "INSERT OR REPLACE INTO records (kind, id, version, live, sequence, terms, tallies)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
                value ->> 6
         FROM json_each(?)",
        records,
    )
    .await?;
    let terms = |present: bool| {
        array(
            batch
                .terms
                .iter()
                .filter(move |(_, has)| **has == present)
                .map(|((kind, term, id), _)| json!([*kind as u8, term, id])),
        )
    };
    run(
        connection,
        "DELETE FROM terms WHERE (kind, term, id) IN
           (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?))",
        terms(false),
    )
    .await?;
    run(
        connection,
        "INSERT OR IGNORE INTO terms (kind, term, id)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)",
        terms(true),
    )
    .await?;
    let counts = batch
        .tallies
        .iter()
        .map(|((kind, tally), count)| json!([*kind as u8, tally, count]));
    run(
        connection,
        "INSERT OR REPLACE INTO tallies (kind, tally, count)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)",
        array(counts),
    )
    .await?;
    let history = batch
        .tally_history
        .iter()
        .map(|((kind, tally, revision), count)| json!([*kind as u8, tally, revision, count]));
    run(
        connection,
        "INSERT OR REPLACE INTO tally_history (kind, tally, revision, count)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?)",
        array(history),
    )
    .await
}

pub(super) async fn forget_replies(
    connection: &mut SqliteConnection,
    now: Timestamp,
) -> StatementResult<()> {
    sqlx::query("DELETE FROM replies WHERE expires_ms <= ?")
        .bind(now.unix_ms())
        .execute(connection)
        .await?;
    Ok(())
}

pub(super) async fn mark_used(
    connection: &mut SqliteConnection,
    kind: RecordKind,
    uses: &[(String, Timestamp)],
) -> StatementResult<()> {
    let rows = uses
        .iter()
        .map(|(id, at)| json!([kind as u8, id, at.unix_ms()]));
    run(
        connection,
        "INSERT INTO uses (kind, id, at_ms)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?) WHERE true
         ON CONFLICT DO UPDATE SET at_ms = max(at_ms, excluded.at_ms)",
        array(rows),
    )
    .await
}

/// Runs a statement over a JSON array of rows; does nothing without rows.
async fn run(
    connection: &mut SqliteConnection,
    sql: &'static str,
    rows: String,
) -> StatementResult<()> {
    if rows != "[]" {
        sqlx::query(sql).bind(rows).execute(connection).await?;
    }
    Ok(())
}

fn array(rows: impl Iterator<Item = Value>) -> String {
    Value::Array(rows.collect()).to_string()
}

pub(super) fn kind_from_number(number: i64) -> StatementResult<RecordKind> {
    RecordKind::from_number(number)
        .ok_or_else(|| decode(format!("no record kind has number {number}")))
}

pub(super) fn decode(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}
