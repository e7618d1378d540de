//! What the console needs from the server that hosts it.

use std::sync::Arc;

/// Access to the server's settings in effect.
pub trait RunningSettings: Send + Sync + 'static {
    /// All settings as the text of a configuration file, without secrets.
    fn text(&self) -> String;

    /// All settings as JSON, by section.
    fn value(&self) -> serde_json::Value;

    /// Validates the text of a configuration file; `None` if it is valid.
    fn problem_with(&self, text: &str) -> Option<String>;

    /// Reloads the configuration. Returns the sections that take effect only at the
    /// next start. On an error nothing changes.
    ///
    /// # Errors
    /// If the configuration cannot be read or is invalid.
    fn reload(&self) -> Result<Vec<String>, String>;
}

/// The shared handle to the settings in effect.
pub type Running = Arc<dyn RunningSettings>;
