//! Builds the console from its key, its settings and the running configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballast_console::{Console, ConsoleSettings};

use super::key_file::KeyFile;
use super::parts::Services;
use super::reload::Reload;
use crate::config::Config;
use crate::machine::SystemEntropy;

/// The key that protects its cookies and links.
const KEY: KeyFile = KeyFile {
    name: "console.key",
    renewed: "everyone must log in again, and links to results must be recreated",
};

/// The console's key of a data directory.
pub(crate) fn key(data_dir: &Path) -> anyhow::Result<[u8; 32]> {
    KEY.load_or_create(data_dir, &SystemEntropy)
}

/// The console of this process; `None` if it is disabled.
pub(crate) fn console(
    parts: &Services,
    config: &Config,
    reload: &Arc<Reload>,
    story: Option<PathBuf>,
) -> anyhow::Result<Option<Console>> {
    if !config.console.enabled {
        return Ok(None);
    }
    let key = key(&parts.data_dir)?;
    let settings = ConsoleSettings {
        session: config.console.session.0,
        secure: parts.public_url().starts_with("https://"),
        public_url: parts.public_url().to_owned(),
        story,
    };
    let plane = parts.plane.clone();
    Ok(Some(Console::new(plane, key, settings, reload.clone())))
}
