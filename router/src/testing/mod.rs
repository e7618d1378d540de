//! Fixtures for the router's tests: a route source, and a router over an embedded shard on a
//! simulated disk. `moving.rs` has two routers and two shards, and a slice that moves.

mod moving;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, BodyDataStream};
use axum::http::Request;
use axum::response::Response;
use ballast_domain::credential::{Credential, CredentialHash, Purpose};
use ballast_domain::key::{ApiKey, KeyMode, KeyScope};
use ballast_domain::limits::TenantLimits;
use ballast_domain::moving::MigrationId;
use ballast_domain::registry::RegistryError;
use ballast_domain::routes::{
    KeyGrant, RouteInvalidation, RouteSource, ShardRoute, StreamedPosition, TenantRoute,
};
use ballast_domain::shard::ShardState;
use ballast_domain::tenant::{Epoch, Slice, TenantStatus};
use ballast_domain::{Clock, Entropy, KeyId, ShardId, TenantId, Timestamp};
use ballast_vote_shard::archive::{Archive, ArchiveDirectory, LocalArchives};
use ballast_vote_shard::embedded::disk::SimulatedDisk;
use ballast_vote_shard::embedded::{EmbeddedShard, ShardOptions};
use ballast_vote_shard::testing::SteppedClock;
use ballast_vote_shard::{ShardDirectory, ShardError, ShardResult, VoteShard};
use serde_json::Value;
use tower::ServiceExt;

pub(crate) use moving::{TestFleet, TwoShards, slice};

use crate::{
    DirectRequest, KeyPlaces, MemoryView, RouterPorts, RouterSettings, RouterState, router,
};

pub(super) struct Seed(AtomicU64);

impl Entropy for Seed {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            // SplitMix64: ids of 64 bits must not collide among thousands.
            let mut x = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *byte = (x ^ (x >> 31)).to_be_bytes()[0];
        }
    }
}

/// A well-formed key.
pub(crate) fn key(seed: u64) -> String {
    Credential::generate(Purpose::LiveKey, &Seed(seed.into()))
        .expose()
        .to_owned()
}

type Hook = Box<dyn FnOnce() + Send>;

/// A route source that a test controls.
#[derive(Default)]
pub(crate) struct FakeSource {
    keys: Mutex<HashMap<[u8; 32], KeyGrant>>,
    tenants: Mutex<HashMap<TenantId, Arc<TenantRoute>>>,
    shards: Mutex<HashMap<ShardId, ShardRoute>>,
    calls: AtomicUsize,
    routes_read: AtomicUsize,
    away: AtomicBool,
    silent: AtomicBool,
    hook: Mutex<Option<Hook>>,
}

impl FakeSource {
    pub(crate) fn add_key(&self, tenant: &str) -> (String, KeyId) {
        let mut keys = self.keys.lock().unwrap();
        let seed = Seed((keys.len() as u64 + 1).into());
        let secret = Credential::generate(Purpose::LiveKey, &seed);
        let key = ApiKey {
            key_id: KeyId::random(&seed),
            tenant_id: tenant.parse().unwrap(),
            name: None,
            hint: secret.hint(),
            mode: KeyMode::Live,
            scopes: KeyScope::ALL.to_vec(),
            created_at: Timestamp::from_unix_ms(0),
            expires_at: None,
            revoked_at: None,
            replaced_by: None,
            throttle: None,
        };
        let id = key.key_id.clone();
        let hash = secret.hash();
        keys.insert(*hash.bytes(), KeyGrant::new(hash, &key));
        (secret.expose().to_owned(), id)
    }

    pub(crate) fn add_tenant(&self, route: TenantRoute) {
        let mut tenants = self.tenants.lock().unwrap();
        tenants.insert(route.tenant_id.clone(), Arc::new(route));
    }

    pub(crate) fn set_shard(&self, id: &str, state: ShardState) {
        let region = "local".parse().unwrap();
        let mut shards = self.shards.lock().unwrap();
        shards.insert(id.parse().unwrap(), ShardRoute { region, state });
    }

    pub(crate) fn change_key(&self, id: &KeyId, change: impl FnOnce(&mut KeyGrant)) {
        let mut keys = self.keys.lock().unwrap();
        let grant = keys.values_mut().find(|grant| grant.key_id == *id).unwrap();
        change(grant);
    }

    /// Changes every key, and returns their ids.
    pub(crate) fn change_keys(&self, change: impl Fn(&mut KeyGrant)) -> Vec<KeyId> {
        let mut keys = self.keys.lock().unwrap();
        keys.values_mut().for_each(change);
        keys.values().map(|grant| grant.key_id.clone()).collect()
    }

    pub(crate) fn set_epoch(&self, tenant: &str, epoch: Epoch) {
        let route = TenantRoute {
            tenant_id: tenant.parse().unwrap(),
            status: TenantStatus::Active,
            home_region: "local".parse().unwrap(),
            limits: TenantLimits::default(),
            cors_origins: Vec::new(),
            slices: vec![Slice {
                epoch,
                ..Slice::placed(0, "shard-1".parse().unwrap(), Timestamp::from_unix_ms(0))
            }],
        };
        let id = route.tenant_id.clone();
        self.tenants.lock().unwrap().insert(id, Arc::new(route));
    }

    /// Changes the route of the tenant without notifying the routers.
    pub(crate) fn change_route(&self, change: impl FnOnce(&mut TenantRoute)) {
        let id: TenantId = "acme".parse().unwrap();
        let mut tenants = self.tenants.lock().unwrap();
        change(Arc::make_mut(tenants.get_mut(&id).unwrap()));
    }

    /// How often a tenant's route was read.
    pub(crate) fn routes_read(&self) -> usize {
        self.routes_read.load(Ordering::SeqCst)
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn go_away(&self) {
        self.away.store(true, Ordering::SeqCst);
    }

    /// Stops answering.
    pub(crate) fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    pub(crate) fn before_next_answer(&self, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }
}

#[async_trait]
impl RouteSource for FakeSource {
    async fn grant(&self, hash: &CredentialHash) -> Result<Option<KeyGrant>, RegistryError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.away.load(Ordering::SeqCst) {
            return Err(RegistryError::new("ask", "away"));
        }
        let answer = self.keys.lock().unwrap().get(hash.bytes()).cloned();
        if let Some(hook) = self.hook.lock().unwrap().take() {
            hook();
        }
        Ok(answer)
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<Arc<TenantRoute>>, RegistryError> {
        self.routes_read.fetch_add(1, Ordering::SeqCst);
        // Like a real source, let other tasks run in the meantime.
        tokio::task::yield_now().await;
        if self.silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.away.load(Ordering::SeqCst) {
            return Err(RegistryError::new("ask", "away"));
        }
        Ok(self.tenants.lock().unwrap().get(id).cloned())
    }

    async fn shard(&self, id: &ShardId) -> Result<Option<ShardRoute>, RegistryError> {
        Ok(self.shards.lock().unwrap().get(id).cloned())
    }

    async fn streamed_back(&self, _: &MigrationId) -> Result<StreamedPosition, RegistryError> {
        Ok(StreamedPosition::Unknown)
    }

    async fn stale_since(
        &self,
        revision: u64,
    ) -> Result<(u64, Vec<RouteInvalidation>), RegistryError> {
        Ok((revision, Vec::new()))
    }

    async fn revision(&self) -> Result<u64, RegistryError> {
        Ok(0)
    }

    async fn keys_used(&self, _: Vec<(KeyId, Timestamp)>) -> Result<(), RegistryError> {
        Ok(())
    }
}

/// Default settings for tests.
pub(crate) fn settings() -> RouterSettings {
    RouterSettings {
        key_places: KeyPlaces::default(),
        cache_entries: 100,
        cache_ttl: Duration::from_secs(60),
        public_url: "http://ballast.example".to_owned(),
        results_max_age: Duration::from_secs(5),
        hold_max: Duration::from_secs(5),
        held_max: 100,
        held_per_tenant_max: 100,
        held_bytes_max: 1 << 30,
        held_bytes_per_tenant_max: 1 << 30,
        dual_read_sample: 1,
        viewers_max: 100,
        viewers_per_tenant_max: 100,
        count_load: true,
    }
}

/// Ports without any shard.
pub(crate) fn ports(clock: Arc<dyn Clock>, source: Arc<FakeSource>) -> RouterPorts {
    RouterPorts {
        clock,
        entropy: Arc::new(Seed(7.into())),
        source,
        shards: Arc::new(NoShards),
        archives: Arc::new(NoShards),
        view: Arc::new(MemoryView::default()),
    }
}

struct NoShards;

impl ShardDirectory for NoShards {
    fn shard(&self, _: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        Err(ShardError::unavailable("there is none"))
    }
}

impl ArchiveDirectory for NoShards {
    fn archive(&self, _: &ShardId) -> ShardResult<Archive> {
        Err(ShardError::unavailable("there is none"))
    }
}

/// One shard, which a test can make unavailable.
pub(crate) struct OneShard {
    pub(crate) shard: Arc<EmbeddedShard>,
    away: AtomicBool,
    calls: AtomicUsize,
}

impl OneShard {
    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// How often it was opened.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Waits until it was opened this many times.
    pub(crate) async fn wait_for_calls(&self, times: usize) {
        while self.calls() < times {
            tokio::task::yield_now().await;
        }
    }
}

impl ShardDirectory for OneShard {
    fn shard(&self, _: &ShardId) -> ShardResult<Arc<dyn VoteShard>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match self.away.load(Ordering::SeqCst) {
            true => Err(ShardError::unavailable("the test took it away")),
            false => Ok(self.shard.clone()),
        }
    }
}

/// A router with one tenant and one shard, or more of them.
pub(crate) struct TestRouter<S = OneShard> {
    pub(crate) state: RouterState,
    pub(crate) source: Arc<FakeSource>,
    pub(crate) shards: Arc<S>,
    pub(crate) archives: Arc<LocalArchives>,
    /// The directory of the archives.
    pub(crate) directory: tempfile::TempDir,
    pub(crate) key: String,
}

/// A response of the router.
#[derive(Debug, PartialEq)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) body: Value,
}

impl TestResponse {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }
}

impl TestRouter {
    pub(crate) fn new(change: impl FnOnce(&mut RouterSettings)) -> Self {
        let clock = Arc::new(SteppedClock::new(1_000_000));
        let entropy = Arc::new(Seed(7.into()));
        let source = Arc::new(FakeSource::default());
        let (key, _) = source.add_key("acme");
        source.set_epoch("acme", Epoch::FIRST);
        let disk = Arc::new(SimulatedDisk::new(1));
        let shard = EmbeddedShard::open(
            "shard-1",
            disk,
            ShardOptions::default(),
            clock.clone(),
            entropy.clone(),
        );
        let shards = Arc::new(OneShard {
            shard: Arc::new(shard.unwrap()),
            away: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
        });
        let mut settings = settings();
        change(&mut settings);
        let directory = tempfile::tempdir().unwrap();
        let archives = Arc::new(LocalArchives::new(directory.path().to_owned()));
        let ports = RouterPorts {
            shards: shards.clone(),
            archives: archives.clone(),
            ..ports(clock, source.clone())
        };
        Self {
            state: RouterState::new(settings, ports),
            source,
            shards,
            archives,
            directory,
            key,
        }
    }
}

impl<S> TestRouter<S> {
    /// Changes the tenant's route and notifies the router.
    pub(crate) fn change_route(&self, change: impl FnOnce(&mut TenantRoute)) {
        self.source.change_route(change);
        self.invalidate_route();
    }

    /// Notifies the router that the tenant's route has changed.
    pub(crate) fn invalidate_route(&self) {
        let id: TenantId = "acme".parse().unwrap();
        self.state.parts.routes.forget_tenant(&id);
    }

    /// Sends a request through axum.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> TestResponse {
        let request = self.request(method, path, body);
        read_response(router(self.state.clone()).oneshot(request).await.unwrap()).await
    }

    /// Sends a request whose response is text.
    pub(crate) async fn ask_for_text(&self, method: &str, path: &str, body: &str) -> String {
        let response = self.ask_raw(method, path, body).await;
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 24).await;
        String::from_utf8(bytes.unwrap().to_vec()).unwrap()
    }

    /// Sends a request and returns the raw response.
    pub(crate) async fn ask_raw(&self, method: &str, path: &str, body: &str) -> Response {
        let request = self.request(method, path, body);
        router(self.state.clone()).oneshot(request).await.unwrap()
    }

    /// Opens an endless response.
    pub(crate) async fn open(&self, method: &str, path: &str) -> BodyDataStream {
        let response = self.ask_raw(method, path, "").await;
        response.into_body().into_data_stream()
    }

    /// Sends a request with `Cache-Control: no-cache`.
    pub(crate) async fn ask_newest(&self, path: &str) -> TestResponse {
        let mut request = self.request("GET", path, "");
        let value = axum::http::HeaderValue::from_static("no-cache");
        request.headers_mut().insert("cache-control", value);
        read_response(router(self.state.clone()).oneshot(request).await.unwrap()).await
    }

    /// Sends a request directly, without axum's routing.
    pub(crate) async fn ask_directly(&self, method: &str, path: &str, body: &str) -> TestResponse {
        let request = self.request(method, path, body);
        let direct = DirectRequest::from_request(request.method(), request.uri()).unwrap();
        read_response(direct.answer(&self.state, request).await).await
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> Request<Body> {
        Request::builder()
            .method(method)
            .uri(path)
            .header("x-api-key", &self.key)
            .header("content-type", "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap()
    }
}

async fn read_response(response: Response) -> TestResponse {
    let (mut parts, body) = response.into_parts();
    // axum adds it on one way, and the server on the other.
    parts.headers.remove("content-length");
    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    // A response of several lines is not JSON, and is compared as text.
    let text = || match &*String::from_utf8_lossy(&bytes) {
        "" => Value::Null,
        text => Value::String(text.to_owned()),
    };
    TestResponse {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()),
    }
}

impl<S> TestRouter<S> {
    /// Creates a poll and returns its path and that of a vote in it.
    pub(crate) async fn poll(&self) -> (String, String) {
        let body = r#"{"items":["a","b"],"expirationTime":"2030-01-01T00:00:00Z"}"#;
        let made = self.ask("POST", "/polls", body).await;
        assert_eq!(made.status, 201, "{made:?}");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let poll = format!("/polls/{}", text(&made.body["pollID"]));
        let vote = format!("{poll}/votes/{}", text(&made.body["items"][0]["itemID"]));
        (poll, vote)
    }
}
