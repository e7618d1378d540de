//! Changing settings while running: SIGHUP reads the configuration again, and
//! a new certificate is noticed by itself.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ballast_control_plane::ControlPlane;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::args::UpArgs;
use super::client_address::TrustedProxies;
use super::listener::Tls;
use super::logging::Logging;
use super::parts::{Parts, settings};
use super::settled;
use crate::config::{Config, Network};

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
                    self.settings();
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

    fn settings(&self) {
        let config = match settled(&self.args) {
            Ok(config) => config,
            Err(error) => {
                return tracing::error!(%error, "the configuration is not valid: the old settings stay");
            }
        };
        match settings(&config) {
            Ok(settings) => self.plane.set_settings(settings),
            Err(error) => {
                return tracing::error!(
                    error = format!("{error:#}"),
                    "the configuration is not valid: the old settings stay"
                );
            }
        }
        self.proxies.send_replace(networks(&config));
        if let Err(error) = self.logging.reload(&config.log) {
            tracing::error!(%error, "the log filter stays as it was");
        }
        for section in needing_restart(&self.started_with, &config) {
            tracing::warn!(section, "a changed setting takes effect at the next start");
        }
        tracing::info!("settings reloaded");
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
