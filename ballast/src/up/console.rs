//! The console, put together: its key, its settings, and who knows the
//! configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballast_console::{Console, Settings};

use super::key_file::KeyFile;
use super::parts::Parts;
use super::reload::Reload;
use crate::config::Config;
use crate::machine::SystemEntropy;

/// What seals its cookies and links.
const KEY: KeyFile = KeyFile {
    name: "console.key",
    renewed: "everyone logs in again, and links to results have to be made anew",
};

/// The console's key of a data directory.
pub(crate) fn key(data_dir: &Path) -> anyhow::Result<[u8; 32]> {
    KEY.seed(data_dir, &SystemEntropy)
}

/// The console of this process; `None` when it is not wanted.
pub(crate) fn console(
    parts: &Parts,
    config: &Config,
    reload: &Arc<Reload>,
    story: Option<PathBuf>,
) -> anyhow::Result<Option<Console>> {
    if !config.console.enabled {
        return Ok(None);
    }
    let key = key(&parts.data_dir)?;
    let settings = Settings {
        session: config.console.session.0,
        secure: parts.public_url().starts_with("https://"),
        public_url: parts.public_url().to_owned(),
        story,
    };
    let plane = parts.plane.clone();
    Ok(Some(Console::new(plane, key, settings, reload.clone())))
}
