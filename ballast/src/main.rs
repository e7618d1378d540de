//! `ballast`, the one binary.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod cli;
mod config;
mod machine;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use cli::failure::{Failure, Verdict};
use cli::globals::Globals;
use cli::output::Screen;

/// Says where every tenant is, and why.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::UpArgs),
    #[command(subcommand)]
    Config(config::ConfigCommand),
}

impl Command {
    async fn run(self, _globals: &Globals, screen: &Screen) -> Result<Verdict, Failure> {
        match self {
            Self::Up(args) => up::run(&args, screen).await.map_err(local),
            Self::Config(command) => config::run(&command, screen).map_err(local),
        }
    }
}

/// Something failed on this machine; the causes are told in one line.
fn local(error: anyhow::Error) -> Failure {
    Failure::local(format!("{error:#}"))
}

fn main() -> ExitCode {
    // The only provider in the build; a second call would be the only way to fail.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let screen = Screen::detect(&cli.globals);
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::local(format!("the runtime did not start: {error}")))
        .and_then(|runtime| runtime.block_on(cli.command.run(&cli.globals, &screen)));
    match done {
        Ok(verdict) => verdict.exit_code(),
        Err(failure) => failure.tell(&screen),
    }
}
