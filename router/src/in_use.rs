//! Things that are there while somebody uses them, one for each key: so many
//! as are in use, and no more.

use std::collections::BTreeMap;
use std::ops::{Deref, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The things in use.
#[derive(Debug)]
pub(crate) struct InUse<K: Ord + Clone, V>(Mutex<BTreeMap<K, Arc<V>>>);

/// One of them; it goes with its last user.
#[derive(Debug)]
pub(crate) struct Using<K: Ord + Clone, V> {
    all: Arc<InUse<K, V>>,
    key: K,
    thing: Arc<V>,
}

impl<K: Ord + Clone, V> Default for InUse<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord + Clone, V> InUse<K, V> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Arc<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thing of a key: the one that is in use, or a new one.
    pub(crate) fn enter(self: &Arc<Self>, key: K) -> Using<K, V>
    where
        V: Default,
    {
        let thing = self.lock().entry(key.clone()).or_default().clone();
        Using {
            all: self.clone(),
            key,
            thing,
        }
    }

    /// Does something with each that is in use, of a range of keys.
    pub(crate) fn each(&self, keys: impl RangeBounds<K>, mut act: impl FnMut(&V)) {
        for thing in self.lock().range(keys).map(|(_, thing)| thing) {
            act(thing);
        }
    }
}

impl<K: Ord + Clone, V> Deref for Using<K, V> {
    type Target = V;
    fn deref(&self) -> &V {
        &self.thing
    }
}

impl<K: Ord + Clone, V> Drop for Using<K, V> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        // Under the lock nobody comes in: the map's own, and this one.
        if Arc::strong_count(&self.thing) == 2 {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_shared_while_it_is_used_and_goes_with_its_last_user() {
        let all: Arc<InUse<u8, Mutex<u32>>> = Arc::default();
        let one = all.enter(1);
        *one.lock().unwrap() = 7;
        let again = all.enter(1);
        let other = all.enter(2);
        assert_eq!(*again.lock().unwrap(), 7);
        drop(one);
        let mut seen = Vec::new();
        all.each(.., |thing| seen.push(*thing.lock().unwrap()));
        assert_eq!(seen, [7, 0]);
        drop((again, other));
        all.each(.., |_| panic!("nobody uses any"));
        assert_eq!(*all.enter(1).lock().unwrap(), 0, "a new one");
    }
}
