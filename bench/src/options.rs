//! The command line: what to measure.

use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::moves::Size;

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
Usage: ballast-bench [BENCHMARK]... [OPTIONS]

Benchmarks (all of them by default):
  placement      deciding where a new slice goes, compared with crate hrw-hash
  keys           checking an API key in memory, compared with the bare hash
  registry       a SQLite registry with 10,000 tenants, compared with one with
                 many
  votes          durable votes, each counted once, compared with the bare log,
                 Redis and PostgreSQL, and with many votes stored already
  workflow       durable steps of workflows, compared with one sync of the disk
  http           a running ballast (cargo build --release), compared with bare
                 axum
  moves          migrations during votes, on a running ballast and on bare
                 engines
  load           single votes on a running ballast that counts load, compared
                 with one that does not
  detect         one pass over 1,000 shards with 1,000 tenants each
  console        single votes with and without viewers of the console; pages with
                 100,000 tenants

Options:
  --tenants N    the large number of tenants [default: 1000000]
  --stored N,N   numbers of stored votes [default: 1000000,10000000,50000000]
  --part NAME    run only this part of votes: shapes, spread or stored;
                 of workflow: steps, history or waiting;
                 of moves: pause, neighbours, window, copy or inside
  --sizes N:M,N  tenants to move: votes, and how often each is moved
                 [default: 10000:100,1000000:20; without 10000000:5]
  --keep DIR     create registries and shards there, and keep the large ones
  -h, --help     print this";

/// The parts of `votes`, of `workflow` and of `moves`.
const PARTS: [&str; 11] = [
    "shapes",
    "spread",
    "stored",
    "steps",
    "history",
    "waiting",
    "pause",
    "neighbours",
    "window",
    "copy",
    "inside",
];
/// How often a tenant is moved by default.
const MOVES: usize = 20;

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Benchmark {
    Placement,
    Keys,
    Registry,
    Votes,
    Workflow,
    Http,
    Moves,
    Load,
    Detect,
    Console,
}

impl Benchmark {
    const ALL: [Self; 10] = [
        Self::Placement,
        Self::Keys,
        Self::Registry,
        Self::Votes,
        Self::Workflow,
        Self::Http,
        Self::Moves,
        Self::Load,
        Self::Detect,
        Self::Console,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Placement => "placement",
            Self::Keys => "keys",
            Self::Registry => "registry",
            Self::Votes => "votes",
            Self::Workflow => "workflow",
            Self::Http => "http",
            Self::Moves => "moves",
            Self::Load => "load",
            Self::Detect => "detect",
            Self::Console => "console",
        }
    }
}

/// The command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) benchmarks: Vec<Benchmark>,
    pub(crate) tenants: usize,
    pub(crate) stored: Vec<u64>,
    pub(crate) sizes: Vec<Size>,
    pub(crate) part: Option<String>,
    pub(crate) keep: Option<PathBuf>,
    /// The task of a child process that a benchmark starts.
    pub(crate) inner: Option<Inner>,
}

/// A part of a benchmark that needs a process of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    /// Opens a shard and prints how long that took.
    Reopen(PathBuf),
    /// Opens an execution store and prints how long that took.
    ReopenWorkflows(PathBuf),
}

impl Options {
    /// Parses the arguments; `None` if help was requested.
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> anyhow::Result<Option<Self>> {
        let mut options = Self {
            benchmarks: Vec::new(),
            tenants: 1_000_000,
            stored: vec![1_000_000, 10_000_000, 50_000_000],
            sizes: sizes("10000:100,1000000:20")?,
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
                "--sizes" => options.sizes = sizes(&value()?).context("read --sizes")?,
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

/// Tenants to move, and how often.
fn sizes(text: &str) -> anyhow::Result<Vec<Size>> {
    let one = |text: &str| {
        let (votes, moves) = match text.split_once(':') {
            Some((votes, moves)) => (votes, moves.parse()?),
            None => (text, MOVES),
        };
        Ok(Size {
            votes: votes.parse()?,
            moves,
        })
    };
    text.split(',').map(one).collect()
}
