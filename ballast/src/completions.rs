//! `completions`: the script that teaches a shell our commands.

use ballast_cli::{CliError, CommandOutcome, Screen};
use clap::Command;
use clap_complete::Shell;

use crate::help;

/// Which shell.
#[derive(Debug, clap::Args)]
#[command(after_help = help::COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    /// Writes the script.
    pub(crate) fn run(
        self,
        mut command: Command,
        screen: &Screen,
    ) -> Result<CommandOutcome, CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "ballast", &mut script);
        screen.data(&script)?;
        Ok(CommandOutcome::Done)
    }
}
