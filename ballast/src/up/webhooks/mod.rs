//! Webhooks: signed POST requests about hotspots, plans that wait for approval, and ended
//! migrations, retried until they are accepted.
//!
//! ```text
//!   registry's feed ──► what is worth telling ──► POST ──► taken: the cursor moves on
//!                                                  └─────► not taken: later, up to a day
//! ```
//! Each hook has its own cursor on disk and its own task: an unreachable receiver does not delay
//! others, and a restart skips nothing. An event that was accepted but not recorded before a crash
//! is sent again with the same number.

mod message;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ballast_domain::registry::{Registry, RegistryEvent};
use ballast_domain::{Clock, Timestamp};
use ring::hmac;

use crate::config::Webhook;
use message::{WebhookMessage, message};

/// Events per page.
const PAGE: u32 = 500;
/// How long one delivery may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first and the longest retry delay.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_LAST: Duration = Duration::from_secs(300);
/// How long an event is retried.
const GIVE_UP_MS: i64 = 24 * 3_600_000;
/// A secret shorter than this protects little.
const SECRET_BYTES_MIN: usize = 16;

/// A webhook receiver.
pub(crate) struct WebhookSender {
    url: String,
    secret: hmac::Key,
    only: Vec<crate::config::WebhookTopic>,
    cursor: PathBuf,
    registry: Arc<dyn Registry>,
    clock: Arc<dyn Clock>,
    http: reqwest::Client,
}

impl WebhookSender {
    /// Opens the hook's cursor and secret.
    pub(crate) fn new(
        set: &Webhook,
        data_dir: &Path,
        registry: Arc<dyn Registry>,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        let secret = secret(&set.secret)?;
        anyhow::ensure!(
            secret.len() >= SECRET_BYTES_MIN,
            "webhooks.secret: {} has fewer than {SECRET_BYTES_MIN} bytes",
            set.secret
        );
        let directory = data_dir.join("webhooks");
        std::fs::create_dir_all(&directory)?;
        // By where it goes: hooks may be put in another order.
        let name = blake3::hash(set.url.as_bytes()).to_hex();
        let http = reqwest::Client::builder()
            .user_agent(concat!("ballast/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()?;
        Ok(Self {
            url: set.url.clone(),
            secret: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            only: set.events.clone(),
            cursor: directory.join(&name.as_str()[..16]),
            registry,
            clock,
            http,
        })
    }

    /// Sends events until it is dropped.
    pub(crate) async fn run(self) {
        let mut wait = AGAIN_FIRST;
        loop {
            match self.round().await {
                Ok(()) => wait = AGAIN_FIRST,
                Err(error) => {
                    tracing::warn!(
                        url = self.url,
                        error = format!("{error:#}"),
                        "webhook delivery failed; retrying"
                    );
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(AGAIN_LAST);
                }
            }
        }
    }

    /// Sends the events since the cursor, then waits for more.
    async fn round(&self) -> anyhow::Result<()> {
        let revision = match self.read_cursor()? {
            Some(revision) => revision,
            // A new hook starts with the next event.
            None => {
                let now = self.registry.revision().await?;
                self.write_cursor(now)?;
                now
            }
        };
        let events = self.registry.changes(revision, PAGE).await?;
        let Some(last) = events.last().map(|event| event.revision) else {
            self.registry.wait_past(revision).await?;
            return Ok(());
        };
        for (place, event) in events.iter().enumerate() {
            if let Some(message) = message(event, &self.only) {
                self.deliver(event, &message).await?;
                // Advance the cursor after each delivery, so that a failure repeats only
                // undelivered events. But the cursor is a revision, which may have several events.
                let next = events.get(place + 1).map(|next| next.revision);
                if next.is_none_or(|next| next > event.revision) {
                    self.write_cursor(event.revision)?;
                }
            }
        }
        self.write_cursor(last)
    }

    async fn deliver(&self, event: &RegistryEvent, message: &WebhookMessage) -> anyhow::Result<()> {
        let now = self.clock.now();
        match self.post(event, message, now).await {
            Ok(()) => Ok(()),
            Err(error) if now.unix_ms() - event.at.unix_ms() > GIVE_UP_MS => {
                tracing::error!(
                    url = self.url,
                    event = event.sequence,
                    error = format!("{error:#}"),
                    "webhook delivery failed for a day; giving up"
                );
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn post(
        &self,
        event: &RegistryEvent,
        message: &WebhookMessage,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        let body = serde_json::to_string(message)?;
        let seconds = now.unix_ms() / 1_000;
        let signed = hmac::sign(&self.secret, format!("{seconds}.{body}").as_bytes());
        let hex: String = signed
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let sent = self
            .http
            .post(&self.url)
            .header("content-type", "application/json")
            .header("ballast-event", event.sequence)
            .header("ballast-signature", format!("t={seconds},v1={hex}"))
            .body(body)
            .send()
            .await
            .map_err(reqwest::Error::without_url)?;
        let status = sent.status();
        anyhow::ensure!(status.is_success(), "the receiver responded with {status}");
        Ok(())
    }

    fn read_cursor(&self) -> anyhow::Result<Option<u64>> {
        match std::fs::read_to_string(&self.cursor) {
            Ok(text) => match text.trim().parse() {
                Ok(revision) => Ok(Some(revision)),
                Err(error) => {
                    let file = self.cursor.display();
                    tracing::error!(%file, %error, "a webhook's cursor is damaged; sending only new events");
                    Ok(None)
                }
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn write_cursor(&self, revision: u64) -> anyhow::Result<()> {
        use std::io::Write as _;
        let half = self.cursor.with_extension("half");
        let mut file = std::fs::File::create(&half)?;
        file.write_all(revision.to_string().as_bytes())?;
        // Otherwise a machine crash may leave an empty file.
        file.sync_all()?;
        Ok(std::fs::rename(half, &self.cursor)?)
    }
}

/// Reads the secret that a setting refers to.
fn secret(named: &str) -> anyhow::Result<Vec<u8>> {
    if let Some(name) = named.strip_prefix("env:") {
        let value = std::env::var(name).with_context(|| format!("webhooks.secret: {named}"))?;
        return Ok(value.into_bytes());
    }
    let file = named.strip_prefix("file:").unwrap_or(named);
    let text = std::fs::read(file).with_context(|| format!("webhooks.secret: {named}"))?;
    Ok(text.trim_ascii().to_vec())
}
