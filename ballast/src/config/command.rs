//! `ballast config check`, `ballast config schema`, `ballast config show`.

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;
use serde_json::json;

use super::{Config, load};
use crate::help;
use ballast_cli::{CommandOutcome, Screen};

/// Commands on the configuration.
#[derive(Debug, Subcommand)]
#[command(after_help = help::CONFIG)]
pub(crate) enum ConfigCommand {
    /// Check a configuration file without starting anything
    #[command(after_help = help::CONFIG_CHECK)]
    Check {
        /// The file
        #[arg(default_value = "ballast.toml")]
        file: PathBuf,
    },
    /// Print the JSON Schema of the configuration file
    #[command(after_help = help::CONFIG_SCHEMA)]
    Schema,
    /// Print the settings in force, defaults included
    #[command(after_help = help::CONFIG_SHOW)]
    Show {
        /// The file [default: ballast.toml if it exists]
        file: Option<PathBuf>,
    },
}

/// Runs the command.
pub(crate) fn run(command: &ConfigCommand, screen: &Screen) -> anyhow::Result<CommandOutcome> {
    match command {
        ConfigCommand::Check { file } => return check(file, screen),
        ConfigCommand::Schema => print_json(screen, &schemars::schema_for!(Config))?,
        ConfigCommand::Show { file } => {
            let config = load(file.as_deref())?;
            if screen.json {
                print_json(screen, &config)?;
            } else {
                print(screen, &toml::to_string_pretty(&config)?)?;
            }
        }
    }
    Ok(CommandOutcome::Done)
}

fn check(file: &PathBuf, screen: &Screen) -> anyhow::Result<CommandOutcome> {
    let (valid, line, message) = match load(Some(file)) {
        // The rules file is part of the configuration: Ballast does not start with an invalid one.
        Ok(config) => match config.hotspots.settings(&config.moves) {
            Ok(_) => (true, None, None),
            Err(error) => (false, None, Some(format!("hotspots.rules: {error:#}"))),
        },
        Err(error) => (false, error.line, Some(error.to_string())),
    };
    if screen.json {
        print_json(
            screen,
            &json!({ "valid": valid, "file": file, "line": line, "message": message }),
        )?;
    } else if let Some(message) = message {
        screen.note(&message);
    } else {
        print(screen, &format!("{} is valid", file.display()))?;
    }
    Ok(if valid {
        CommandOutcome::Done
    } else {
        CommandOutcome::Negative
    })
}

fn print_json<T: Serialize>(screen: &Screen, value: &T) -> anyhow::Result<()> {
    print(screen, &serde_json::to_string_pretty(value)?)
}

fn print(screen: &Screen, text: &str) -> anyhow::Result<()> {
    screen
        .data(text.as_bytes())
        .map_err(|_| anyhow::anyhow!("stdout is closed"))
}
