//! What the console asks of whoever runs it.

use std::sync::Arc;

/// The settings that are in force, as their owner tells them.
pub trait RunningSettings: Send + Sync + 'static {
    /// All settings, as the text of a configuration file. It holds no secret.
    fn text(&self) -> String;

    /// The same, section by section.
    fn value(&self) -> serde_json::Value;

    /// What is wrong with the text of a configuration file; `None` when it
    /// would do.
    fn problem_with(&self, text: &str) -> Option<String>;

    /// Reads the configuration again; says what takes effect at the next start
    /// only, or what is wrong with it: then everything stays as it was.
    ///
    /// # Errors
    /// The configuration cannot be read, or is not valid.
    fn reload(&self) -> Result<Vec<String>, String>;
}

/// Whoever knows the settings in force.
pub type Running = Arc<dyn RunningSettings>;
