//! Maps the registry's JSON bodies to the domain's types.

use ballast_domain::registry::{
    ABSENT, Entity, Record, RecordKey, RecordQuery, RecordWrite, Registry, RegistryError,
    RegistryResult,
};
use serde::Serialize;

/// A record with its version.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Versioned<T> {
    /// The record.
    #[serde(flatten)]
    pub value: T,
    /// Its version: the ETag without quotes.
    pub version: u64,
}

/// Decodes a record's body.
pub fn decode<T: Entity>(record: &Record) -> RegistryResult<Versioned<T>> {
    let value = serde_json::from_str(&record.body)
        .map_err(|source| RegistryError::new("read a stored record", source))?;
    Ok(Versioned {
        value,
        version: record.version,
    })
}

/// One record by its id.
pub async fn get<T: Entity>(
    registry: &dyn Registry,
    id: &str,
) -> RegistryResult<Option<Versioned<T>>> {
    let record = registry.get(&RecordKey::new(T::KIND, id)).await?;
    record.as_ref().map(decode).transpose()
}

/// A page of records.
pub async fn list<T: Entity>(
    registry: &dyn Registry,
    query: &RecordQuery,
) -> RegistryResult<Vec<Versioned<T>>> {
    registry.list(query).await?.iter().map(decode).collect()
}

/// The record with this unique term.
pub async fn find<T: Entity>(
    registry: &dyn Registry,
    term: String,
) -> RegistryResult<Option<Versioned<T>>> {
    let query = RecordQuery {
        terms: vec![term],
        ..RecordQuery::all(T::KIND, 1)
    };
    Ok(list(registry, &query).await?.pop())
}

/// Creates a record; `extra` are terms that do not follow from its body.
pub fn create<T: Entity>(value: &T, extra: Vec<String>) -> RegistryResult<RecordWrite> {
    let mut terms = value.terms();
    terms.extend(extra);
    Ok(RecordWrite {
        key: RecordKey::new(T::KIND, value.record_id()),
        expected: ABSENT,
        body: Some(encode(value)?),
        terms: Some(terms),
        tallies: value.tallies(),
    })
}

/// Writes a record over the version that was read.
pub fn update<T: Entity>(old: u64, value: &T) -> RegistryResult<RecordWrite> {
    Ok(RecordWrite {
        expected: old,
        ..create(value, Vec::new())?
    })
}

/// Writes a record and keeps its stored terms, for records with terms that do not
/// follow from their body.
pub fn update_keeping_terms<T: Entity>(old: u64, value: &T) -> RegistryResult<RecordWrite> {
    Ok(RecordWrite {
        terms: None,
        ..update(old, value)?
    })
}

/// Removes a record at the version that was read.
pub fn remove<T: Entity>(old: u64, value: &T) -> RecordWrite {
    RecordWrite {
        key: RecordKey::new(T::KIND, value.record_id()),
        expected: old,
        body: None,
        terms: None,
        tallies: Vec::new(),
    }
}

fn encode<T: Entity>(value: &T) -> RegistryResult<String> {
    serde_json::to_string(value).map_err(|source| RegistryError::new("write a record", source))
}
