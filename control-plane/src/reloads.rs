//! The settings that are in force, as they were last read again: in the audit
//! log it can be seen who had them read, when, and what was different.

use ballast_domain::Result;
use ballast_domain::registry::{Entity, Kind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::commit_failed;
use crate::intent::Intent;
use crate::plane::ControlPlane;
use crate::registry::typed;

/// The one record of them.
const CONFIGURATION: &str = "configuration";

/// The settings, section by section. They hold no secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Settings(Value);

impl Entity for Settings {
    const KIND: Kind = Kind::Settings;
    fn record_id(&self) -> &str {
        CONFIGURATION
    }
    fn terms(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Writes down that the settings were read again, and what they are now.
pub async fn note(plane: &ControlPlane, intent: &Intent, settings: Value) -> Result<()> {
    let before = typed::get::<Settings>(plane.registry(), CONFIGURATION).await?;
    let settings = Settings(settings);
    let write = match before {
        Some(before) => typed::update(before.version, &settings)?,
        None => typed::create(&settings, Vec::new())?,
    };
    let commit = intent.commit("settings.reload", vec![write], Vec::new());
    let noted = plane.registry().commit(commit).await;
    noted.map_err(commit_failed)?;
    Ok(())
}
