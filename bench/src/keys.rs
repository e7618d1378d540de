//! Checking an API key that is in memory: checksum, hash, look-up, constant time
//! comparison, expiry and recording its use, compared with the bare SHA-256 of the same
//! text, which every such check needs.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use ballast_domain::credential::{Credential, CredentialHash, Purpose};
use ballast_domain::key::KeyScope;
use ballast_domain::moving::MigrationId;
use ballast_domain::registry::RegistryError;
use ballast_domain::routes::{
    KeyGrant, RouteInvalidation, RouteSource, ShardRoute, StreamedPosition, TenantRoute,
};
use ballast_domain::{Entropy, KeyId, ShardId, TenantId, Timestamp};
use ballast_router::{Keyring, read_key};
use sha2::{Digest, Sha256};

use crate::sample::AT;
use crate::stopwatch::{Samples, Stopwatch, resident_bytes};
use crate::table::{Table, ratio, thousands};

/// Checks in one round, and rounds of each contender.
const CHECKS: usize = 20_000;
const ROUNDS: usize = 31;

/// Prints the table.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut table = Table::new(&[
        "keys in memory",
        "key → tenant",
        "bare SHA-256",
        "ratio",
        "bytes per key",
    ]);
    for count in [10_000, 1_000_000] {
        let (source, secrets) = source(count)?;
        let before = resident_bytes();
        // Enough capacity that no key is evicted.
        let keyring = Keyring::new(source, count * 2, i64::MAX);
        for secret in &secrets {
            keyring.check(&read_key(secret)?, AT).await?;
        }
        keyring.take_uses();
        let bytes = resident_bytes().saturating_sub(before) / count as u64;
        // Look keys up in an order that is unrelated to their order in memory.
        let asked: Vec<&str> = (0..CHECKS)
            .map(|n| secrets[n.wrapping_mul(7_919) % count].as_str())
            .collect();
        let (mut ours, mut bare) = (Samples::new(), Samples::new());
        for _ in 0..ROUNDS {
            let watch = Stopwatch::start();
            for key in &asked {
                black_box(keyring.check(&read_key(key)?, AT).await?);
            }
            ours.add(watch.elapsed());
            let watch = Stopwatch::start();
            for key in &asked {
                black_box(Sha256::digest(key.as_bytes()));
            }
            bare.add(watch.elapsed());
        }
        let per = |samples: &Samples| samples.median().as_nanos() as f64 / CHECKS as f64;
        table.row([
            thousands(count as u64),
            format!("{:.0} ns", per(&ours)),
            format!("{:.0} ns", per(&bare)),
            ratio(per(&ours), per(&bare)),
            thousands(bytes),
        ]);
    }
    table.print("keys: checking one that is in memory, median time");
    Ok(())
}

/// A source of `count` keys, and the keys.
fn source(count: usize) -> anyhow::Result<(Arc<Source>, Vec<String>)> {
    let seed = Seed(AtomicU64::new(1));
    let mut grants = HashMap::with_capacity(count);
    let mut secrets = Vec::with_capacity(count);
    for n in 0..count {
        let secret = Credential::generate(Purpose::LiveKey, &seed);
        grants.insert(*secret.hash().bytes(), grant(n, &secret, &seed)?);
        secrets.push(secret.expose().to_owned());
    }
    Ok((Arc::new(Source(grants)), secrets))
}

fn grant(n: usize, secret: &Credential, seed: &Seed) -> anyhow::Result<KeyGrant> {
    Ok(KeyGrant {
        hash: secret.hash(),
        key_id: KeyId::random(seed),
        tenant_id: format!("tenant-{n}").parse()?,
        scopes: KeyScope::ALL.into_iter().collect(),
        expires_at: None,
        revoked: false,
        throttle: None,
    })
}

struct Seed(AtomicU64);

impl Entropy for Seed {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut x = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            chunk.copy_from_slice(&(x ^ (x >> 31)).to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A source that answers at once: only the keyring is measured.
struct Source(HashMap<[u8; 32], KeyGrant>);

#[async_trait]
impl RouteSource for Source {
    async fn grant(&self, hash: &CredentialHash) -> Result<Option<KeyGrant>, RegistryError> {
        Ok(self.0.get(hash.bytes()).cloned())
    }
    async fn tenant(&self, _: &TenantId) -> Result<Option<Arc<TenantRoute>>, RegistryError> {
        Ok(None)
    }
    async fn shard(&self, _: &ShardId) -> Result<Option<ShardRoute>, RegistryError> {
        Ok(None)
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
