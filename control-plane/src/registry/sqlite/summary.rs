//! What a registry's file contains, read without changing it, also while another process
//! writes to it.

use std::path::Path;

use ballast_sqlite_store::{SqliteCheckError, open_to_check};

use super::super::RegistryId;

/// What a registry's file contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrySummary {
    /// Its identity; `None` if an earlier program wrote it.
    pub id: Option<RegistryId>,
    /// The number of tenants.
    pub tenants: u64,
    /// Each shard's id and URL.
    pub shards: Vec<(String, String)>,
}

/// Reads the whole file for damage, and what it contains.
pub async fn summarize(path: &Path) -> Result<RegistrySummary, SqliteCheckError> {
    let mut connection = open_to_check(path).await?;
    let unreadable = SqliteCheckError::from_query(path);
    let has_identity: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = 'identity'")
            .fetch_one(&mut connection)
            .await
            .map_err(&unreadable)?;
    let id: Option<String> = match has_identity {
        0 => None,
        _ => sqlx::query_scalar("SELECT registry_id FROM identity")
            .fetch_optional(&mut connection)
            .await
            .map_err(&unreadable)?,
    };
    let tenants: i64 = sqlx::query_scalar("SELECT count(*) FROM view_tenants")
        .fetch_one(&mut connection)
        .await
        .map_err(&unreadable)?;
    let shards = sqlx::query_as("SELECT shard_id, url FROM view_shards ORDER BY shard_id")
        .fetch_all(&mut connection)
        .await
        .map_err(&unreadable)?;
    Ok(RegistrySummary {
        id: id.map(RegistryId::from_stored),
        tenants: tenants.cast_unsigned(),
        shards,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::SqliteRegistry;
    use super::*;
    use crate::registry::conformance::seed_fleet;
    use crate::testing::ManualClock;

    #[tokio::test]
    async fn a_file_is_summarized_while_it_is_open_and_damage_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        assert!(summarize(&path).await.is_err(), "missing");
        let store = SqliteRegistry::open(&path, Arc::new(ManualClock::new()));
        let store = store.await.unwrap();
        seed_fleet(&store).await;
        let summary = summarize(&path).await.unwrap();
        assert_eq!(summary.id.as_ref(), Some(store.id()));
        assert!(summary.tenants > 0 && !summary.shards.is_empty());
        store.close().await;
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..].fill(0x5a);
        std::fs::write(&path, bytes).unwrap();
        assert!(summarize(&path).await.is_err(), "damaged");
    }
}
