//! Reads the file; errors name the line and suggest the nearest valid key.

use std::fmt;
use std::path::{Path, PathBuf};

use ballast_domain::error::suggest_nearest;

use super::{Config, validate};

/// The default file.
const DEFAULT_FILE: &str = "ballast.toml";

/// What is wrong with a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// The file.
    pub(crate) file: PathBuf,
    /// The line, if known.
    pub(crate) line: Option<usize>,
    /// What is wrong.
    pub(crate) message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

/// Reads the named file, or `ballast.toml` if there is one, or the defaults.
pub(crate) fn load(named: Option<&Path>) -> Result<Config, ConfigError> {
    let file = named.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Config::default());
        }
        Err(error) => {
            return Err(ConfigError {
                file: file.to_owned(),
                line: None,
                message: format!("cannot be read: {error}"),
            });
        }
    };
    parse(file, &text)
}

/// Reads and checks a file's text.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Config, ConfigError> {
    let config: Config = toml::from_str(text).map_err(|error| ConfigError {
        file: file.to_owned(),
        line: error.span().map(|span| line_at_offset(text, span.start)),
        message: suggest(error.message()),
    })?;
    validate::check(&config).map_err(|(key, message)| ConfigError {
        file: file.to_owned(),
        line: line_of_key(text, key),
        message: format!("{key}: {message}"),
    })?;
    Ok(config)
}

fn line_at_offset(text: &str, offset: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// The line of `section.name`.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let (section, name) = key.split_once('.')?;
    let mut current = "";
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            current = header.trim_end_matches(']').trim();
        } else if current == section && line.split('=').next().map(str::trim) == Some(name) {
            return Some(number + 1);
        }
    }
    None
}

/// Adds the nearest valid key to the parser's error about an unknown key.
fn suggest(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    match quoted.next() {
        Some(unknown) if message.contains("unknown") => {
            format!("{message}{}", suggest_nearest(unknown, quoted))
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(Path::new("ballast.toml"), text)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_typo_is_told_with_file_line_and_the_nearest_key() {
        let error = error("[server]\nlisten = \"127.0.0.1:1\"\ntls_crt = \"x\"\n");
        assert!(error.starts_with("ballast.toml:3: "), "{error}");
        assert!(error.contains("did you mean \"tls_cert\"?"), "{error}");
    }

    #[test]
    fn values_that_cannot_be_are_told_with_their_line() {
        for (text, expected) in [
            (
                "[placement]\nbusy_at = 0.5\ncalm_at = 0.9\n",
                "ballast.toml:3: placement.calm_at",
            ),
            (
                "[server]\nlisten = \"nowhere\"\n",
                "ballast.toml:2: server.listen",
            ),
            (
                "[server]\ntls_cert = \"a.pem\"\n",
                "ballast.toml:2: server.tls_cert",
            ),
            ("[keys]\nrotate_overlap = \"soon\"\n", "ballast.toml:2: "),
            (
                "[keys]\nplaces = [\"cookie:k\"]\n",
                "ballast.toml:2: keys.places",
            ),
            ("[fleet]\nshards = 0\n", "ballast.toml:2: fleet.shards"),
            ("[fleet]\nshards = -1\n", "ballast.toml:2: "),
            ("[fleet]\nregion = \"No Region\"\n", "ballast.toml:2: "),
            (
                "[moves]\nwindow = \"31 days\"\n",
                "ballast.toml:2: moves.window: must be at most 30 days",
            ),
            (
                "[moves]\nmax_pause = \"0s\"\n",
                "ballast.toml:2: moves.max_pause",
            ),
            (
                "[moves]\nseal_max = \"11s\"\n",
                "ballast.toml:2: moves.seal_max",
            ),
            (
                "[moves]\nper_shard_max = 0\n",
                "ballast.toml:2: moves.per_shard_max",
            ),
            (
                "[moves]\nper_region_max = 0\n",
                "ballast.toml:2: moves.per_region_max",
            ),
            (
                "[moves]\nwindows_max = 0\n",
                "ballast.toml:2: moves.windows_max",
            ),
            (
                "[moves]\nbytes_per_second = 1\n",
                "ballast.toml:2: moves.bytes_per_second",
            ),
            (
                "[moves]\narchive_rows_min = 0\n",
                "ballast.toml:2: moves.archive_rows_min",
            ),
            (
                "[moves]\nreverse_failed_percent = 101\n",
                "ballast.toml:2: moves.reverse_failed_percent: must be from 0 to 100",
            ),
            (
                "[moves]\nmaintenance = [\"daily 01:00-05:00\", \"Sunday 02:00-04:00\"]\n",
                "ballast.toml:2: moves.maintenance: \"Sunday 02:00-04:00\" is not a maintenance window",
            ),
            ("[server\n", "ballast.toml:1: "),
        ] {
            let error = error(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_set_about_moves_reaches_them() {
        let text = "[moves]\nwindow = \"30min\"\nmax_pause = \"50ms\"\nseal_max = \"1s\"\n\
                    per_shard_max = 2\nper_region_max = 3\nwindows_max = 5\nbytes_per_second = 4096\n\
                    archive_rows_min = 7\n\
                    approval_above_rows = 5\nmaintenance = [\"Sun 02:00-04:00\"]\n\
                    reverse_failed_percent = 25\nreverse_latency = \"0s\"\nreverse_away = \"2min\"\n";
        let set = parse(Path::new("x"), text).unwrap().moves.settings();
        let expected = ballast_control_plane::migrations::MigrationSettings {
            window_ms: 1_800_000,
            max_pause_ms: Some(50),
            seal_max_ms: 1_000,
            per_shard_max: 2,
            per_region_max: 3,
            windows_max: 5,
            bytes_per_second: Some(4_096),
            archive_rows_min: 7,
            approval_above_rows: Some(5),
            maintenance: vec!["Sun 02:00-04:00".parse().unwrap()],
            budget: ballast_migration_engine::budget::ServiceBudget {
                failed_share: Some(0.25),
                p99_ms: None,
                away_ms: Some(120_000),
            },
        };
        assert_eq!(set, expected);
        let none = parse(Path::new("x"), "").unwrap().moves.settings();
        assert_eq!(none, Default::default());
    }

    #[test]
    fn an_empty_file_is_the_defaults_and_the_defaults_are_valid() {
        assert_eq!(parse(Path::new("x"), ""), Ok(Config::default()));
    }
}
