//! A cache of API keys and what each one allows.
//!
//! **This is where an API key is checked.** The text is checked for typos, hashed,
//! and looked up by the first half of the hash. Then the whole hash is compared in
//! constant time, and the key's state is checked at the time of the request. A key
//! that is not cached is loaded from the source once.
//!
//! ```text
//!   loaded ──► cached ──► TTL passed: loaded again; stays cached if the source is
//!                 │       unavailable
//!                 └─────► removed when the change feed says that it changed
//! ```

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ballast_domain::credential::{BadCredential, CredentialHash, Purpose, inspect};
use ballast_domain::key::KeyStatus;
use ballast_domain::routes::{KeyGrant, RouteSource};
use ballast_domain::{Error, ErrorCode, KeyId, Result, Timestamp};
use quick_cache::sync::Cache;

/// The cached keys.
pub struct Keyring {
    source: Arc<dyn RouteSource>,
    entries: Cache<u128, Arc<CachedKey>>,
    /// The entry of each key id, because the change feed names keys by id. Every
    /// entry is listed. Ids of evicted entries are removed when the map has grown to
    /// twice the capacity.
    handles: Mutex<HashMap<KeyId, u128>>,
    capacity: usize,
    /// Counts invalidations: an answer that was read before one is not cached.
    invalidations: AtomicU64,
    /// Keys used since the last [`Keyring::take_uses`].
    used: Mutex<Vec<Arc<CachedKey>>>,
    ttl_ms: i64,
}

/// A cached key: one allocation, so that a check touches little memory.
#[derive(Debug)]
pub struct CachedKey {
    grant: KeyGrant,
    read_ms: i64,
    used_ms: AtomicI64,
    use_recorded: AtomicBool,
}

impl Deref for CachedKey {
    type Target = KeyGrant;
    fn deref(&self) -> &KeyGrant {
        &self.grant
    }
}

impl Keyring {
    /// An empty keyring of bounded size over a source.
    pub fn new(source: Arc<dyn RouteSource>, entries: usize, ttl_ms: i64) -> Self {
        Self {
            source,
            entries: Cache::new(entries),
            handles: Mutex::new(HashMap::new()),
            capacity: entries,
            invalidations: AtomicU64::new(0),
            used: Mutex::new(Vec::new()),
            ttl_ms,
        }
    }

    /// What the key with this hash allows, if it is active.
    pub async fn check(&self, hash: &CredentialHash, now: Timestamp) -> Result<Arc<CachedKey>> {
        let entry = match self.cached(hash, now) {
            Some(entry) => entry,
            None => self.load(hash, now).await?,
        };
        if !entry.hash.matches(hash) {
            return Err(reject_unknown());
        }
        match entry.status(now) {
            KeyStatus::Active => {}
            KeyStatus::Expired => return Err(reject("the key has expired")),
            KeyStatus::Revoked => return Err(reject("the key was revoked")),
        }
        self.record_use(&entry, now);
        Ok(entry)
    }

    fn cached(&self, hash: &CredentialHash, now: Timestamp) -> Option<Arc<CachedKey>> {
        self.entries
            .get(&hash.handle())
            .filter(|entry| now.unix_ms() < entry.read_ms.saturating_add(self.ttl_ms))
    }

    async fn load(&self, hash: &CredentialHash, now: Timestamp) -> Result<Arc<CachedKey>> {
        let before = self.invalidations.load(Ordering::Acquire);
        let answer = match self.source.grant(hash).await {
            Ok(answer) => answer,
            // The source is unavailable: a cached key stays valid.
            Err(error) => {
                return self.entries.get(&hash.handle()).ok_or_else(|| error.into());
            }
        };
        let Some(grant) = answer else {
            self.entries.remove(&hash.handle());
            return Err(reject_unknown());
        };
        let entry = Arc::new(CachedKey {
            read_ms: now.unix_ms(),
            used_ms: AtomicI64::new(0),
            use_recorded: AtomicBool::new(false),
            grant,
        });
        // The order matters: an invalidation before the link is seen below, and one
        // after it finds the entry.
        self.entries.insert(hash.handle(), entry.clone());
        self.link(&entry.key_id, hash.handle());
        if self.invalidations.load(Ordering::Acquire) != before {
            self.entries.remove(&hash.handle());
        }
        Ok(entry)
    }

    /// Removes a key that has changed.
    pub fn forget(&self, id: &KeyId) {
        self.invalidations.fetch_add(1, Ordering::AcqRel);
        let handle = self.handles().remove(id);
        if let Some(handle) = handle {
            self.entries.remove(&handle);
        }
    }

    /// Lists the entry of a key id.
    fn link(&self, id: &KeyId, handle: u128) {
        let mut handles = self.handles();
        handles.insert(id.clone(), handle);
        if handles.len() > self.capacity.saturating_mul(2).max(64) {
            handles.retain(|kept, handle| kept == id || self.entries.peek(handle).is_some());
        }
    }

    fn handles(&self) -> MutexGuard<'_, HashMap<KeyId, u128>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_use(&self, entry: &Arc<CachedKey>, now: Timestamp) {
        entry.used_ms.store(now.unix_ms(), Ordering::Relaxed);
        // The list is touched once per key and interval, not on every request.
        if !entry.use_recorded.swap(true, Ordering::Relaxed) {
            self.used
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(entry.clone());
        }
    }

    /// Takes the keys used since the last call, with the time of their last use.
    pub fn take_uses(&self) -> Vec<(KeyId, Timestamp)> {
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        used.into_iter()
            .map(|entry| {
                entry.use_recorded.store(false, Ordering::Relaxed);
                let at = Timestamp::from_unix_ms(entry.used_ms.load(Ordering::Relaxed));
                (entry.key_id.clone(), at)
            })
            .collect()
    }
}

/// Checks the form and checksum of an API key, and hashes it.
pub fn read_key(text: &str) -> Result<CredentialHash> {
    match inspect(text).map_err(reject_malformed)? {
        (Purpose::AdminToken, _) => {
            let detail = "this is an admin token; tenants' requests take an API key (bl_live_…)";
            Err(Error::new(ErrorCode::BadCredential, detail))
        }
        (Purpose::LiveKey | Purpose::TestKey, hash) => Ok(hash),
    }
}

fn reject_unknown() -> Error {
    reject("the key is well formed but does not work here")
}

fn reject(detail: &str) -> Error {
    Error::new(ErrorCode::BadCredential, detail)
}

fn reject_malformed(bad: BadCredential) -> Error {
    match bad {
        BadCredential::Mistyped => Error::new(
            ErrorCode::MistypedCredential,
            format!("the key is mistyped: {bad}"),
        ),
        _ => reject(&format!("this is no API key: {bad}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeSource, key};

    const NOW: Timestamp = Timestamp::from_unix_ms(1_000_000);

    fn keyring(source: &Arc<FakeSource>) -> Keyring {
        Keyring::new(source.clone(), 100, 60_000)
    }

    async fn check(keyring: &Keyring, key: &str, now: Timestamp) -> Result<Arc<CachedKey>> {
        keyring.check(&read_key(key)?, now).await
    }

    #[tokio::test]
    async fn a_key_is_loaded_once_and_then_cached() {
        let source = Arc::new(FakeSource::default());
        let (secret, id) = source.add_key("acme");
        let keyring = keyring(&source);
        for _ in 0..3 {
            let grant = check(&keyring, &secret, NOW).await.unwrap();
            assert_eq!(grant.key_id, id);
        }
        assert_eq!(source.calls(), 1);
        assert_eq!(keyring.take_uses(), vec![(id, NOW)]);
        assert!(keyring.take_uses().is_empty());
    }

    #[tokio::test]
    async fn a_typo_is_refused_without_a_lookup() {
        let source = Arc::new(FakeSource::default());
        let (secret, _) = source.add_key("acme");
        let mut typo = secret.clone();
        let last = typo.pop().unwrap();
        typo.push(if last == 'a' { 'b' } else { 'a' });
        let error = check(&keyring(&source), &typo, NOW).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::MistypedCredential);
        assert_eq!(source.calls(), 0);
    }

    #[tokio::test]
    async fn an_invalidated_key_is_loaded_again() {
        let source = Arc::new(FakeSource::default());
        let (secret, id) = source.add_key("acme");
        let keyring = keyring(&source);
        check(&keyring, &secret, NOW).await.unwrap();
        source.change_key(&id, |key| key.revoked = true);
        assert!(
            check(&keyring, &secret, NOW).await.is_ok(),
            "cached until invalidated"
        );
        keyring.forget(&id);
        let error = check(&keyring, &secret, NOW).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::BadCredential);
    }

    #[tokio::test]
    async fn a_busy_key_among_very_many_can_be_invalidated() {
        let source = Arc::new(FakeSource::default());
        let keyring = Keyring::new(source.clone(), 100, i64::MAX);
        let keys: Vec<_> = (0..2_000).map(|_| source.add_key("acme")).collect();
        let (busy, others) = keys.split_at(5);
        for (secret, _) in others {
            check(&keyring, secret, NOW).await.unwrap();
            for (secret, _) in busy {
                check(&keyring, secret, NOW).await.unwrap();
            }
        }
        for (secret, id) in busy {
            source.change_key(id, |key| key.revoked = true);
            keyring.forget(id);
            assert!(
                check(&keyring, secret, NOW).await.is_err(),
                "{id} still works"
            );
        }
        assert!(keyring.handles().len() <= 201, "the links stay bounded");
    }

    #[tokio::test]
    async fn an_answer_read_before_an_invalidation_is_not_cached() {
        let source = Arc::new(FakeSource::default());
        let (secret, id) = source.add_key("acme");
        let keyring = Arc::new(keyring(&source));
        // The source answers with the old state, and the change is announced
        // before that answer arrives.
        let (invalidated, changed) = (keyring.clone(), id.clone());
        source.before_next_answer(move || invalidated.forget(&changed));
        check(&keyring, &secret, NOW).await.unwrap();
        source.change_key(&id, |key| key.revoked = true);
        assert!(check(&keyring, &secret, NOW).await.is_err());
    }

    #[tokio::test]
    async fn an_expired_key_is_refused_though_cached() {
        let source = Arc::new(FakeSource::default());
        let (secret, id) = source.add_key("acme");
        source.change_key(&id, |key| key.expires_at = Some(NOW.plus_seconds(1)));
        let keyring = keyring(&source);
        assert!(check(&keyring, &secret, NOW).await.is_ok());
        assert!(check(&keyring, &secret, NOW.plus_seconds(1)).await.is_err());
    }

    #[tokio::test]
    async fn cached_keys_work_while_the_source_is_unavailable() {
        let source = Arc::new(FakeSource::default());
        let (secret, _) = source.add_key("acme");
        let keyring = keyring(&source);
        check(&keyring, &secret, NOW).await.unwrap();
        source.go_away();
        assert!(
            check(&keyring, &secret, NOW.plus_seconds(3_600))
                .await
                .is_ok()
        );
        let error = check(&keyring, &key(99), NOW).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::Unavailable);
    }
}
