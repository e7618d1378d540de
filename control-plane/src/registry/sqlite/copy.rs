//! A consistent copy of a registry's file, also while another process writes
//! to it.

use std::path::Path;

use ballast_domain::registry::{StoreError, StoreResult};
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::BUSY_WAIT;

/// Copies the registry at `from` to the file `to`, which must not exist. The
/// copy is one moment of it, compacted.
pub async fn copy_to(from: &Path, to: &Path) -> StoreResult<()> {
    let failed = |source| StoreError::new("copy the registry", source);
    let options = SqliteConnectOptions::new()
        .filename(from)
        .create_if_missing(false)
        .busy_timeout(BUSY_WAIT);
    let mut connection = SqliteConnection::connect_with(&options)
        .await
        .map_err(failed)?;
    let path = to.to_string_lossy().into_owned();
    sqlx::query("VACUUM INTO ?")
        .bind(path)
        .execute(&mut connection)
        .await
        .map_err(failed)?;
    connection.close().await.map_err(failed)
}
