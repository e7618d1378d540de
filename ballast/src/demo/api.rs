//! An HTTP client for the demo fleet.

use std::time::Duration;

use anyhow::{Context, bail};
use ballast_domain::Clock;
use reqwest::{Client, Method};
use serde_json::Value;

use super::fleet::DemoFleet;
use crate::machine::{SystemClock, SystemEntropy};
use crate::up::console_key;

/// Lifetime of a login link, in seconds.
const ENTRANCE_SECONDS: i64 = 30 * 60;
/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Delay between attempts.
const AGAIN: Duration = Duration::from_millis(100);
/// Maximum number of attempts.
const ATTEMPTS: usize = 300;

/// A client of the admin API and the router. Cheap to clone.
#[derive(Clone)]
pub(super) struct FleetApi {
    pub(super) http: Client,
    pub(super) url: String,
    token: String,
}

impl FleetApi {
    pub(super) fn new(fleet: &DemoFleet) -> anyhow::Result<Self> {
        let http = Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .timeout(PATIENCE)
            .pool_max_idle_per_host(256)
            .build()
            .context("make ready to connect")?;
        Ok(Self {
            http,
            url: fleet.url.clone(),
            token: fleet.token.clone(),
        })
    }

    /// Calls the admin API; retries while the fleet is down.
    pub(super) async fn admin(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let url = format!("{}/admin/v1{path}", self.url);
        self.send_with_retry(
            method,
            &url,
            "authorization",
            &format!("Bearer {}", self.token),
            body,
        )
        .await
    }

    /// Calls the router with a tenant's key.
    pub(super) async fn with_key(
        &self,
        method: Method,
        path: &str,
        key: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.url);
        self.send_with_retry(method, &url, "x-api-key", key, body)
            .await
    }

    async fn send_with_retry(
        &self,
        method: Method,
        url: &str,
        header: &str,
        credential: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        for _ in 0..ATTEMPTS {
            let mut request = self.http.request(method.clone(), url);
            request = request
                .header(header, credential)
                .header("cache-control", "no-cache");
            if let Some(body) = body {
                request = request.json(body);
            }
            match request.send().await {
                Ok(answer) if answer.status().is_success() => {
                    return answer.json().await.context("read an answer");
                }
                Ok(answer) if answer.status().as_u16() != 503 => {
                    let status = answer.status();
                    bail!(
                        "{method} {url}: {status} {}",
                        answer.text().await.unwrap_or_default()
                    );
                }
                // It is down or overloaded.
                Ok(_) | Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
        bail!("{method} {url}: no answer")
    }

    /// A link to the console that logs the viewer in.
    pub(super) async fn login_link(&self, fleet: &DemoFleet) -> anyhow::Result<String> {
        let who = self.admin(Method::GET, "/whoami", None).await?;
        let token_id = who["tokenID"].as_str().context("who we are")?.parse()?;
        let key = console_key(&fleet.data_dir())?;
        let until = SystemClock.now().plus_seconds(ENTRANCE_SECONDS);
        let path = ballast_console::enter_path(key, token_id, until, &SystemEntropy)
            .context("make a link")?;
        Ok(format!("{}{path}", self.url))
    }
}
