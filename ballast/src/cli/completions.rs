//! `completions`: the script that teaches a shell our commands.

use clap::Command;
use clap_complete::Shell;

use super::failure::{Failure, Verdict};
use super::help;
use super::output::Screen;

/// Which shell.
#[derive(Debug, clap::Args)]
#[command(after_help = help::COMPLETIONS)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

impl Args {
    /// Writes the script.
    pub(crate) fn run(self, mut command: Command, screen: &Screen) -> Result<Verdict, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "ballast", &mut script);
        screen.data(&script)?;
        Ok(Verdict::Done)
    }
}
