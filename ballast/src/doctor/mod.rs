//! `ballast doctor`: looks at a data directory without changing it, also while the instance runs,
//! and says what is missing or damaged and what to do about it.
//!
//! ```text
//!   checks   one function for each part of the directory ──► findings
//!   report   findings for people and programs
//! ```

mod checks;
mod report;

use std::path::PathBuf;

use ballast_cli::{CommandOutcome, Screen};
use clap::Args;

use crate::config;

/// Look at a data directory: what is missing or damaged, and what to do about it
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Data directory of the instance [default: as configured]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl DoctorArgs {
    /// Runs the command.
    pub(crate) async fn run(self, screen: &Screen) -> anyhow::Result<CommandOutcome> {
        let data_dir = match self.data_dir {
            Some(given) => given,
            None => config::load(None)?.server.data_dir,
        };
        let findings = checks::check_all(&data_dir).await;
        let text = report::format_findings(screen, &data_dir, &findings)?;
        screen
            .data(text.as_bytes())
            .map_err(|_| anyhow::anyhow!("stdout is closed"))?;
        Ok(match findings.iter().any(checks::Finding::is_problem) {
            true => CommandOutcome::Negative,
            false => CommandOutcome::Done,
        })
    }
}
