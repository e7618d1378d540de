//! Reloads settings: SIGHUP reloads the configuration, and a new certificate is detected
//! automatically.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ballast_console::RunningSettings;
use ballast_control_plane::intent::Intent;
use ballast_control_plane::{ControlPlane, reloads};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::args::UpArgs;
use super::client_address::TrustedProxies;
use super::listener::TlsFiles;
use super::load_config;
use super::logging::Logging;
use super::parts::{Services, settings};
use crate::config::{Config, Network, parse};

/// How often the certificate's files are checked.
const LOOK_AT_CERTIFICATE: Duration = Duration::from_secs(5);

/// Handles SIGHUP from now on. Before that it would end the process, so call this before the
/// greeting.
pub(crate) fn listen_for_hangup() -> std::io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// What can be changed while running.
pub(crate) struct Reload {
    args: UpArgs,
    started_with: Config,
    plane: ControlPlane,
    logging: Arc<Logging>,
    tls: Option<TlsFiles>,
    proxies: watch::Sender<Vec<Network>>,
    /// The configuration as it was last read.
    latest: Mutex<Config>,
}

/// The settings for the console.
impl RunningSettings for Reload {
    fn text(&self) -> String {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        toml::to_string_pretty(&*latest).unwrap_or_default()
    }

    fn value(&self) -> serde_json::Value {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_value(&*latest).unwrap_or_default()
    }

    fn problem_with(&self, text: &str) -> Option<String> {
        let file = self.args.config.as_deref();
        let file = file.unwrap_or(Path::new("ballast.toml"));
        parse(file, text).err().map(|error| error.to_string())
    }

    fn reload(&self) -> Result<Vec<String>, String> {
        let later = self.reload_config().map_err(|error| format!("{error:#}"))?;
        tracing::info!("settings reloaded");
        Ok(later.into_iter().map(str::to_owned).collect())
    }
}

impl Reload {
    /// Ready to reload what was started.
    pub(crate) fn new(
        args: &UpArgs,
        config: Config,
        parts: &Services,
        logging: Arc<Logging>,
        tls: Option<TlsFiles>,
    ) -> Self {
        Self {
            args: args.clone(),
            proxies: watch::Sender::new(networks(&config)),
            latest: Mutex::new(config.clone()),
            started_with: config,
            plane: parts.plane.clone(),
            logging,
            tls,
        }
    }

    /// The proxies that are trusted, as they change.
    pub(crate) fn trusted_proxies(&self) -> TrustedProxies {
        self.proxies.subscribe()
    }

    /// Reloads whenever there is reason to; never ends.
    pub(crate) async fn watch(&self, mut hangup: Signal) {
        let mut certificate = self.certificate_times();
        loop {
            tokio::select! {
                _ = hangup.recv() => {
                    self.settings().await;
                    self.certificate().await;
                }
                () = tokio::time::sleep(LOOK_AT_CERTIFICATE) => {
                    let now = self.certificate_times();
                    if now != certificate {
                        certificate = now;
                        self.certificate().await;
                    }
                }
            }
        }
    }

    async fn settings(&self) {
        match self.reload_config() {
            Ok(later) => {
                for section in later {
                    tracing::warn!(section, "a changed setting takes effect after a restart");
                }
                tracing::info!("settings reloaded");
                let intent = Intent::ballast("reload", "SIGHUP");
                // The settings apply even if the audit event fails.
                if let Err(error) = reloads::record_reload(&self.plane, &intent, self.value()).await
                {
                    tracing::error!(%error, "the reload could not be recorded in the audit log");
                }
            }
            Err(error) => {
                tracing::error!(%error, "invalid configuration; keeping the old settings");
            }
        }
    }

    /// Applies the current configuration; returns the sections that need a restart.
    fn reload_config(&self) -> anyhow::Result<Vec<&'static str>> {
        let config = load_config(&self.args)?;
        self.plane.set_settings(settings(&config)?);
        self.proxies.send_replace(networks(&config));
        if let Err(error) = self.logging.reload(&config.log) {
            tracing::error!(%error, "invalid log filter; keeping the old one");
        }
        let later = sections_needing_restart(&self.started_with, &config);
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(later)
    }

    async fn certificate(&self) {
        let Some(tls) = &self.tls else { return };
        match tls.config.reload_from_pem_file(&tls.cert, &tls.key).await {
            Ok(()) => tracing::info!("certificate reloaded"),
            Err(error) => {
                tracing::error!(%error, "the new certificate cannot be read; keeping the old one")
            }
        }
    }

    fn certificate_times(&self) -> Vec<Option<SystemTime>> {
        let time = |file: &Path| {
            std::fs::metadata(file)
                .and_then(|found| found.modified())
                .ok()
        };
        self.tls
            .iter()
            .flat_map(|tls| [time(&tls.cert), time(&tls.key)])
            .collect()
    }
}

fn networks(config: &Config) -> Vec<Network> {
    let proxies = &config.server.trusted_proxies;
    proxies
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect()
}

/// The changed sections whose settings are read only at startup.
fn sections_needing_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let mut fixed = new.server.clone();
    fixed
        .trusted_proxies
        .clone_from(&old.server.trusted_proxies);
    let changed = [
        ("server", old.server != fixed),
        ("fleet.shards", old.fleet.shards != new.fleet.shards),
        ("keys.places", old.keys.places != new.keys.places),
        ("router", old.router != new.router),
        ("load.measure", old.load.measure != new.load.measure),
        (
            "load.record_mib_max",
            old.load.record_mib_max != new.load.record_mib_max,
        ),
        ("console", old.console != new.console),
        ("log.format", old.log.format != new.log.format),
        ("traces", old.traces != new.traces),
        ("webhooks", old.webhooks != new.webhooks),
    ];
    changed
        .into_iter()
        .filter(|(_, changed)| *changed)
        .map(|(section, _)| section)
        .collect()
}
