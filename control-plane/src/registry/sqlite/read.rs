//! The readers' queries. All of them seek in an index; none costs more than what it
//! returns.

use std::collections::BTreeMap;

use ballast_domain::Timestamp;
use ballast_domain::registry::{
    EventQuery, Record, RecordKey, RecordKind, RecordQuery, RegistryEvent, RememberedReply,
};
use serde_json::json;
use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{FromRow, QueryBuilder, Row, Sqlite};

use super::rows::{decode, kind_from_number};
use crate::registry::RegistryId;

type QueryResult<T> = Result<T, sqlx::Error>;
type RecordRow = (i64, String, i64, i64, String);

/// Sorts after every id and term: they are ASCII.
const LAST: &str = "\u{10ffff}";
/// The first sequence number after revision `?1`: where to continue, and where the
/// past ends.
const AFTER: &str = "coalesce((SELECT first_sequence FROM commits WHERE revision > ?1
    ORDER BY revision LIMIT 1), 9223372036854775807)";
/// Upper bound of the counts that determine the rarest term.
const PROBE: i64 = 500;

pub(super) async fn registry_id(pool: &SqlitePool) -> QueryResult<RegistryId> {
    let id: String = sqlx::query_scalar("SELECT registry_id FROM identity")
        .fetch_one(pool)
        .await?;
    Ok(RegistryId::from_stored(id))
}

pub(super) async fn get(pool: &SqlitePool, key: &RecordKey) -> QueryResult<Option<Record>> {
    let row: Option<RecordRow> = sqlx::query_as(
        "SELECT r.kind, r.id, r.version, e.revision, e.body
         FROM records r JOIN events e ON e.sequence = r.sequence
         WHERE r.kind = ? AND r.id = ? AND r.live",
    )
    .bind(key.kind as u8)
    .bind(&key.id)
    .fetch_optional(pool)
    .await?;
    row.map(record).transpose()
}

pub(super) async fn list(pool: &SqlitePool, query: &RecordQuery) -> QueryResult<Vec<Record>> {
    let terms = rarest_first(pool, query).await?;
    let mut sql =
        QueryBuilder::<Sqlite>::new("SELECT r.kind, r.id, r.version, e.revision, e.body FROM ");
    let kind = query.kind as u8;
    // CROSS JOIN fixes the join order: the rarest term drives.
    match terms.split_first() {
        None => sql.push("records r"),
        Some((first, rest)) => {
            sql.push(
                "terms t CROSS JOIN records r ON r.kind = t.kind AND r.id = t.id AND t.kind = ",
            );
            sql.push_bind(kind).push(" AND t.term = ").push_bind(first);
            for term in rest {
                sql.push(" AND EXISTS (SELECT 1 FROM terms o WHERE o.kind = t.kind AND o.id = t.id AND o.term = ");
                sql.push_bind(term).push(")");
            }
            &mut sql
        }
    };
    let id = if terms.is_empty() { "r.id" } else { "t.id" };
    sql.push(" CROSS JOIN events e ON e.sequence = r.sequence WHERE r.live AND r.kind = ");
    sql.push_bind(kind);
    let (beyond, order) = match query.descending {
        false => (">", ""),
        true => ("<", " DESC"),
    };
    if let Some(after) = &query.after {
        sql.push(format!(" AND {id} {beyond} ")).push_bind(after);
    }
    if !query.id_prefix.is_empty() {
        sql.push(format!(" AND {id} >= "))
            .push_bind(&query.id_prefix);
        sql.push(format!(" AND {id} < "))
            .push_bind(format!("{}{LAST}", query.id_prefix));
    }
    sql.push(format!(" ORDER BY {id}{order} LIMIT "))
        .push_bind(query.limit);
    let rows: Vec<RecordRow> = sql.build_query_as().fetch_all(pool).await?;
    rows.into_iter().map(record).collect()
}

/// The query's terms, rarest first, so that a rare term is never searched among all
/// records with a common one. Tallies are already counted; other terms are counted up
/// to [`PROBE`].
async fn rarest_first(pool: &SqlitePool, query: &RecordQuery) -> QueryResult<Vec<String>> {
    if query.terms.len() < 2 {
        return Ok(query.terms.clone());
    }
    let mut counted: Vec<(String, Option<i64>, i64)> = sqlx::query_as(
        "SELECT w.value,
                (SELECT t.count FROM tallies t WHERE t.kind = ?1 AND t.tally = w.value),
                (SELECT count(*) FROM (
                     SELECT 1 FROM terms t WHERE t.kind = ?1 AND t.term = w.value LIMIT ?2))
         FROM json_each(?3) w",
    )
    .bind(query.kind as u8)
    .bind(PROBE)
    .bind(json!(query.terms).to_string())
    .fetch_all(pool)
    .await?;
    counted.sort_by_key(|(_, tally, probe)| (*probe, tally.unwrap_or(i64::MAX)));
    Ok(counted.into_iter().map(|(term, ..)| term).collect())
}

pub(super) async fn tallies(
    pool: &SqlitePool,
    kind: RecordKind,
    prefix: &str,
) -> QueryResult<BTreeMap<String, u64>> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT tally, count FROM tallies
         WHERE kind = ? AND tally >= ? AND tally < ?",
    )
    .bind(kind as u8)
    .bind(prefix)
    .bind(format!("{prefix}{LAST}"))
    .fetch_all(pool)
    .await?;
    Ok(counts(rows))
}

pub(super) async fn tallies_at(
    pool: &SqlitePool,
    kind: RecordKind,
    prefix: &str,
    revision: u64,
) -> QueryResult<BTreeMap<String, u64>> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT t.tally, coalesce((
             SELECT h.count FROM tally_history h
             WHERE h.kind = t.kind AND h.tally = t.tally AND h.revision <= ?
             ORDER BY h.revision DESC LIMIT 1), 0)
         FROM tallies t WHERE t.kind = ? AND t.tally >= ? AND t.tally < ?",
    )
    .bind(revision.cast_signed())
    .bind(kind as u8)
    .bind(prefix)
    .bind(format!("{prefix}{LAST}"))
    .fetch_all(pool)
    .await?;
    Ok(counts(rows))
}

pub(super) async fn revision_at(pool: &SqlitePool, moment: Timestamp) -> QueryResult<u64> {
    let (revision,): (i64,) = sqlx::query_as(
        "SELECT coalesce((SELECT revision FROM commits WHERE at_ms <= ?
                          ORDER BY at_ms DESC, revision DESC LIMIT 1), 0)",
    )
    .bind(moment.unix_ms())
    .fetch_one(pool)
    .await?;
    Ok(revision.cast_unsigned())
}

pub(super) async fn get_at(
    pool: &SqlitePool,
    key: &RecordKey,
    revision: u64,
) -> QueryResult<Option<Record>> {
    let row: Option<(i64, String, i64, i64, Option<String>)> =
        sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "SELECT kind, id, version, revision, body FROM events
             WHERE kind = ?2 AND id = ?3 AND sequence < {AFTER} ORDER BY sequence DESC LIMIT 1"
        )))
        .bind(revision.cast_signed())
        .bind(key.kind as u8)
        .bind(&key.id)
        .fetch_optional(pool)
        .await?;
    row.and_then(|(kind, id, version, revision, body)| {
        body.map(|body| record((kind, id, version, revision, body)))
    })
    .transpose()
}

pub(super) async fn list_at(
    pool: &SqlitePool,
    kind: RecordKind,
    revision: u64,
) -> QueryResult<Vec<Record>> {
    let rows: Vec<RecordRow> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "SELECT e.kind, e.id, e.version, e.revision, e.body
         FROM records r CROSS JOIN events e ON e.sequence = (
             SELECT max(p.sequence) FROM events p
             WHERE p.kind = r.kind AND p.id = r.id AND p.sequence < {AFTER})
         WHERE r.kind = ?2 AND e.body IS NOT NULL ORDER BY r.id"
    )))
    .bind(revision.cast_signed())
    .bind(kind as u8)
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(record).collect()
}

pub(super) async fn reply(
    pool: &SqlitePool,
    id: &str,
    now: Timestamp,
) -> QueryResult<Option<RememberedReply>> {
    let row: Option<(Vec<u8>, i64)> =
        sqlx::query_as("SELECT sealed, expires_ms FROM replies WHERE id = ? AND expires_ms > ?")
            .bind(id)
            .bind(now.unix_ms())
            .fetch_optional(pool)
            .await?;
    Ok(row.map(|(sealed, expires_ms)| RememberedReply {
        id: id.to_owned(),
        sealed,
        expires_at: Timestamp::from_unix_ms(expires_ms),
    }))
}

pub(super) async fn last_used(
    pool: &SqlitePool,
    kind: RecordKind,
    ids: &[String],
) -> QueryResult<BTreeMap<String, Timestamp>> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT u.id, u.at_ms FROM json_each(?) w CROSS JOIN uses u
           ON u.kind = ? AND u.id = w.value",
    )
    .bind(json!(ids).to_string())
    .bind(kind as u8)
    .fetch_all(pool)
    .await?;
    Ok(rows
        .into_iter()
        .map(|(id, at)| (id, Timestamp::from_unix_ms(at)))
        .collect())
}

struct EventFields {
    sequence: i64,
    revision: i64,
    at_ms: i64,
    actor: String,
    action: String,
    reason: Option<String>,
    kind: i64,
    id: String,
    version: i64,
    before: Option<String>,
    after: Option<String>,
}

impl FromRow<'_, SqliteRow> for EventFields {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            sequence: row.try_get("sequence")?,
            revision: row.try_get("revision")?,
            at_ms: row.try_get("at_ms")?,
            actor: row.try_get("actor")?,
            action: row.try_get("action")?,
            reason: row.try_get("reason")?,
            kind: row.try_get("kind")?,
            id: row.try_get("id")?,
            version: row.try_get("version")?,
            before: row.try_get("before")?,
            after: row.try_get("after")?,
        })
    }
}

const SELECT_EVENTS: &str = "SELECT e.sequence, e.revision, c.at_ms, a.actor, c.action, c.reason,
        e.kind, e.id, e.version, p.body AS before, e.body AS after
    FROM events e CROSS JOIN commits c ON c.revision = e.revision
    CROSS JOIN actors a ON a.id = c.actor
    LEFT JOIN events p ON p.sequence = e.previous WHERE ";

pub(super) async fn changes(
    pool: &SqlitePool,
    revision: u64,
    limit: u32,
) -> QueryResult<Vec<RegistryEvent>> {
    // Return whole commits only: up to the end of the commit that contains the limit.
    // Sequence numbers have no gaps.
    let rows: Vec<EventFields> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "{SELECT_EVENTS} e.sequence >= {AFTER} AND e.sequence < coalesce((
             SELECT first_sequence FROM commits WHERE revision > (
                 SELECT l.revision FROM events l WHERE l.sequence = {AFTER} + ?2)
             ORDER BY revision LIMIT 1), 9223372036854775807)
         ORDER BY e.sequence"
    )))
    .bind(revision.cast_signed())
    .bind(limit.saturating_sub(1))
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(event).collect()
}

pub(super) async fn events(
    pool: &SqlitePool,
    query: &EventQuery,
) -> QueryResult<Vec<RegistryEvent>> {
    let mut sql = QueryBuilder::<Sqlite>::new(SELECT_EVENTS);
    sql.push("true");
    if let Some(kind) = query.kind {
        sql.push(" AND e.kind = ").push_bind(kind as u8);
        if let Some(id) = &query.id {
            sql.push(" AND e.id = ").push_bind(id);
        }
    }
    if let Some(hidden) = query.hidden {
        sql.push(" AND e.kind <> ").push_bind(hidden as u8);
    }
    if let Some(before) = query.before {
        sql.push(" AND e.sequence < ")
            .push_bind(before.cast_signed());
    }
    if let Some(since) = query.since {
        sql.push(" AND e.sequence >= coalesce((SELECT first_sequence FROM commits WHERE at_ms >= ");
        sql.push_bind(since.unix_ms());
        sql.push(" ORDER BY at_ms, revision LIMIT 1), 9223372036854775807)");
    }
    if let Some(until) = query.until {
        let revision = revision_at(pool, until).await?;
        sql.push(
            " AND e.sequence < coalesce((SELECT first_sequence FROM commits WHERE revision > ",
        );
        sql.push_bind(revision.cast_signed());
        sql.push(" ORDER BY revision LIMIT 1), 9223372036854775807)");
    }
    sql.push(" ORDER BY e.sequence DESC LIMIT ")
        .push_bind(query.limit);
    let rows: Vec<EventFields> = sql.build_query_as().fetch_all(pool).await?;
    rows.into_iter().map(event).collect()
}

fn counts(rows: Vec<(String, i64)>) -> BTreeMap<String, u64> {
    rows.into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(tally, count)| (tally, count.cast_unsigned()))
        .collect()
}

fn record((kind, id, version, revision, body): RecordRow) -> QueryResult<Record> {
    Ok(Record {
        key: RecordKey::new(kind_from_number(kind)?, id),
        version: version.cast_unsigned(),
        revision: revision.cast_unsigned(),
        body,
    })
}

fn event(row: EventFields) -> QueryResult<RegistryEvent> {
    Ok(RegistryEvent {
        sequence: row.sequence.cast_unsigned(),
        revision: row.revision.cast_unsigned(),
        at: Timestamp::from_unix_ms(row.at_ms),
        actor: serde_json::from_str(&row.actor).map_err(decode)?,
        action: row.action,
        reason: row.reason,
        key: RecordKey::new(kind_from_number(row.kind)?, row.id),
        version: row.version.cast_unsigned(),
        before: row.before,
        after: row.after,
    })
}
