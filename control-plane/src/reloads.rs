//! Audit record of settings reloads: who reloaded the settings, when, and what
//! changed.

use ballast_domain::Result;
use ballast_domain::registry::{Entity, RecordKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::commit_failed;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// Id of the single settings record.
const CONFIGURATION: &str = "configuration";

/// The settings, section by section. They contain no secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct ReloadedSettings(Value);

impl Entity for ReloadedSettings {
    const KIND: RecordKind = RecordKind::Settings;
    fn record_id(&self) -> &str {
        CONFIGURATION
    }
    fn terms(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Records that the settings were reloaded, with their new values.
pub async fn record_reload(plane: &ControlPlane, intent: &Intent, settings: Value) -> Result<()> {
    let before = typed::get::<ReloadedSettings>(plane.registry(), CONFIGURATION).await?;
    let settings = ReloadedSettings(settings);
    let write = match before {
        Some(before) => typed::update(before.version, &settings)?,
        None => typed::create(&settings, Vec::new())?,
    };
    let commit = intent.commit("settings.reload", vec![write], Vec::new());
    let noted = plane.registry().commit(commit).await;
    noted.map_err(commit_failed)?;
    Ok(())
}
