//! The writer's statements. Each takes its rows as one JSON array, so a group of
//! any size needs the same few statements. They are sent together, because each
//! call goes to the connection's thread and back.

use serde::Serialize;
use sqlx::SqliteConnection;

use super::group::{GroupView, GroupWrites};
use crate::store::StoredStatus;
use crate::store::limits::SEPARATOR;

pub(super) type SqlResult<T> = Result<T, sqlx::Error>;

/// How many bits of an entry's key hold its seq.
const SEQ_BITS: u32 = 24;

/// The key of an entry.
pub(super) fn entry_key(execution: u64, seq: u64) -> i64 {
    ((execution << SEQ_BITS) | seq).cast_signed()
}

/// The seq in an entry's key.
pub(super) fn seq_from_key(key: i64) -> u64 {
    key.cast_unsigned() & ((1 << SEQ_BITS) - 1)
}

/// The execution's number in an entry's key.
pub(super) fn execution_from_key(key: i64) -> u64 {
    key.cast_unsigned() >> SEQ_BITS
}

pub(super) fn status_to_code(status: StoredStatus) -> u8 {
    match status {
        StoredStatus::Running => 1,
        StoredStatus::Succeeded => 2,
        StoredStatus::Failed => 3,
        StoredStatus::TimedOut => 4,
        StoredStatus::Aborted => 5,
    }
}

pub(super) fn status_from_code(code: u8) -> SqlResult<StoredStatus> {
    let found = StoredStatus::ALL
        .into_iter()
        .find(|status| status_to_code(*status) == code);
    found.ok_or_else(|| decode_error(format!("unknown status code {code}")))
}

/// Writes a group's rows and commits.
pub(super) async fn commit(
    connection: &mut SqliteConnection,
    view: &GroupView,
    batch: &GroupWrites<'_>,
) -> SqlResult<()> {
    let mut statements = Statements::default();
    add_new(&mut statements, batch);
    add_journals(&mut statements, view, batch);
    add_ends(&mut statements, batch);
    let lease_changes = batch.lease_changes.iter().filter_map(|id| {
        let head = view.executions.get(id)?;
        let (number, worker, due) = (head.number, &head.worker, head.due_at_ms);
        Some((
            number,
            head.fence,
            worker,
            due,
            head.posted,
            head.posted_at_ms,
        ))
    });
    statements.add(
        "UPDATE executions SET fence = w.value ->> 1, worker = w.value ->> 2,
                due_at_ms = w.value ->> 3, posted = w.value ->> 4, posted_at_ms = w.value ->> 5
         FROM json_each(?) w WHERE number = w.value ->> 0",
        to_json_array(lease_changes),
    );
    let tallies = batch.tallies.iter().filter(|(_, more)| **more != 0);
    statements.add(
        "INSERT INTO tallies (status, count)
         SELECT value ->> 0, value ->> 1 FROM json_each(?) WHERE true
         ON CONFLICT DO UPDATE SET count = count + excluded.count",
        to_json_array(tallies.map(|(status, more)| (status_to_code(*status), more))),
    );
    statements.commit(connection).await
}

fn add_new(statements: &mut Statements, batch: &GroupWrites<'_>) {
    let created = batch.created.iter().map(|(new, head)| {
        let state = &new.state;
        (
            (head.number, &new.id, &new.workflow, &new.definition),
            (
                new.at_ms,
                status_to_code(head.status),
                u8::from(state.paused),
            ),
            (state.ended_at_ms, head.next_seq, head.next_history_id),
            (head.fence, &head.worker, head.due_at_ms),
            &state.position,
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
        to_json_array(created),
    );
    let payloads = batch
        .created
        .iter()
        .map(|(new, head)| (head.number, &new.input, &new.state.outcome));
    statements.add(
        "INSERT INTO payloads (execution, input, outcome)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)",
        to_json_array(payloads),
    );
    let messages = batch.messages.iter().map(|(execution, number, post)| {
        let (key, at_ms, body) = (&post.key, post.at_ms, &post.body);
        (execution, number, key, at_ms, body)
    });
    statements.add(
        "INSERT INTO messages (execution, number, key, at_ms, body)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
         FROM json_each(?)",
        to_json_array(messages),
    );
}

fn add_journals(statements: &mut Statements, view: &GroupView, batch: &GroupWrites<'_>) {
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
        to_json_array(entries),
    );
    // No index has any of these columns: a step that keeps the execution open and
    // held changes its row and no other page of the table.
    let stepped = batch.stepped.iter().filter_map(|(id, state)| {
        let head = view.executions.get(*id)?;
        let (next_seq, next_history_id) = (head.next_seq, head.next_history_id);
        let paused = u8::from(state.paused);
        let position = &state.position;
        Some((
            head.number,
            next_seq,
            next_history_id,
            head.messages_read,
            paused,
            position,
        ))
    });
    statements.add(
        "UPDATE executions SET next_seq = w.value ->> 1, next_history_id = w.value ->> 2,
                taken = w.value ->> 3, paused = w.value ->> 4, position = w.value ->> 5
         FROM json_each(?) w WHERE number = w.value ->> 0",
        to_json_array(stepped),
    );
    let snapshots = batch.snapshots.iter();
    statements.add(
        "INSERT OR REPLACE INTO snapshots (execution, seq, text)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)",
        to_json_array(snapshots.map(|(execution, (seq, text))| (execution, seq, text))),
    );
}

fn add_ends(statements: &mut Statements, batch: &GroupWrites<'_>) {
    let ended = batch.ended.iter();
    let rows = ended.map(|(number, state)| {
        let status = status_to_code(state.status);
        (number, status, state.ended_at_ms)
    });
    statements.add(
        "UPDATE executions SET status = w.value ->> 1, ended_at_ms = w.value ->> 2
         FROM json_each(?) w WHERE number = w.value ->> 0",
        to_json_array(rows),
    );
    let outcomes = batch.ended.iter();
    statements.add(
        "UPDATE payloads SET outcome = w.value ->> 1
         FROM json_each(?) w WHERE execution = w.value ->> 0",
        to_json_array(outcomes.map(|(number, state)| (number, &state.outcome))),
    );
    // No one loads an ended execution.
    statements.add(
        "DELETE FROM snapshots WHERE execution IN (SELECT value FROM json_each(?))",
        to_json_array(batch.ended.keys()),
    );
}

/// Statements to send together, each with its rows.
#[derive(Default)]
struct Statements {
    sql: String,
    rows: Vec<String>,
}

impl Statements {
    /// Adds a statement, unless it has no rows.
    fn add(&mut self, sql: &str, rows: String) {
        if rows != "[]" {
            self.sql.push_str(sql);
            self.sql.push_str(";\n");
            self.rows.push(rows);
        }
    }

    async fn commit(mut self, connection: &mut SqliteConnection) -> SqlResult<()> {
        self.sql.push_str("COMMIT");
        let mut query = sqlx::query(sqlx::AssertSqlSafe(self.sql));
        for rows in self.rows {
            query = query.bind(rows);
        }
        query.execute(connection).await?;
        Ok(())
    }
}

pub(super) fn to_json_array<T: Serialize>(rows: impl Iterator<Item = T>) -> String {
    let rows: Vec<T> = rows.collect();
    // Tuples of numbers and texts: encoding cannot fail.
    serde_json::to_string(&rows).unwrap_or_default()
}

pub(super) fn decode_error(
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}
