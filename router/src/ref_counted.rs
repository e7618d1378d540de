//! A map whose values exist while they are in use: the first user of a key creates
//! the value, and the last one removes it.

use std::collections::BTreeMap;
use std::ops::{Deref, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The values in use, by key.
#[derive(Debug)]
pub(crate) struct RefCountedMap<K: Ord + Clone, V>(Mutex<BTreeMap<K, Arc<V>>>);

/// A user's handle to a value. Dropping the last handle removes the value.
#[derive(Debug)]
pub(crate) struct RefCountedEntry<K: Ord + Clone, V> {
    all: Arc<RefCountedMap<K, V>>,
    key: K,
    value: Arc<V>,
}

impl<K: Ord + Clone, V> Default for RefCountedMap<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone, V> RefCountedMap<K, V> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Arc<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets the value of a key, or creates it.
    pub(crate) fn enter(self: &Arc<Self>, key: K) -> RefCountedEntry<K, V>
    where
        V: Default,
    {
        let value = self.lock().entry(key.clone()).or_default().clone();
        RefCountedEntry {
            all: self.clone(),
            key,
            value,
        }
    }

    /// Calls `act` for every value in a range of keys.
    pub(crate) fn for_each(&self, keys: impl RangeBounds<K>, mut act: impl FnMut(&V)) {
        for value in self.lock().range(keys).map(|(_, value)| value) {
            act(value);
        }
    }
}

impl<K: Ord + Clone, V> Deref for RefCountedEntry<K, V> {
    type Target = V;
    fn deref(&self) -> &V {
        &self.value
    }
}

impl<K: Ord + Clone, V> Drop for RefCountedEntry<K, V> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        // Two references are left: the map's and this one. The lock keeps new users
        // out.
        if Arc::strong_count(&self.value) == 2 {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shared_while_in_use_and_removed_by_its_last_user() {
        let all: Arc<RefCountedMap<u8, Mutex<u32>>> = Arc::default();
        let one = all.enter(1);
        *one.lock().unwrap() = 7;
        let again = all.enter(1);
        let other = all.enter(2);
        assert_eq!(*again.lock().unwrap(), 7);
        drop(one);
        let mut seen = Vec::new();
        all.for_each(.., |value| seen.push(*value.lock().unwrap()));
        assert_eq!(seen, [7, 0]);
        drop((again, other));
        all.for_each(.., |_| panic!("no value is in use"));
        assert_eq!(*all.enter(1).lock().unwrap(), 0, "a new one");
    }
}
