//! `ballast token reset`: a new admin token for a stopped instance.

use std::path::{Path, PathBuf};

use ballast_control_plane::tokens;
use ballast_domain::credential::{Credential, Purpose};
use serde_json::json;

use super::first_start::SecretDraft;
use super::lock::DataDir;
use super::parts::open_plane;
use crate::config;
use ballast_cli::{CommandOutcome, Screen};

/// Makes a new admin token and ends the one that was lost.
pub(crate) async fn reset_token(
    data_dir: Option<&Path>,
    file: Option<&Path>,
    screen: &Screen,
) -> anyhow::Result<CommandOutcome> {
    let config = config::load(None)?;
    let data_dir: PathBuf = data_dir.unwrap_or(&config.server.data_dir).to_owned();
    if !data_dir.join("registry.db").exists() {
        anyhow::bail!(
            "{} contains no Ballast data; name its --data-dir",
            data_dir.display()
        );
    }
    let lock = DataDir::take(&data_dir)?;
    let (registry, plane) = open_plane(&config, lock.path()).await?;
    let secret = Credential::generate(Purpose::AdminToken, plane.entropy());
    // On disk before the old token ends; in its place only afterwards.
    let draft = file
        .map(|file| SecretDraft::write(file, &secret))
        .transpose()?;
    tokens::reset(&plane, &secret).await?;
    registry.close().await;
    if let Some(draft) = draft {
        draft.publish()?;
    }
    let text = match (screen.json, file) {
        (true, Some(file)) => json!({ "tokenFile": file }).to_string(),
        (true, None) => json!({ "token": secret.expose() }).to_string(),
        (false, Some(file)) => format!("a new admin token is in {}", file.display()),
        (false, None) => secret.expose().to_owned(),
    };
    screen.hint("created a new admin token, shown only once; the lost one no longer works");
    screen
        .data(text.as_bytes())
        .map_err(|_| anyhow::anyhow!("stdout is closed"))?;
    Ok(CommandOutcome::Done)
}
