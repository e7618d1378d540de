//! `ballast up`: everything in one process, on one listener.
//!
//! ```text
//!   lock the data directory ──► open the registry ──► first start? shards
//!   and token ──► bind ──► serve ──► say where everything is ──► … ──► stop
//! ```
//! This is the composition root: only here do the crates meet.

mod app;
mod args;
mod certificate_key;
mod client_address;
mod connections;
mod console;
mod first_start;
mod format;
mod greeting;
mod http;
mod key_file;
mod known_shards;
mod listener;
mod load;
mod load_metrics;
mod lock;
mod logging;
mod memory;
mod metrics;
mod orphaned_shards;
mod parts;
mod reload;
mod reset;
#[cfg(feature = "faults")]
mod rot;
mod router_metrics;
mod shard_identity;
mod shards;
mod traces;
mod webhooks;
mod wide;
mod workflows;

pub(crate) use args::UpArgs;
pub(crate) use certificate_key::FILE as CERTIFICATE_KEY;
pub(crate) use console::key as console_key;
pub(crate) use format::{read_format, write_format};
pub(crate) use known_shards::KnownShards;
pub(crate) use lock::running_process;
pub(crate) use orphaned_shards::{REGISTRY, list_shards};
pub(crate) use parts::ARCHIVE;
pub(crate) use reset::reset_token;
pub(crate) use shard_identity::{FILE as SHARD_IDENTITY, ShardIdentity, has_log};
pub(crate) use workflows::FILE as EXECUTIONS;

use std::sync::Arc;

use anyhow::Context;
use ballast_console::Console;

use crate::config::{self, Config};
use ballast_cli::{CommandOutcome, Screen};

/// Runs until stopped.
pub(crate) async fn run(args: &UpArgs, screen: &Screen) -> anyhow::Result<CommandOutcome> {
    let config = load_config(args)?;
    let lock = lock::DataDir::take(&config.server.data_dir)?;
    let logging = Arc::new(logging::Logging::start(&config)?);
    memory::disable_huge_pages();
    orphaned_shards::check_registry_exists(lock.path())?;
    if let Some(upgrade) = format::upgrade_format(lock.path())? {
        screen.note(&upgrade);
    }
    let listener = listener::Listener::bind(&config.server).await?;
    let parts = parts::Services::open(&config, lock.path(), listener.public_url(&config)).await?;
    let token = first_start::prepare(
        &parts.plane,
        &config,
        lock.path(),
        args.admin_token_file.as_deref(),
        screen,
    )
    .await?;
    let metrics = metrics::Metrics::default();
    let reload = Arc::new(reload::Reload::new(
        args,
        config.clone(),
        &parts,
        logging.clone(),
        listener.tls(),
    ));
    let console = console::console(&parts, &config, &reload, args.story_file.clone())?;
    let app = http::build_app(
        &parts,
        metrics,
        reload.trusted_proxies(),
        console.clone(),
        listener.connections(),
    );
    let stopping = listener::stop_signal(args.stop_with_stdin)?;
    let hangups = reload::listen_for_hangup()?;
    let (tasks, workflows) = parts.start(&config).await?;
    let looking = console.as_ref().map(Console::start);
    let serving = listener.serve(app);
    // Wait for the shards before the greeting.
    parts.shards.wait_until_tried().await;
    greeting::ready(screen, &serving, &parts, &config, &token);
    tokio::select! {
        () = stopping => tracing::info!("stopping"),
        () = reload.watch(hangups) => {}
        ended = serving.ended() => ended.context("serve requests")?,
    }
    // Viewers would keep their connections open.
    parts.router.end();
    parts.end_watching();
    if let Some(console) = &console {
        console.close_streams();
    }
    serving.stop().await;
    tasks.stop();
    if let Some(looking) = looking {
        looking.abort();
    }
    workflows.stop().await;
    parts.close().await;
    // This blocks on the collector, so it runs on a blocking thread.
    let _ = tokio::task::spawn_blocking(move || logging.traces.finish()).await;
    drop(lock);
    Ok(CommandOutcome::Done)
}

/// Loads the configuration and applies the command line flags.
fn load_config(args: &UpArgs) -> anyhow::Result<Config> {
    let mut config = config::load(args.config.as_deref())?;
    args.apply(&mut config);
    config::check(&config).map_err(|(key, message)| anyhow::anyhow!("{key}: {message}"))?;
    Ok(config)
}
