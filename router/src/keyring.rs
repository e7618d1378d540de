//! API key → what it allows, from memory.
//!
//! **This is where an API key is checked.** The text is checked for typos,
//! hashed, and looked up by the first half of the hash; the whole hash is
//! then compared in constant time, and the key's own state is judged at the
//! time of the request. What is not in memory is asked of the source once.
//!
//! ```text
//!   asked ──► kept ──► (ttl passed: asked again, kept on if the source is away)
//!                └───► forgotten when the source says it changed
//! ```

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ballast_domain::credential::{BadCredential, CredentialHash, Purpose, inspect};
use ballast_domain::key::KeyStatus;
use ballast_domain::routes::{Grant, RouteSource};
use ballast_domain::{Error, ErrorCode, KeyId, Result, Timestamp};
use quick_cache::sync::Cache;

/// The keys that were used lately.
pub struct Keyring {
    source: Arc<dyn RouteSource>,
    entries: Cache<u128, Arc<Held>>,
    /// Which entry is a key's: the source tells changes by key id. It has a
    /// line for every entry at least; lines of entries that were evicted are
    /// swept when it has grown to twice the capacity.
    handles: Mutex<HashMap<KeyId, u128>>,
    capacity: usize,
    /// Grows with everything forgotten, so that an answer that was under way
    /// meanwhile is not kept.
    forgotten: AtomicU64,
    /// Keys that were used since the last [`Keyring::take_uses`].
    used: Mutex<Vec<Arc<Held>>>,
    ttl_ms: i64,
}

/// A key that is held in memory: one allocation, so that a check touches as
/// little memory as it can.
#[derive(Debug)]
pub struct Held {
    grant: Grant,
    read_ms: i64,
    used_ms: AtomicI64,
    noted: AtomicBool,
}

impl Deref for Held {
    type Target = Grant;
    fn deref(&self) -> &Grant {
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
            forgotten: AtomicU64::new(0),
            used: Mutex::new(Vec::new()),
            ttl_ms,
        }
    }

    /// What the key with this hash allows, if it works now.
    pub async fn check(&self, hash: &CredentialHash, now: Timestamp) -> Result<Arc<Held>> {
        let entry = match self.kept(hash, now) {
            Some(entry) => entry,
            None => self.ask(hash, now).await?,
        };
        if !entry.hash.matches(hash) {
            return Err(unknown());
        }
        match entry.status(now) {
            KeyStatus::Active => {}
            KeyStatus::Expired => return Err(refused("the key has expired")),
            KeyStatus::Revoked => return Err(refused("the key was revoked")),
        }
        self.note_use(&entry, now);
        Ok(entry)
    }

    fn kept(&self, hash: &CredentialHash, now: Timestamp) -> Option<Arc<Held>> {
        self.entries
            .get(&hash.handle())
            .filter(|entry| now.unix_ms() < entry.read_ms.saturating_add(self.ttl_ms))
    }

    async fn ask(&self, hash: &CredentialHash, now: Timestamp) -> Result<Arc<Held>> {
        let before = self.forgotten.load(Ordering::Acquire);
        let answer = match self.source.grant(hash).await {
            Ok(answer) => answer,
            // The source is away: what was known goes on being good.
            Err(away) => {
                return self.entries.get(&hash.handle()).ok_or_else(|| away.into());
            }
        };
        let Some(grant) = answer else {
            self.entries.remove(&hash.handle());
            return Err(unknown());
        };
        let entry = Arc::new(Held {
            read_ms: now.unix_ms(),
            used_ms: AtomicI64::new(0),
            noted: AtomicBool::new(false),
            grant,
        });
        // In this order: a change told before the link is there is seen below,
        // one told after it finds the entry.
        self.entries.insert(hash.handle(), entry.clone());
        self.link(&entry.key_id, hash.handle());
        if self.forgotten.load(Ordering::Acquire) != before {
            self.entries.remove(&hash.handle());
        }
        Ok(entry)
    }

    /// Forgets a key that has changed.
    pub fn forget(&self, id: &KeyId) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        let handle = self.handles().remove(id);
        if let Some(handle) = handle {
            self.entries.remove(&handle);
        }
    }

    /// Notes which entry is a key's.
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

    fn note_use(&self, entry: &Arc<Held>, now: Timestamp) {
        entry.used_ms.store(now.unix_ms(), Ordering::Relaxed);
        // The list is touched once per key and interval, not per request.
        if !entry.noted.swap(true, Ordering::Relaxed) {
            self.used
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(entry.clone());
        }
    }

    /// The keys used since the last call, with the time of their last use.
    pub fn take_uses(&self) -> Vec<(KeyId, Timestamp)> {
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        used.into_iter()
            .map(|entry| {
                entry.noted.store(false, Ordering::Relaxed);
                let at = Timestamp::from_unix_ms(entry.used_ms.load(Ordering::Relaxed));
                (entry.key_id.clone(), at)
            })
            .collect()
    }
}

/// The hash of an API key, once its form and checksum are right.
pub fn read_key(text: &str) -> Result<CredentialHash> {
    match inspect(text).map_err(unreadable)? {
        (Purpose::AdminToken, _) => {
            let detail = "this is an admin token; tenants' requests take an API key (bl_live_…)";
            Err(Error::new(ErrorCode::BadCredential, detail))
        }
        (Purpose::LiveKey | Purpose::TestKey, hash) => Ok(hash),
    }
}

fn unknown() -> Error {
    refused("the key is well formed but does not work here")
}

fn refused(detail: &str) -> Error {
    Error::new(ErrorCode::BadCredential, detail)
}

fn unreadable(bad: BadCredential) -> Error {
    match bad {
        BadCredential::Mistyped => Error::new(
            ErrorCode::MistypedCredential,
            format!("the key is mistyped: {bad}"),
        ),
        _ => refused(&format!("this is no API key: {bad}")),
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

    async fn check(keyring: &Keyring, key: &str, now: Timestamp) -> Result<Arc<Held>> {
        keyring.check(&read_key(key)?, now).await
    }

    #[tokio::test]
    async fn a_key_is_asked_for_once_and_then_kept() {
        let source = Arc::new(FakeSource::default());
        let (secret, id) = source.add_key("acme");
        let keyring = keyring(&source);
        for _ in 0..3 {
            let grant = check(&keyring, &secret, NOW).await.unwrap();
            assert_eq!(grant.key_id, id);
        }
        assert_eq!(source.asked(), 1);
        assert_eq!(keyring.take_uses(), vec![(id, NOW)]);
        assert!(keyring.take_uses().is_empty());
    }

    #[tokio::test]
    async fn a_typo_is_told_without_asking() {
        let source = Arc::new(FakeSource::default());
        let (secret, _) = source.add_key("acme");
        let mut typo = secret.clone();
        let last = typo.pop().unwrap();
        typo.push(if last == 'a' { 'b' } else { 'a' });
        let error = check(&keyring(&source), &typo, NOW).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::MistypedCredential);
        assert_eq!(source.asked(), 0);
    }

    #[tokio::test]
    async fn a_forgotten_key_is_asked_for_again() {
        let source = Arc::new(FakeSource::default());
        let (secret, id) = source.add_key("acme");
        let keyring = keyring(&source);
        check(&keyring, &secret, NOW).await.unwrap();
        source.change_key(&id, |key| key.revoked = true);
        assert!(
            check(&keyring, &secret, NOW).await.is_ok(),
            "kept until told"
        );
        keyring.forget(&id);
        let error = check(&keyring, &secret, NOW).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::BadCredential);
    }

    #[tokio::test]
    async fn a_busy_key_among_very_many_is_forgotten_when_told() {
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
    async fn an_answer_that_was_under_way_when_the_key_changed_is_not_kept() {
        let source = Arc::new(FakeSource::default());
        let (secret, id) = source.add_key("acme");
        let keyring = Arc::new(keyring(&source));
        // The source answers with the old state, and the change is announced
        // before that answer arrives.
        let told = keyring.clone();
        let changed = id.clone();
        source.before_next_answer(move || told.forget(&changed));
        check(&keyring, &secret, NOW).await.unwrap();
        source.change_key(&id, |key| key.revoked = true);
        assert!(check(&keyring, &secret, NOW).await.is_err());
    }

    #[tokio::test]
    async fn an_expired_key_is_refused_though_kept() {
        let source = Arc::new(FakeSource::default());
        let (secret, id) = source.add_key("acme");
        source.change_key(&id, |key| key.expires_at = Some(NOW.plus_seconds(1)));
        let keyring = keyring(&source);
        assert!(check(&keyring, &secret, NOW).await.is_ok());
        assert!(check(&keyring, &secret, NOW.plus_seconds(1)).await.is_err());
    }

    #[tokio::test]
    async fn what_is_kept_serves_on_while_the_source_is_away() {
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
