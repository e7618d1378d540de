//! `ballast config check`, `ballast config schema`, `ballast config show`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;

use super::{Config, load};
use crate::cli::output::Output;

/// What can be asked of the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file without starting anything
    Check {
        /// The file
        #[arg(default_value = "ballast.toml")]
        file: PathBuf,
    },
    /// Print the JSON Schema of the configuration file
    Schema,
    /// Print the settings in force, defaults included
    Show {
        /// The file; ballast.toml if there is one
        file: Option<PathBuf>,
    },
}

/// Runs one of them.
pub fn run(command: &ConfigCommand, output: &Output) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Check { file } => return check(file, output),
        ConfigCommand::Schema => output.json(&schemars::schema_for!(Config))?,
        ConfigCommand::Show { file } => {
            let config = load(file.as_deref())?;
            if output.is_json() {
                output.json(&config)?;
            } else {
                output.text(&toml::to_string_pretty(&config)?)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(file: &PathBuf, output: &Output) -> anyhow::Result<ExitCode> {
    let (valid, line, message) = match load(Some(file)) {
        Ok(_) => (true, None, None),
        Err(error) => (false, error.line, Some(error.to_string())),
    };
    if output.is_json() {
        output.json(&json!({ "valid": valid, "file": file, "line": line, "message": message }))?;
    } else if let Some(message) = message {
        output.note(&message);
    } else {
        output.text(&format!("{} is valid", file.display()))?;
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
