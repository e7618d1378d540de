//! Writes that are rare or long, and share no transaction: definitions kept
//! and withdrawn, executions forgotten.

use sqlx::{Connection, SqliteConnection};

use super::job::Pending;
use super::rows::{self, Rows, array, entry_key};
use crate::store::{Definition, KeepError, StoreError};

/// How many entries are forgotten at once: the other writes wait meanwhile.
const FORGOTTEN_ENTRIES: i64 = 20_000;

/// A write that is no part of a group.
#[derive(Debug)]
pub(super) enum Aside {
    Keep(Box<Definition>, Pending<(), KeepError>),
    Forget(i64, usize, Pending<u64, StoreError>),
    Withdraw(String, Pending<bool, StoreError>),
    /// Writes, to see whether it can be done.
    Probe(Pending<(), StoreError>),
}

impl Aside {
    pub(super) async fn run(&mut self, connection: &mut SqliteConnection) -> Rows<()> {
        match self {
            Self::Keep(definition, pending) => pending.decided(keep(connection, definition).await?),
            Self::Forget(before_ms, most, pending) => {
                pending.decided(Ok(forget(connection, *before_ms, *most).await?));
            }
            Self::Withdraw(name, pending) => {
                let deleted = sqlx::query("DELETE FROM deployments WHERE name = ?")
                    .bind(&*name)
                    .execute(connection)
                    .await?;
                pending.decided(Ok(deleted.rows_affected() > 0));
            }
            Self::Probe(pending) => {
                // It is written whether or not it is another one.
                sqlx::query("PRAGMA user_version = 1")
                    .execute(connection)
                    .await?;
                pending.decided(Ok(()));
            }
        }
        Ok(())
    }

    pub(super) fn answer(self, failed: Option<&str>) {
        match self {
            Self::Keep(_, pending) => pending.answer(failed),
            Self::Forget(_, _, pending) => pending.answer(failed),
            Self::Withdraw(_, pending) => pending.answer(failed),
            Self::Probe(pending) => pending.answer(failed),
        }
    }
}

async fn keep(
    connection: &mut SqliteConnection,
    definition: &Definition,
) -> Rows<Result<(), KeepError>> {
    let Definition {
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
        return Ok(Err(KeepError::Conflict { hash: hash.clone() }));
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

async fn forget(connection: &mut SqliteConnection, before_ms: i64, most: usize) -> Rows<u64> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    // At least one, however long.
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
    let numbers = array(found.iter().map(|(number, _)| number));
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
    .bind(array(journals))
    .bind(&numbers)
    .bind(&numbers)
    .bind(&numbers)
    .bind(rows::array(found.iter().map(|(_, status)| status)))
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(found.len() as u64)
}
