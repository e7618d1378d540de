//! Logs, always to stderr, and traces, to a collector if one is configured. The log filter can be
//! reloaded.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use super::traces::TraceExporter;
use crate::config::{Config, Log, LogFormat};

/// The reloadable log filter, and the trace exporter.
pub(crate) struct Logging {
    filter: reload::Handle<EnvFilter, Registry>,
    /// Trace export.
    pub(crate) traces: TraceExporter,
}

impl Logging {
    /// Starts logging and tracing.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Self> {
        let (filter, handle) = reload::Layer::new(filter(&config.log)?);
        let lines = fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal());
        let lines = match config.log.format {
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().boxed(),
        };
        let mut traces = TraceExporter::open(&config.traces)?;
        tracing_subscriber::registry()
            .with(filter)
            .with(traces.layer())
            .with(lines)
            .try_init()
            .context("start logging")?;
        Ok(Self {
            filter: handle,
            traces,
        })
    }

    /// Replaces the log filter.
    pub(crate) fn reload(&self, log: &Log) -> anyhow::Result<()> {
        self.filter.reload(filter(log)?)?;
        Ok(())
    }
}

/// The filter of the environment, or of the configuration.
fn filter(log: &Log) -> anyhow::Result<EnvFilter> {
    match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(text).context("read RUST_LOG"),
        _ => EnvFilter::try_new(&log.filter).context("read log.filter"),
    }
}
