//! The first start: shards, and an admin token that is shown once.
//!
//! A token that goes to a file or to a program's stderr gets there before its
//! hash reaches the registry: a crash in between leaves a token that never
//! worked, and the next start makes (or, with a file, takes up) another. The
//! other order could lock a program out; a person is shown the token with the
//! greeting, and has `ballast token reset`.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ballast_control_plane::{ControlPlane, bootstrap};
use ballast_domain::credential::{Credential, Purpose};

use crate::config::Config;
use ballast_cli::Screen;

/// What became of the admin token.
pub(crate) enum Token {
    /// This is not the first start: it is where it was.
    Old,
    /// It is to be printed, this once.
    Fresh(Credential),
    /// It is in this file.
    InFile(PathBuf),
}

/// Does what a first start does, if this is one.
pub(crate) async fn prepare(
    plane: &ControlPlane,
    config: &Config,
    file: Option<&Path>,
    screen: &Screen,
) -> anyhow::Result<Token> {
    if !bootstrap::is_needed(plane).await? {
        return Ok(Token::Old);
    }
    let (secret, token) = match file {
        Some(file) => {
            let secret = in_file(plane, file)?;
            (secret, Token::InFile(file.to_owned()))
        }
        None => {
            let secret = Credential::generate(Purpose::AdminToken, plane.entropy());
            (secret.clone(), Token::Fresh(secret))
        }
    };
    if let (Token::Fresh(secret), true) = (&token, screen.json) {
        screen.note(&format!(
            "admin token, shown this once: {}",
            secret.expose()
        ));
    }
    bootstrap::run(plane, config.fleet.shards, &secret).await?;
    Ok(token)
}

/// The token that is in the file already, or a fresh one written there.
fn in_file(plane: &ControlPlane, file: &Path) -> anyhow::Result<Credential> {
    match fs::read_to_string(file) {
        Ok(text) if !text.trim().is_empty() => {
            let secret = Credential::parse(text.trim()).ok();
            match secret.filter(|secret| secret.purpose() == Purpose::AdminToken) {
                Some(secret) => Ok(secret),
                None => bail!(
                    "{} holds something that is no admin token; name another --admin-token-file, or remove it",
                    file.display()
                ),
            }
        }
        Ok(_) => written(plane, file),
        Err(error) if error.kind() == ErrorKind::NotFound => written(plane, file),
        Err(error) => Err(error).with_context(|| format!("read {}", file.display())),
    }
}

fn written(plane: &ControlPlane, file: &Path) -> anyhow::Result<Credential> {
    let secret = Credential::generate(Purpose::AdminToken, plane.entropy());
    write_secret(file, &secret)?;
    Ok(secret)
}

/// Writes a secret to a file that only its owner may read: whole or not at
/// all, and on disk before anyone relies on it.
fn write_secret(file: &Path, secret: &Credential) -> anyhow::Result<()> {
    Draft::write(file, secret)?.publish()
}

/// A secret that is on disk beside its file, and not yet in it.
pub(crate) struct Draft {
    draft: PathBuf,
    file: PathBuf,
}

impl Draft {
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

    /// Puts the draft in the file's place.
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
