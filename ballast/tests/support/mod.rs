//! The harness of the journeys: real `ballast up` processes on loopback, each
//! in a temporary directory and on a port of its own, killed when dropped.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses a part of this module"
)]
#![allow(
    unreachable_pub,
    reason = "each test binary includes the harness as a module"
)]

pub mod browser;
pub mod busy;
pub mod call;
pub mod clock;
pub mod hot;
pub mod moves;
pub mod pages;
pub mod polls;
pub mod problem;
pub mod process;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ballast_domain::Entropy;
use ballast_domain::credential::{Credential, Purpose};
use reqwest::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

pub use call::{Call, HttpAnswer};
pub use clock::{eventually, in_ms, stopwatch, within};
pub use process::{Process, ProcessExit};

/// How to start an instance.
#[derive(Debug, Clone, Default)]
pub struct InstanceOptions {
    /// Further arguments.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// The text of its configuration file, if any.
    pub config: Option<String>,
    /// The certificate (PEM) that clients trust; they use HTTPS then.
    pub trust: Option<String>,
    /// How many files and connections the process may have open.
    pub descriptors_max: Option<u32>,
}

/// A running `ballast up`.
pub struct Instance {
    process: Process,
    options: InstanceOptions,
    home: Arc<TempDir>,
    http: Client,
    /// The router's URL.
    pub router: String,
    /// The admin API's URL.
    pub admin: String,
    /// The admin token of the first start.
    pub token: String,
}

impl Instance {
    /// Starts an instance with default options.
    pub async fn start() -> Self {
        Self::with(InstanceOptions::default()).await
    }

    /// Starts an instance.
    pub async fn with(options: InstanceOptions) -> Self {
        Self::within(Arc::new(tempfile::tempdir().unwrap()), options).await
    }

    /// Starts an instance with its files in this directory.
    pub async fn within(home: Arc<TempDir>, options: InstanceOptions) -> Self {
        match Self::launch(home, options, "127.0.0.1:0").await {
            Ok(instance) => instance,
            Err(ended) => panic!("the instance did not start: {ended:?}"),
        }
    }

    /// Starts an instance; the error is how the process exited instead.
    pub async fn launch(
        home: Arc<TempDir>,
        options: InstanceOptions,
        listen: &str,
    ) -> Result<Self, Box<ProcessExit>> {
        let process = Process::up(home.path(), &options, listen);
        let process = process.ready().await?;
        let line: Value = serde_json::from_str(process.stdout().trim()).unwrap();
        let token = std::fs::read_to_string(token_file(home.path())).unwrap();
        Ok(Self {
            process,
            http: client(options.trust.as_deref()),
            options,
            home,
            router: line["router"].as_str().unwrap().to_owned(),
            admin: line["admin"].as_str().unwrap().to_owned(),
            token: token.trim().to_owned(),
        })
    }

    /// Kills the process with SIGKILL.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Kills the process and starts it at once on the same files and port.
    pub async fn restart(self) -> Self {
        let listen = self.router.rsplit('/').next().unwrap().to_owned();
        let (home, options) = (self.home.clone(), self.options.clone());
        drop(self);
        match Self::launch(home, options, &listen).await {
            Ok(instance) => instance,
            Err(ended) => panic!("the instance did not restart: {ended:?}"),
        }
    }

    /// Restarts it so that it dies at a named place in its code; with `None`, so that it never
    /// does.
    pub async fn restart_dying_at(mut self, place: Option<&str>) -> Self {
        let place = place.map(|place| ("BALLAST_DIE_AT".to_owned(), place.to_owned()));
        self.options.env = place.into_iter().collect();
        self.restart().await
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The directory with its files.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The directory with its files, for a caller that outlives the instance.
    pub fn home_directory(&self) -> Arc<TempDir> {
        self.home.clone()
    }

    /// The HTTP client.
    pub fn http(&self) -> &Client {
        &self.http
    }

    /// A request to the admin API without a token.
    pub fn anonymous(&self, method: &str, path: &str) -> Call {
        Call::new(&self.http, method, &format!("{}{path}", self.admin))
    }

    /// A request to the admin API with the first token.
    pub fn call(&self, method: &str, path: &str) -> Call {
        self.anonymous(method, path).token(&self.token)
    }

    /// A request to the router.
    pub fn route(&self, method: &str, path: &str) -> Call {
        Call::new(&self.http, method, &format!("{}{path}", self.router))
    }

    /// Reads something that exists.
    pub async fn get(&self, path: &str) -> Value {
        self.call("GET", path).send().await.expect(200)
    }

    /// Creates something.
    pub async fn create(&self, path: &str, body: &Value) -> Value {
        self.call("POST", path).json(body).send().await.expect(201)
    }

    /// Changes something.
    pub async fn patch(&self, path: &str, body: &Value) -> Value {
        self.call("PATCH", path).json(body).send().await.expect(200)
    }

    /// Calls an action, such as `…/revoke`.
    pub async fn act(&self, path: &str) -> Value {
        self.call("POST", path).send().await.expect(200)
    }

    /// Creates a tenant with default fields.
    pub async fn tenant(&self, id: &str) -> Value {
        self.create("/tenants", &json!({ "tenantID": id })).await
    }

    /// Creates a key and returns its id and secret.
    pub async fn key(&self, tenant: &str) -> (String, String) {
        let made = self
            .create(&format!("/tenants/{tenant}/keys"), &json!({}))
            .await;
        (text(&made["keyID"]), text(&made["key"]))
    }

    /// Creates a token and returns its id and secret.
    pub async fn new_token(&self, role: &str) -> (String, String) {
        let made = self
            .create("/tokens", &json!({ "name": role, "role": role }))
            .await;
        (text(&made["tokenID"]), text(&made["token"]))
    }

    /// Resolves a key at the router.
    pub async fn resolve(&self, key: &str) -> HttpAnswer {
        self.route("GET", "/resolve")
            .header("x-api-key", key)
            .send()
            .await
    }

    /// Every item of a list, page by page.
    pub async fn all(&self, path: &str) -> Vec<Value> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let mut items = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("{path}{joint}limit=1000{cursor}")).await;
            items.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    }

    /// The newest event's number, which grows with every change.
    pub async fn newest_event(&self) -> u64 {
        let page = self.get("/events?limit=1").await;
        page["items"][0]["eventID"].as_u64().unwrap()
    }

    /// How many slices each shard reports.
    pub async fn slices_per_shard(&self) -> BTreeMap<String, u64> {
        let shards = self.all("/shards").await;
        shards
            .iter()
            .map(|shard| (text(&shard["shardID"]), shard["slices"].as_u64().unwrap()))
            .collect()
    }
}

/// Where an instance writes its admin token.
pub fn token_file(home: &Path) -> PathBuf {
    home.join("token")
}

/// A well-formed secret that no instance has issued.
pub fn unknown_secret(purpose: Purpose) -> String {
    struct Fixed;
    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }
    Credential::generate(purpose, &Fixed).expose().to_owned()
}

/// A string in a JSON document.
#[track_caller]
pub fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => panic!("not a string: {value}"),
    }
}

/// An HTTP client that trusts `pem` only, if given.
pub fn client(pem: Option<&str>) -> Client {
    // Fails if a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let own = pem.map(|pem| reqwest::Certificate::from_pem(pem.as_bytes()).unwrap());
    Client::builder()
        .no_proxy()
        .tls_certs_only(own)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
}

/// Runs `job` for each number below `count`, `workers` at a time. The results are in the order
/// of the numbers.
pub async fn run_concurrently<T, F>(
    workers: usize,
    count: usize,
    job: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let tasks: Vec<_> = (0..workers)
        .map(|_| {
            let (next, job) = (next.clone(), job.clone());
            tokio::spawn(async move {
                let mut done = Vec::new();
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if number >= count {
                        return done;
                    }
                    done.push((number, job(number).await));
                }
            })
        })
        .collect();
    let mut results = Vec::with_capacity(count);
    for task in tasks {
        results.extend(task.await.unwrap());
    }
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}
