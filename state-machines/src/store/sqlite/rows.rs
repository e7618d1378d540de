//! The writer's statements. Each takes its rows as one JSON array, so that a
//! group of any size costs the same few; and they are sent together, because
//! every question to the connection is a walk to its thread and back.

use serde::Serialize;
use sqlx::SqliteConnection;

use super::group::{Batch, View};
use crate::store::Status;
use crate::store::limits::SEPARATOR;

pub(super) type Rows<T> = Result<T, sqlx::Error>;

/// How many bits of an entry's key are its seq.
const SEQ_BITS: u32 = 24;

/// The key of an entry.
pub(super) fn entry_key(execution: u64, seq: u64) -> i64 {
    ((execution << SEQ_BITS) | seq).cast_signed()
}

/// The seq in an entry's key.
pub(super) fn seq_of(key: i64) -> u64 {
    key.cast_unsigned() & ((1 << SEQ_BITS) - 1)
}

/// The execution in an entry's key.
pub(super) fn execution_of(key: i64) -> u64 {
    key.cast_unsigned() >> SEQ_BITS
}

pub(super) fn code_of(status: Status) -> u8 {
    match status {
        Status::Running => 1,
        Status::Succeeded => 2,
        Status::Failed => 3,
        Status::TimedOut => 4,
        Status::Aborted => 5,
    }
}

pub(super) fn status_of(code: u8) -> Rows<Status> {
    let found = Status::ALL
        .into_iter()
        .find(|status| code_of(*status) == code);
    found.ok_or_else(|| decode(format!("no status has the number {code}")))
}

/// Writes a group's rows and commits.
pub(super) async fn commit(
    connection: &mut SqliteConnection,
    view: &View,
    batch: &Batch<'_>,
) -> Rows<()> {
    let mut statements = Statements::default();
    add_new(&mut statements, batch);
    add_journals(&mut statements, view, batch);
    add_ends(&mut statements, batch);
    let leased = batch.leased.iter().filter_map(|id| {
        let kept = view.executions.get(id)?;
        let (number, worker, due) = (kept.number, &kept.worker, kept.due_at_ms);
        Some((
            number,
            kept.fence,
            worker,
            due,
            kept.posted,
            kept.posted_at_ms,
        ))
    });
    statements.add(
        "UPDATE executions SET fence = w.value ->> 1, worker = w.value ->> 2,
                due_at_ms = w.value ->> 3, posted = w.value ->> 4, posted_at_ms = w.value ->> 5
         FROM json_each(?) w WHERE number = w.value ->> 0",
        array(leased),
    );
    let tallies = batch.tallies.iter().filter(|(_, more)| **more != 0);
    statements.add(
        "INSERT INTO tallies (status, count)
         SELECT value ->> 0, value ->> 1 FROM json_each(?) WHERE true
         ON CONFLICT DO UPDATE SET count = count + excluded.count",
        array(tallies.map(|(status, more)| (code_of(*status), more))),
    );
    statements.commit(connection).await
}

fn add_new(statements: &mut Statements, batch: &Batch<'_>) {
    let created = batch.created.iter().map(|(new, kept)| {
        let standing = &new.standing;
        (
            (kept.number, &new.id, &new.workflow, &new.definition),
            (new.at_ms, code_of(kept.status), u8::from(standing.paused)),
            (standing.ended_at_ms, kept.next_seq, kept.next_history_id),
            (kept.fence, &kept.worker, kept.due_at_ms),
            &standing.position,
        )
    });
    statements.add(
        "INSERT INTO executions (number, id, workflow, definition, created_at_ms, status, paused,
             ended_at_ms, next_seq, next_history_id, fence, worker, due_at_ms, posted,
             posted_at_ms, taken, position)
         SELECT value ->> '$[0][0]', value ->> '$[0][1]', value ->> '$[0][2]',
                value ->> '$[0][3]', value ->> '$[1][0]', value ->> '$[1][1]',
                value ->> '$[1][2]', value ->> '$[2][0]', value ->> '$[2][1]',
                value ->> '$[2][2]', value ->> '$[3][0]', value ->> '$[3][1]',
                value ->> '$[3][2]', 0, 0, 0, value ->> 4
         FROM json_each(?)",
        array(created),
    );
    let payloads = batch
        .created
        .iter()
        .map(|(new, kept)| (kept.number, &new.input, &new.standing.outcome));
    statements.add(
        "INSERT INTO payloads (execution, input, outcome)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)",
        array(payloads),
    );
    let messages = batch.messages.iter().map(|(execution, number, post)| {
        let (key, at_ms, body) = (&post.key, post.at_ms, &post.body);
        (execution, number, key, at_ms, body)
    });
    statements.add(
        "INSERT INTO messages (execution, number, key, at_ms, body)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
         FROM json_each(?)",
        array(messages),
    );
}

fn add_journals(statements: &mut Statements, view: &View, batch: &Batch<'_>) {
    let separator = SEPARATOR.to_string();
    let entries = batch.entries.iter().map(|row| {
        let history = row.entry.history.join(&separator);
        let key = entry_key(row.execution, row.seq);
        let entry = row.entry;
        (
            key,
            entry.at_ms,
            row.first_history_id,
            &entry.event,
            history,
        )
    });
    statements.add(
        "INSERT INTO entries (key, at_ms, first_history_id, event, history)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
         FROM json_each(?)",
        array(entries),
    );
    // None of these columns is in an index: a step of an execution that is
    // held and stays open touches its row and no other page of the table.
    let stepped = batch.stepped.iter().filter_map(|(id, standing)| {
        let kept = view.executions.get(*id)?;
        let (next_seq, next_history_id) = (kept.next_seq, kept.next_history_id);
        let paused = u8::from(standing.paused);
        let position = &standing.position;
        Some((
            kept.number,
            next_seq,
            next_history_id,
            kept.taken,
            paused,
            position,
        ))
    });
    statements.add(
        "UPDATE executions SET next_seq = w.value ->> 1, next_history_id = w.value ->> 2,
                taken = w.value ->> 3, paused = w.value ->> 4, position = w.value ->> 5
         FROM json_each(?) w WHERE number = w.value ->> 0",
        array(stepped),
    );
    let snapshots = batch.snapshots.iter();
    statements.add(
        "INSERT OR REPLACE INTO snapshots (execution, seq, text)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)",
        array(snapshots.map(|(execution, (seq, text))| (execution, seq, text))),
    );
}

fn add_ends(statements: &mut Statements, batch: &Batch<'_>) {
    let ended = batch.ended.iter();
    let rows = ended.map(|(number, standing)| {
        let status = code_of(standing.status);
        (number, status, standing.ended_at_ms)
    });
    statements.add(
        "UPDATE executions SET status = w.value ->> 1, ended_at_ms = w.value ->> 2
         FROM json_each(?) w WHERE number = w.value ->> 0",
        array(rows),
    );
    let outcomes = batch.ended.iter();
    statements.add(
        "UPDATE payloads SET outcome = w.value ->> 1
         FROM json_each(?) w WHERE execution = w.value ->> 0",
        array(outcomes.map(|(number, standing)| (number, &standing.outcome))),
    );
    // Nobody will go on with it.
    statements.add(
        "DELETE FROM snapshots WHERE execution IN (SELECT value FROM json_each(?))",
        array(batch.ended.keys()),
    );
}

/// Statements that are sent together, each with its rows.
#[derive(Default)]
struct Statements {
    sql: String,
    rows: Vec<String>,
}

impl Statements {
    /// Adds a statement, unless there are no rows for it.
    fn add(&mut self, sql: &str, rows: String) {
        if rows != "[]" {
            self.sql.push_str(sql);
            self.sql.push_str(";\n");
            self.rows.push(rows);
        }
    }

    async fn commit(mut self, connection: &mut SqliteConnection) -> Rows<()> {
        self.sql.push_str("COMMIT");
        let mut query = sqlx::query(sqlx::AssertSqlSafe(self.sql));
        for rows in self.rows {
            query = query.bind(rows);
        }
        query.execute(connection).await?;
        Ok(())
    }
}

pub(super) fn array<T: Serialize>(rows: impl Iterator<Item = T>) -> String {
    let rows: Vec<T> = rows.collect();
    // Numbers and texts in tuples: there is nothing that JSON cannot say.
    serde_json::to_string(&rows).unwrap_or_default()
}

pub(super) fn decode(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}
