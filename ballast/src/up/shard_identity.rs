//! A shard's directory belongs to one registry: under another one a new tenant of an old name
//! would read the old tenant's votes.
//!
//! ```text
//!   shard.json: {"version":1,"shardID":"shard-1","registryID":"…"}
//!   written durably before the first vote, checked at every start
//! ```

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use ballast_control_plane::registry::RegistryId;
use ballast_domain::ShardId;
use serde::{Deserialize, Serialize};

/// The file in the shard's directory.
pub(crate) const FILE: &str = "shard.json";
const DRAFT: &str = "shard.json.new";
const VERSION: u32 = 1;

/// Which shard's files are in a directory, and whose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShardIdentity {
    version: u32,
    #[serde(rename = "shardID")]
    pub(crate) shard_id: ShardId,
    #[serde(rename = "registryID")]
    pub(crate) registry_id: RegistryId,
}

/// Why a directory cannot be this shard's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    /// Its files are another shard's, or another registry's.
    #[error(
        "the directory has the files of {found} of the registry {registry}, not of {wanted} of \
         this registry ({own}); give the shard another directory, or put the right registry.db back"
    )]
    Foreign {
        /// The shard in the directory.
        found: ShardId,
        /// Its registry.
        registry: RegistryId,
        /// The shard that was to be opened.
        wanted: ShardId,
        /// The registry that names it.
        own: RegistryId,
    },
    /// It has files of a shard that this registry never opened.
    #[error(
        "the directory has a shard's files, and this registry never opened them; give the shard \
         an empty directory, or put the right registry.db back"
    )]
    NeverOpened,
    /// The file is of a newer version, or damaged.
    #[error("{FILE} cannot be read: {0}")]
    Unreadable(String),
    /// The disk failed.
    #[error("{doing} {FILE}")]
    Disk {
        /// The operation.
        doing: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl ShardIdentity {
    /// Reads the identity of a directory; `None` if it has none.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, IdentityError> {
        let text = match fs::read_to_string(directory.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                let doing = "read";
                return Err(IdentityError::Disk { doing, source });
            }
        };
        let read: Self = serde_json::from_str(&text)
            .map_err(|error| IdentityError::Unreadable(error.to_string()))?;
        match read.version {
            VERSION => Ok(Some(read)),
            newer => Err(IdentityError::Unreadable(format!(
                "it has version {newer}, and this program reads version {VERSION}"
            ))),
        }
    }

    /// Checks that the directory is this shard's, and makes it so if it is new or was written
    /// before shards had identities. The caller has the directory locked.
    pub(crate) fn claim(
        directory: &Path,
        shard_id: &ShardId,
        registry_id: &RegistryId,
        was_opened: bool,
    ) -> Result<(), IdentityError> {
        let own = Self {
            version: VERSION,
            shard_id: shard_id.clone(),
            registry_id: registry_id.clone(),
        };
        match Self::read(directory)? {
            Some(found) if found == own => Ok(()),
            Some(found) => Err(IdentityError::Foreign {
                found: found.shard_id,
                registry: found.registry_id,
                wanted: own.shard_id,
                own: own.registry_id,
            }),
            None if has_log(directory) && !was_opened => Err(IdentityError::NeverOpened),
            None => own.write(directory).map_err(|source| {
                let doing = "write";
                IdentityError::Disk { doing, source }
            }),
        }
    }

    fn write(&self, directory: &Path) -> io::Result<()> {
        let draft = directory.join(DRAFT);
        let mut file = File::create(&draft)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&draft, directory.join(FILE))?;
        File::open(directory)?.sync_all()
    }
}

/// Whether a directory has the log of a shard. Other files may exist by chance, such as
/// lost+found on a new disk.
pub(crate) fn has_log(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|entries| {
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .into_iter()
            .any(|name| name.to_string_lossy().ends_with(".seg"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(text: &str) -> RegistryId {
        serde_json::from_value(text.into()).unwrap()
    }

    #[test]
    fn a_directory_belongs_to_one_shard_of_one_registry() {
        let place = tempfile::tempdir().unwrap();
        let [one, two]: [ShardId; 2] = ["shard-1", "shard-2"].map(|id| id.parse().unwrap());
        let [ours, theirs] = ["aa", "bb"].map(registry);
        let claim =
            |shard, registry, opened| ShardIdentity::claim(place.path(), shard, registry, opened);
        claim(&one, &ours, false).unwrap();
        claim(&one, &ours, true).unwrap();
        let golden = r#"{"version":1,"shardID":"shard-1","registryID":"aa"}"#;
        let written = fs::read_to_string(place.path().join(FILE)).unwrap();
        assert_eq!(written, golden);
        for (shard, registry) in [(&one, &theirs), (&two, &ours)] {
            let refused = claim(shard, registry, true);
            assert!(matches!(refused, Err(IdentityError::Foreign { .. })));
        }
        let newer = golden.replace(":1,", ":2,");
        for bad in [newer.as_str(), "{", ""] {
            fs::write(place.path().join(FILE), bad).unwrap();
            let refused = claim(&one, &ours, true);
            assert!(
                matches!(refused, Err(IdentityError::Unreadable(_))),
                "{bad}"
            );
        }
    }

    #[test]
    fn old_files_are_claimed_only_by_who_opened_them() {
        let place = tempfile::tempdir().unwrap();
        let one: ShardId = "shard-1".parse().unwrap();
        fs::write(place.path().join("log-0000000000000001.seg"), "").unwrap();
        let claim = |opened| ShardIdentity::claim(place.path(), &one, &registry("aa"), opened);
        assert!(matches!(claim(false), Err(IdentityError::NeverOpened)));
        assert_eq!(ShardIdentity::read(place.path()).unwrap(), None);
        claim(true).unwrap();
        claim(false).unwrap();
    }
}
