//! The domain's types over the registry's JSON bodies.

use ballast_domain::registry::{
    ABSENT, Entity, Record, RecordKey, RecordQuery, Registry, StoreError, StoreResult, Write,
};
use serde::Serialize;

/// A record with its version: what is read, changed and written back.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Versioned<T> {
    /// What it says.
    #[serde(flatten)]
    pub value: T,
    /// Its version: the ETag without quotes.
    pub version: u64,
}

/// Reads a record's body.
pub fn decode<T: Entity>(record: &Record) -> StoreResult<Versioned<T>> {
    let value = serde_json::from_str(&record.body)
        .map_err(|source| StoreError::new("read a stored record", source))?;
    Ok(Versioned {
        value,
        version: record.version,
    })
}

/// One record by its id.
pub async fn get<T: Entity>(
    registry: &dyn Registry,
    id: &str,
) -> StoreResult<Option<Versioned<T>>> {
    let record = registry.get(&RecordKey::new(T::KIND, id)).await?;
    record.as_ref().map(decode).transpose()
}

/// A page of records.
pub async fn list<T: Entity>(
    registry: &dyn Registry,
    query: &RecordQuery,
) -> StoreResult<Vec<Versioned<T>>> {
    registry.list(query).await?.iter().map(decode).collect()
}

/// The one record that has this term.
pub async fn find<T: Entity>(
    registry: &dyn Registry,
    term: String,
) -> StoreResult<Option<Versioned<T>>> {
    let query = RecordQuery {
        terms: vec![term],
        ..RecordQuery::all(T::KIND, 1)
    };
    Ok(list(registry, &query).await?.pop())
}

/// Creates a record; `extra` are terms that are not told from its body.
pub fn create<T: Entity>(value: &T, extra: Vec<String>) -> StoreResult<Write> {
    let mut terms = value.terms();
    terms.extend(extra);
    Ok(Write {
        key: RecordKey::new(T::KIND, value.record_id()),
        expected: ABSENT,
        body: Some(encode(value)?),
        terms: Some(terms),
        tallies: value.tallies(),
    })
}

/// Writes a record back over the version it was read at.
pub fn update<T: Entity>(old: u64, value: &T) -> StoreResult<Write> {
    Ok(Write {
        expected: old,
        ..create(value, Vec::new())?
    })
}

/// Writes a record back and leaves the terms it is found by as they are: for
/// records with terms that their body does not tell.
pub fn update_keeping_terms<T: Entity>(old: u64, value: &T) -> StoreResult<Write> {
    Ok(Write {
        terms: None,
        ..update(old, value)?
    })
}

/// Removes a record that was read at this version.
pub fn remove<T: Entity>(old: u64, value: &T) -> Write {
    Write {
        key: RecordKey::new(T::KIND, value.record_id()),
        expected: old,
        body: None,
        terms: None,
        tallies: Vec::new(),
    }
}

fn encode<T: Entity>(value: &T) -> StoreResult<String> {
    serde_json::to_string(value).map_err(|source| StoreError::new("write a record", source))
}
