//! The first start: creates the shards and an admin token that is shown once.
//!
//! A token for a file or a program's stderr is written before its hash reaches the registry. A
//! crash in between leaves a token that never worked; the next start creates another one, or reuses
//! the one in the file. The other order could lock a program out. A person sees the token in the
//! greeting, and has `ballast token reset`.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ballast_control_plane::{ControlPlane, bootstrap};
use ballast_domain::credential::{Credential, Purpose};

use super::orphaned_shards::check_registry_is_new;
use crate::config::Config;
use ballast_cli::Screen;

/// The state of the admin token.
pub(crate) enum AdminTokenState {
    /// Not the first start: the token is unchanged.
    Old,
    /// A new token, to be printed once.
    Fresh(Credential),
    /// A new token in this file.
    InFile(PathBuf),
}

/// Prepares the first start, if this is one.
pub(crate) async fn prepare(
    plane: &ControlPlane,
    config: &Config,
    data_dir: &Path,
    file: Option<&Path>,
    screen: &Screen,
) -> anyhow::Result<AdminTokenState> {
    if !bootstrap::is_needed(plane).await? {
        return Ok(AdminTokenState::Old);
    }
    check_registry_is_new(data_dir)?;
    let (secret, token) = match file {
        Some(file) => {
            let secret = read_or_create(plane, file)?;
            (secret, AdminTokenState::InFile(file.to_owned()))
        }
        None => {
            let secret = Credential::generate(Purpose::AdminToken, plane.entropy());
            (secret.clone(), AdminTokenState::Fresh(secret))
        }
    };
    if let (AdminTokenState::Fresh(secret), true) = (&token, screen.json) {
        screen.note(&format!(
            "admin token, shown only once: {}",
            secret.expose()
        ));
    }
    bootstrap::run(plane, config.fleet.shards, &secret).await?;
    Ok(token)
}

/// Reads the token from the file, or creates one there.
fn read_or_create(plane: &ControlPlane, file: &Path) -> anyhow::Result<Credential> {
    match fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => {
            let secret = Credential::parse(text.trim()).ok();
            match secret.filter(|secret| secret.purpose() == Purpose::AdminToken) {
                Some(secret) => Ok(secret),
                None => bail!(
                    "{} does not contain an admin token; choose another --admin-token-file, or remove it",
                    file.display()
                ),
            }
        }
        Ok(_) => create_in_file(plane, file),
        Err(error) if error.kind() == ErrorKind::NotFound => create_in_file(plane, file),
        Err(error) => Err(error).with_context(|| format!("read {}", file.display())),
    }
}

fn create_in_file(plane: &ControlPlane, file: &Path) -> anyhow::Result<Credential> {
    let secret = Credential::generate(Purpose::AdminToken, plane.entropy());
    write_secret(file, &secret)?;
    Ok(secret)
}

/// Writes a secret atomically and durably to a file that only its owner may read.
fn write_secret(file: &Path, secret: &Credential) -> anyhow::Result<()> {
    SecretDraft::write(file, secret)?.publish()
}

/// A secret on disk next to its file, not yet published.
pub(crate) struct SecretDraft {
    draft: PathBuf,
    file: PathBuf,
}

impl SecretDraft {
    /// Writes the draft.
    pub(crate) fn write(file: &Path, secret: &Credential) -> anyhow::Result<Self> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let draft = file.with_file_name(name);
        let write = || -> std::io::Result<()> {
            // A draft left by a crash may have other permissions.
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut options = OpenOptions::new();
            let mut out = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&draft)?;
            writeln!(out, "{}", secret.expose())?;
            out.sync_all()
        };
        write().with_context(|| format!("write the admin token to {}", file.display()))?;
        Ok(Self {
            draft,
            file: file.to_owned(),
        })
    }

    /// Renames the draft to the file.
    pub(crate) fn publish(self) -> anyhow::Result<()> {
        let Self { draft, file } = self;
        let directory = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::rename(&draft, &file)
            .and_then(|()| fs::File::open(directory)?.sync_all())
            .with_context(|| format!("put the admin token into {}", file.display()))
    }
}
