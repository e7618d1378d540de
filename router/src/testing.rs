//! A route source for this room's tests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast_domain::credential::{Credential, CredentialHash, Purpose};
use ballast_domain::key::{ApiKey, KeyMode, Scope};
use ballast_domain::registry::StoreError;
use ballast_domain::routes::{Grant, RouteSource, ShardRoute, Stale, TenantRoute};
use ballast_domain::shard::ShardState;
use ballast_domain::{Entropy, KeyId, ShardId, TenantId, Timestamp};

struct Seed(AtomicU64);

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

/// A source whose answers and absences a test decides.
#[derive(Default)]
pub(crate) struct FakeSource {
    keys: Mutex<HashMap<[u8; 32], Grant>>,
    tenants: Mutex<HashMap<TenantId, Arc<TenantRoute>>>,
    shards: Mutex<HashMap<ShardId, ShardRoute>>,
    asked: AtomicUsize,
    away: AtomicBool,
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
            scopes: Scope::ALL.to_vec(),
            created_at: Timestamp::from_unix_ms(0),
            expires_at: None,
            revoked_at: None,
            replaced_by: None,
        };
        let id = key.key_id.clone();
        let hash = secret.hash();
        keys.insert(*hash.bytes(), Grant::new(hash, &key));
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

    pub(crate) fn change_key(&self, id: &KeyId, change: impl FnOnce(&mut Grant)) {
        let mut keys = self.keys.lock().unwrap();
        let grant = keys.values_mut().find(|grant| grant.key_id == *id).unwrap();
        change(grant);
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn go_away(&self) {
        self.away.store(true, Ordering::SeqCst);
    }

    pub(crate) fn before_next_answer(&self, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }
}

#[async_trait]
impl RouteSource for FakeSource {
    async fn grant(&self, hash: &CredentialHash) -> Result<Option<Grant>, StoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::new("ask", "away"));
        }
        let answer = self.keys.lock().unwrap().get(hash.bytes()).cloned();
        if let Some(hook) = self.hook.lock().unwrap().take() {
            hook();
        }
        Ok(answer)
    }

    async fn tenant(&self, id: &TenantId) -> Result<Option<Arc<TenantRoute>>, StoreError> {
        Ok(self.tenants.lock().unwrap().get(id).cloned())
    }

    async fn shard(&self, id: &ShardId) -> Result<Option<ShardRoute>, StoreError> {
        Ok(self.shards.lock().unwrap().get(id).cloned())
    }

    async fn stale_since(&self, revision: u64) -> Result<(u64, Vec<Stale>), StoreError> {
        Ok((revision, Vec::new()))
    }

    async fn revision(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn keys_used(&self, _: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError> {
        Ok(())
    }
}
