//! Remembers which shards this data directory has opened. A directory that disappeared must not
//! become a new, empty shard: its votes would silently be missing.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use ballast_domain::ShardId;

use super::shard_identity::has_log;

/// One file per opened shard, which holds its URL.
pub(crate) struct KnownShards {
    directory: PathBuf,
}

impl KnownShards {
    /// The known shards of a data directory.
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self {
            directory: data_dir.join("opened-shards"),
        }
    }

    fn mark(&self, id: &ShardId) -> PathBuf {
        self.directory.join(id.as_str())
    }

    /// Refuses a shard directory whose files have disappeared.
    pub(crate) fn check(&self, id: &ShardId, url: &str, directory: &Path) -> Result<(), String> {
        let known = match fs::read_to_string(self.mark(id)) {
            Ok(known) => known,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        // An open shard always has a log segment.
        if known == url && !has_log(directory) {
            return Err(format!(
                "its files are missing: {} existed when it was last opened; bring it back, or restore a backup",
                directory.display()
            ));
        }
        Ok(())
    }

    /// Whether a shard was ever opened here.
    pub(crate) fn was_opened(&self, id: &ShardId) -> bool {
        self.mark(id).exists()
    }

    /// Records that a shard was opened.
    pub(crate) fn record_opened(&self, id: &ShardId, url: &str) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        fs::write(self.mark(id), url)?;
        File::open(self.mark(id))?.sync_all()?;
        File::open(&self.directory)?.sync_all()
    }

    /// Forgets shards that left the fleet: their ids may be reused.
    pub(crate) fn forget_others<T>(&self, wanted: &HashMap<ShardId, T>) {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !wanted.contains_key(name.as_str()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_gone_are_not_taken_for_a_new_shard() {
        let place = tempfile::tempdir().unwrap();
        let known = KnownShards::new(place.path());
        let id: ShardId = "shard-1".parse().unwrap();
        let directory = place.path().join("shards/shard-1");
        let url = "file:shards/shard-1";
        assert!(known.check(&id, url, &directory).is_ok(), "new");
        known.record_opened(&id, url).unwrap();
        assert!(known.check(&id, url, &directory).is_err(), "gone");
        fs::create_dir_all(&directory).unwrap();
        assert!(known.check(&id, url, &directory).is_err(), "empty");
        fs::create_dir(directory.join("lost+found")).unwrap();
        assert!(known.check(&id, url, &directory).is_err(), "another disk");
        fs::write(directory.join("log-0000000000000001.seg"), "").unwrap();
        assert!(known.check(&id, url, &directory).is_ok(), "there");
        assert!(
            known
                .check(&id, "file:other", &place.path().join("other"))
                .is_ok()
        );
        known.forget_others(&HashMap::<ShardId, ()>::new());
        fs::remove_dir_all(&directory).unwrap();
        assert!(known.check(&id, url, &directory).is_ok(), "added anew");
    }
}
