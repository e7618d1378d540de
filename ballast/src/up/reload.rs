//! Changing settings while running: SIGHUP reads the configuration again, and
//! a new certificate is noticed by itself.

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
use super::listener::Tls;
use super::logging::Logging;
use super::parts::{Parts, settings};
use super::settled;
use crate::config::{Config, Network, parse};

/// How often the certificate's files are looked at.
const LOOK_AT_CERTIFICATE: Duration = Duration::from_secs(5);

/// Hears SIGHUP from now on. Until then it would end the process, so this
/// comes before anyone is told that it runs.
pub(crate) fn hear_hangups() -> std::io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// What can be changed while running.
pub(crate) struct Reload {
    args: UpArgs,
    started_with: Config,
    plane: ControlPlane,
    logging: Arc<Logging>,
    tls: Option<Tls>,
    proxies: watch::Sender<Vec<Network>>,
    /// The configuration as it was last read.
    latest: Mutex<Config>,
}

/// What the console shows and asks for.
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
        let later = self.read_again().map_err(|error| format!("{error:#}"))?;
        tracing::info!("settings reloaded");
        Ok(later.into_iter().map(str::to_owned).collect())
    }
}

impl Reload {
    /// Ready to reload what was started.
    pub(crate) fn new(
        args: &UpArgs,
        config: Config,
        parts: &Parts,
        logging: Arc<Logging>,
        tls: Option<Tls>,
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
        match self.read_again() {
            Ok(later) => {
                for section in later {
                    tracing::warn!(section, "a changed setting takes effect at the next start");
                }
                tracing::info!("settings reloaded");
                let intent = Intent::ballast("reload", "SIGHUP");
                // They are in force whether that can be written down or not.
                if let Err(error) = reloads::note(&self.plane, &intent, self.value()).await {
                    tracing::error!(%error, "that the settings were reloaded is not in the audit log");
                }
            }
            Err(error) => {
                tracing::error!(%error, "the configuration is not valid: the old settings stay");
            }
        }
    }

    /// Puts the configuration in force as it is now; says which sections take
    /// effect at the next start only.
    fn read_again(&self) -> anyhow::Result<Vec<&'static str>> {
        let config = settled(&self.args)?;
        self.plane.set_settings(settings(&config)?);
        self.proxies.send_replace(networks(&config));
        if let Err(error) = self.logging.reload(&config.log) {
            tracing::error!(%error, "the log filter stays as it was");
        }
        let later = needing_restart(&self.started_with, &config);
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(later)
    }

    async fn certificate(&self) {
        let Some(tls) = &self.tls else { return };
        match tls.config.reload_from_pem_file(&tls.cert, &tls.key).await {
            Ok(()) => tracing::info!("certificate reloaded"),
            Err(error) => {
                tracing::error!(%error, "the new certificate cannot be read: the old one stays")
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

/// The sections with settings that are read at the start only.
fn needing_restart(old: &Config, new: &Config) -> Vec<&'static str> {
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
