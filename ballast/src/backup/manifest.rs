//! The description of a backup: `manifest.json`, written last.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use ballast_domain::{ShardId, Timestamp};
use serde::{Deserialize, Serialize};

/// The format that this program writes; it reads earlier ones too. Format 2 added executions,
/// format 3 the files of closed polls and the certificate signing key.
pub(super) const FORMAT: u32 = 3;
pub(super) const NAME: &str = "manifest.json";

/// A backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) format: u32,
    /// The version of the program that made it.
    pub(super) program: String,
    pub(super) created_at: Timestamp,
    pub(super) registry: RegistryCopy,
    pub(super) shards: Vec<ShardCopy>,
    /// The store of workflow executions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) executions: Option<FileCopy>,
    /// The key that signs certificates of migrations: a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) certificate_key: Option<FileCopy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RegistryCopy {
    pub(super) file: FileCopy,
    /// The last change in it.
    pub(super) revision: u64,
    pub(super) tenants: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShardCopy {
    #[serde(rename = "shardID")]
    pub(super) shard_id: ShardId,
    /// Where its files are, in the backup and under the data directory.
    pub(super) directory: String,
    /// The last group in it.
    pub(super) position: u64,
    /// When that group was written.
    pub(super) as_of: Option<Timestamp>,
    pub(super) polls: u64,
    pub(super) voters: u64,
    pub(super) votes: u64,
    /// Equal data, equal digest.
    pub(super) digest: String,
    pub(super) files: Vec<FileCopy>,
    /// The files of its closed polls, by their paths in its archive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) archive: Vec<FileCopy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileCopy {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// BLAKE3, in hexadecimal.
    pub(super) checksum: String,
}

impl FileCopy {
    /// Reads a file's size and checksum.
    pub(super) fn from_file(path: &Path, name: &str) -> anyhow::Result<Self> {
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 1 << 16];
        let mut bytes = 0;
        loop {
            match reader.read(&mut buffer)? {
                0 => break,
                more => {
                    hasher.update(&buffer[..more]);
                    bytes += more as u64;
                }
            }
        }
        Ok(Self {
            name: name.to_owned(),
            bytes,
            checksum: hasher.finalize().to_hex().to_string(),
        })
    }
}

impl Manifest {
    /// Reads the manifest of a backup.
    pub(super) fn read(backup: &Path) -> anyhow::Result<Self> {
        let path = backup.join(NAME);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("read {} (is this a complete backup?)", path.display()))?;
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let unreadable = || format!("{} cannot be read", path.display());
        let Format { format } = serde_json::from_str(&text).with_context(unreadable)?;
        if !(1..=FORMAT).contains(&format) {
            bail!("the backup has format {format}; this program reads formats up to {FORMAT}");
        }
        serde_json::from_str(&text).with_context(unreadable)
    }
}
