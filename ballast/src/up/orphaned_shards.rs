//! Shards without their registry: a new registry beside them would let a new tenant of an old name
//! read the old tenant's votes, so the start is refused.

use std::fs;
use std::path::Path;

use anyhow::bail;

use super::shard_identity::has_log;

/// The registry's file in a data directory.
pub(crate) const REGISTRY: &str = "registry.db";

/// Refuses a data directory that has shards and no registry.
pub(super) fn check_registry_exists(data_dir: &Path) -> anyhow::Result<()> {
    match data_dir.join(REGISTRY).exists() {
        true => Ok(()),
        false => refuse_shards(data_dir, "is missing"),
    }
}

/// Refuses a data directory that has shards and an empty registry.
pub(super) fn check_registry_is_new(data_dir: &Path) -> anyhow::Result<()> {
    refuse_shards(data_dir, "is empty")
}

fn refuse_shards(data_dir: &Path, what: &str) -> anyhow::Result<()> {
    let shards = list_shards(data_dir);
    if shards.is_empty() {
        return Ok(());
    }
    bail!(
        "{REGISTRY} {what}, but {} has the files of {}: their tenants and keys are in that \
         registry. Put it back, or restore a backup (ballast restore); to start anew, choose an \
         empty directory with --data-dir. `ballast doctor` lists what is there",
        data_dir.display(),
        shards.join(", ")
    );
}

/// The directories under `shards/` with the files of a shard.
pub(crate) fn list_shards(data_dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(data_dir.join("shards")) else {
        return Vec::new();
    };
    let shards = entries.flatten().filter(|entry| has_log(&entry.path()));
    let mut names: Vec<_> = shards
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_without_a_registry_are_refused() {
        let place = tempfile::tempdir().unwrap();
        check_registry_exists(place.path()).unwrap();
        let shard = place.path().join("shards/shard-2");
        fs::create_dir_all(&shard).unwrap();
        check_registry_exists(place.path()).unwrap();
        fs::write(shard.join("log-0000000000000001.seg"), "").unwrap();
        let refused = check_registry_exists(place.path()).unwrap_err().to_string();
        assert!(
            refused.contains("is missing") && refused.contains("shard-2"),
            "{refused}"
        );
        fs::write(place.path().join(REGISTRY), "").unwrap();
        check_registry_exists(place.path()).unwrap();
        assert!(check_registry_is_new(place.path()).is_err());
    }
}
