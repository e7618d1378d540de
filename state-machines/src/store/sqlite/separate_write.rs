//! Rare or long writes, each in a transaction of its own: saving and withdrawing
//! definitions, deleting executions.

use sqlx::{Connection, SqliteConnection};

use super::job::PendingReply;
use super::rows::{self, SqlResult, entry_key, to_json_array};
use crate::store::{ExecutionStoreError, SaveDefinitionError, StoredDefinition};

/// How many entries one transaction deletes; other writes wait meanwhile.
const FORGOTTEN_ENTRIES: i64 = 20_000;

/// A write outside of groups.
#[derive(Debug)]
pub(super) enum SeparateWrite {
    SaveDefinition(Box<StoredDefinition>, PendingReply<(), SaveDefinitionError>),
    Forget(i64, usize, PendingReply<u64, ExecutionStoreError>),
    Withdraw(String, PendingReply<bool, ExecutionStoreError>),
    /// Writes something, to see whether writes work.
    Probe(PendingReply<(), ExecutionStoreError>),
}

impl SeparateWrite {
    pub(super) async fn run(&mut self, connection: &mut SqliteConnection) -> SqlResult<()> {
        match self {
            Self::SaveDefinition(definition, pending) => {
                pending.set_outcome(save_definition(connection, definition).await?)
            }
            Self::Forget(before_ms, most, pending) => {
                pending.set_outcome(Ok(forget_ended(connection, *before_ms, *most).await?));
            }
            Self::Withdraw(name, pending) => {
                let deleted = sqlx::query("DELETE FROM deployments WHERE name = ?")
                    .bind(&*name)
                    .execute(connection)
                    .await?;
                pending.set_outcome(Ok(deleted.rows_affected() > 0));
            }
            Self::Probe(pending) => {
                // SQLite writes the page even if the value stays the same.
                sqlx::query("PRAGMA user_version = 1")
                    .execute(connection)
                    .await?;
                pending.set_outcome(Ok(()));
            }
        }
        Ok(())
    }

    pub(super) fn send_reply(self, failed: Option<&str>) {
        match self {
            Self::SaveDefinition(_, pending) => pending.send_reply(failed),
            Self::Forget(_, _, pending) => pending.send_reply(failed),
            Self::Withdraw(_, pending) => pending.send_reply(failed),
            Self::Probe(pending) => pending.send_reply(failed),
        }
    }
}

async fn save_definition(
    connection: &mut SqliteConnection,
    definition: &StoredDefinition,
) -> SqlResult<Result<(), SaveDefinitionError>> {
    let StoredDefinition {
        name,
        hash,
        text,
        at_ms,
    } = definition;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let found: Option<(String,)> = sqlx::query_as("SELECT text FROM definitions WHERE hash = ?")
        .bind(hash)
        .fetch_optional(&mut *transaction)
        .await?;
    if found.is_some_and(|(found,)| found != *text) {
        transaction.rollback().await?;
        return Ok(Err(SaveDefinitionError::Conflict { hash: hash.clone() }));
    }
    sqlx::query(
        "INSERT INTO definitions (hash, text) VALUES (?, ?) ON CONFLICT DO NOTHING;
         INSERT INTO deployments (name, hash, at_ms) VALUES (?, ?, ?)
         ON CONFLICT DO UPDATE SET hash = excluded.hash, at_ms = excluded.at_ms
         WHERE hash <> excluded.hash",
    )
    .bind(hash)
    .bind(text)
    .bind(name)
    .bind(hash)
    .bind(at_ms)
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(Ok(()))
}

async fn forget_ended(
    connection: &mut SqliteConnection,
    before_ms: i64,
    most: usize,
) -> SqlResult<u64> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    // At least one execution, however long.
    let found: Vec<(i64, u8)> = sqlx::query_as(
        "SELECT number, status FROM (
             SELECT number, status, next_seq,
                    sum(next_seq) OVER (ORDER BY ended_at_ms, number) AS entries
             FROM (SELECT number, status, next_seq, ended_at_ms FROM executions
                   WHERE ended_at_ms < ? ORDER BY ended_at_ms, number LIMIT ?))
         WHERE entries - next_seq < ?",
    )
    .bind(before_ms)
    .bind(i64::try_from(most).unwrap_or(i64::MAX))
    .bind(FORGOTTEN_ENTRIES)
    .fetch_all(&mut *transaction)
    .await?;
    let journals = found.iter().map(|(number, _)| {
        let number = number.cast_unsigned();
        (entry_key(number, 0), entry_key(number + 1, 0))
    });
    let numbers = to_json_array(found.iter().map(|(number, _)| number));
    sqlx::query(
        "DELETE FROM entries WHERE key IN (
             SELECT e.key FROM json_each(?) w
             CROSS JOIN entries e ON e.key > w.value ->> 0 AND e.key < w.value ->> 1);
         DELETE FROM messages WHERE execution IN (SELECT value FROM json_each(?));
         DELETE FROM payloads WHERE execution IN (SELECT value FROM json_each(?));
         DELETE FROM executions WHERE number IN (SELECT value FROM json_each(?));
         UPDATE tallies SET count = count -
             (SELECT count(*) FROM json_each(?) w WHERE w.value = status)",
    )
    .bind(to_json_array(journals))
    .bind(&numbers)
    .bind(&numbers)
    .bind(&numbers)
    .bind(rows::to_json_array(found.iter().map(|(_, status)| status)))
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(found.len() as u64)
}
