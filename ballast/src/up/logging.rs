//! Logs, always to stderr; what is logged can be changed while running.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::config::{Log, LogFormat};

/// The way to change what is logged.
pub(crate) type LogHandle = reload::Handle<EnvFilter, Registry>;

/// Starts logging.
pub(crate) fn start(log: &Log) -> anyhow::Result<LogHandle> {
    let (filter, handle) = reload::Layer::new(filter(log)?);
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .context("start logging")?;
    Ok(handle)
}

/// The filter of the environment, or of the configuration.
pub(crate) fn filter(log: &Log) -> anyhow::Result<EnvFilter> {
    match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(text).context("read RUST_LOG"),
        _ => EnvFilter::try_new(&log.filter).context("read log.filter"),
    }
}
