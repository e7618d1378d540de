//! The way to the fleet, for whoever leads the demonstration.

use std::time::Duration;

use anyhow::{Context, bail};
use ballast_domain::Clock;
use reqwest::{Client, Method};
use serde_json::Value;

use super::house::House;
use crate::machine::{SystemClock, SystemEntropy};
use crate::up::console_key;

/// How long a link that logs in works, in seconds.
const ENTRANCE_SECONDS: i64 = 30 * 60;
/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait before something is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// How often.
const ATTEMPTS: usize = 300;

/// The admin API and the router. Cheap to clone.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) http: Client,
    pub(super) url: String,
    token: String,
}

impl Api {
    pub(super) fn new(house: &House) -> anyhow::Result<Self> {
        let http = Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .timeout(PATIENCE)
            .pool_max_idle_per_host(256)
            .build()
            .context("make ready to connect")?;
        Ok(Self {
            http,
            url: house.url.clone(),
            token: house.token.clone(),
        })
    }

    /// Asks the admin API; while the fleet is away, again and again.
    pub(super) async fn admin(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let url = format!("{}/admin/v1{path}", self.url);
        self.asked(
            method,
            &url,
            "authorization",
            &format!("Bearer {}", self.token),
            body,
        )
        .await
    }

    /// Asks the router with a tenant's key.
    pub(super) async fn with_key(
        &self,
        method: Method,
        path: &str,
        key: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.url);
        self.asked(method, &url, "x-api-key", key, body).await
    }

    async fn asked(
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
                // It is away, or has no time right now.
                Ok(_) | Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
        bail!("{method} {url}: no answer")
    }

    /// A link to the console that logs in.
    pub(super) async fn entrance(&self, house: &House) -> anyhow::Result<String> {
        let who = self.admin(Method::GET, "/whoami", None).await?;
        let token_id = who["tokenID"].as_str().context("who we are")?.parse()?;
        let key = console_key(&house.data_dir())?;
        let until = SystemClock.now().plus_seconds(ENTRANCE_SECONDS);
        let path = ballast_console::enter_path(key, token_id, until, &SystemEntropy)
            .context("make a link")?;
        Ok(format!("{}{path}", self.url))
    }
}
