//! What to measure, as the command line says it.

use std::path::PathBuf;

use anyhow::{Context, bail};

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
Usage: ballast-bench [BENCHMARK]... [OPTIONS]

Benchmarks (all of them when none is named):
  placement      deciding where a new slice goes, beside crate hrw-hash
  keys           checking an API key in memory, beside the bare hash
  registry       a SQLite registry with 10,000 tenants beside one with many
  http           a running ballast (cargo build --release) beside bare axum
  votes          durable votes, each counted once, beside the bare log

Options:
  --tenants N    how many tenants are many [default: 1000000]
  --keep DIR     put the registries there and leave them
  -h, --help     print this";

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Benchmark {
    Placement,
    Keys,
    Registry,
    Votes,
    Http,
}

impl Benchmark {
    const ALL: [Self; 5] = [
        Self::Placement,
        Self::Keys,
        Self::Registry,
        Self::Votes,
        Self::Http,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Placement => "placement",
            Self::Keys => "keys",
            Self::Registry => "registry",
            Self::Votes => "votes",
            Self::Http => "http",
        }
    }
}

/// The command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) benchmarks: Vec<Benchmark>,
    pub(crate) tenants: usize,
    pub(crate) keep: Option<PathBuf>,
}

impl Options {
    /// Reads the arguments; `None` when help was asked for.
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> anyhow::Result<Option<Self>> {
        let mut options = Self {
            benchmarks: Vec::new(),
            tenants: 1_000_000,
            keep: None,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "-h" | "--help" => return Ok(None),
                "--tenants" => {
                    options.tenants = value()?.parse().context("read --tenants")?;
                }
                "--keep" => options.keep = Some(value()?.into()),
                name => match Benchmark::ALL.into_iter().find(|one| one.name() == name) {
                    Some(benchmark) => options.benchmarks.push(benchmark),
                    None => bail!("there is no {name:?}\n\n{USAGE}"),
                },
            }
        }
        if options.benchmarks.is_empty() {
            options.benchmarks = Benchmark::ALL.to_vec();
        }
        Ok(Some(options))
    }
}
