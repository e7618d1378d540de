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
  votes          durable votes, each counted once, beside the bare log, Redis
                  and PostgreSQL, and with many votes stored already
  workflow       durable steps of workflows, beside one sync of the disk
  http           a running ballast (cargo build --release) beside bare axum

Options:
  --tenants N    how many tenants are many [default: 1000000]
  --stored N,N   votes stored already [default: 1000000,10000000,50000000]
  --part NAME    of votes only this: shapes, spread or stored;
                 of workflow only this: steps, history or waiting
  --keep DIR     put registries and shards there and leave those that are large
  -h, --help     print this";

/// The parts of `votes` and of `workflow`.
const PARTS: [&str; 6] = ["shapes", "spread", "stored", "steps", "history", "waiting"];

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Benchmark {
    Placement,
    Keys,
    Registry,
    Votes,
    Workflow,
    Http,
}

impl Benchmark {
    const ALL: [Self; 6] = [
        Self::Placement,
        Self::Keys,
        Self::Registry,
        Self::Votes,
        Self::Workflow,
        Self::Http,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Placement => "placement",
            Self::Keys => "keys",
            Self::Registry => "registry",
            Self::Votes => "votes",
            Self::Workflow => "workflow",
            Self::Http => "http",
        }
    }
}

/// The command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) benchmarks: Vec<Benchmark>,
    pub(crate) tenants: usize,
    pub(crate) stored: Vec<u64>,
    pub(crate) part: Option<String>,
    pub(crate) keep: Option<PathBuf>,
    /// What a process that a benchmark started of this program is to do.
    pub(crate) inner: Option<Inner>,
}

/// A part of a benchmark that needs a process of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    /// Opens a shard and says what that took.
    Reopen(PathBuf),
    /// Opens a store of executions and says what that took.
    ReopenWorkflows(PathBuf),
}

impl Options {
    /// Reads the arguments; `None` when help was asked for.
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> anyhow::Result<Option<Self>> {
        let mut options = Self {
            benchmarks: Vec::new(),
            tenants: 1_000_000,
            stored: vec![1_000_000, 10_000_000, 50_000_000],
            part: None,
            keep: None,
            inner: None,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "-h" | "--help" => return Ok(None),
                "--tenants" => {
                    options.tenants = value()?.parse().context("read --tenants")?;
                }
                "--stored" => {
                    let sizes = value()?;
                    let sizes = sizes.split(',').map(str::parse);
                    options.stored = sizes.collect::<Result<_, _>>().context("read --stored")?;
                }
                "--inner" => match value()?.as_str() {
                    "reopen" => options.inner = Some(Inner::Reopen(value()?.into())),
                    "reopen-workflows" => {
                        options.inner = Some(Inner::ReopenWorkflows(value()?.into()));
                    }
                    other => bail!("there is no inner {other:?}"),
                },
                "--part" => match value()? {
                    part if PARTS.contains(&part.as_str()) => options.part = Some(part),
                    other => bail!("there is no part {other:?}\n\n{USAGE}"),
                },
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
