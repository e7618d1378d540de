//! What every command takes: where the instance is, who asks, how to answer.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Flags accepted before and after every subcommand.
#[derive(Debug, Clone, Args)]
pub struct Globals {
    /// The admin URL of the instance
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "BALLAST_URL",
        hide_env_values = true,
        help_heading = "Connection"
    )]
    #[arg(default_value = "http://127.0.0.1:8080/admin/v1")]
    pub(crate) url: String,
    /// Read the token from this file; BALLAST_TOKEN when absent
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub(crate) token_file: Option<PathBuf>,
    /// Trust the certificates in this PEM file, and no others
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "BALLAST_CA_CERT",
        hide_env_values = true,
        help_heading = "Connection"
    )]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Give up after this time
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        default_value = "30s",
        help_heading = "Connection"
    )]
    #[arg(value_parser = crate::time::parse_duration)]
    pub(crate) timeout: Duration,
    /// Print the API's body unchanged; errors as problem documents on stderr
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
    /// Disable colours, as the variable NO_COLOR does
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) no_color: bool,
}
