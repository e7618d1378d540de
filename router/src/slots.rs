//! Bounded places: so many in all, and so many of one tenant, in number and in
//! bytes. Whoever finds none is refused at once, so that waiting costs a
//! bounded amount of memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ballast_domain::TenantId;

/// So much may be taken, or is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// Places.
    pub(crate) number: usize,
    /// What they keep in memory.
    pub(crate) bytes: usize,
}

impl Room {
    /// So many places, whatever they keep.
    pub(crate) fn places(number: usize) -> Self {
        let bytes = usize::MAX;
        Self { number, bytes }
    }

    /// This and one place more, if that is within `most`. The first one always
    /// has room for its bytes: what is larger than all the room there is would
    /// never get any.
    fn with(self, bytes: usize, most: Self) -> Option<Self> {
        let next = Self {
            number: self.number + 1,
            bytes: self.bytes.saturating_add(bytes),
        };
        let fits = next.bytes <= most.bytes || self.number == 0;
        (next.number <= most.number && fits).then_some(next)
    }

    fn without(self, bytes: usize) -> Self {
        Self {
            number: self.number.saturating_sub(1),
            bytes: self.bytes.saturating_sub(bytes),
        }
    }
}

/// So much room, and so much of it for one tenant.
#[derive(Debug)]
pub(crate) struct Slots {
    most: Room,
    most_per_tenant: Room,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: Room,
    by_tenant: HashMap<TenantId, Room>,
}

/// One place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    tenant: TenantId,
    bytes: usize,
}

impl Slots {
    pub(crate) fn new(most: Room, most_per_tenant: Room) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_per_tenant,
            taken: Mutex::default(),
        })
    }

    /// A place for a tenant, or nothing when there is no room left.
    pub(crate) fn take(self: &Arc<Self>, tenant: &TenantId, bytes: usize) -> Option<Slot> {
        let mut taken = self.taken();
        let own = taken.by_tenant.get(tenant).copied().unwrap_or_default();
        let total = taken.total.with(bytes, self.most)?;
        let own = own.with(bytes, self.most_per_tenant)?;
        taken.total = total;
        taken.by_tenant.insert(tenant.clone(), own);
        Some(Slot {
            slots: self.clone(),
            tenant: tenant.clone(),
            bytes,
        })
    }

    /// How many places are taken.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.taken().total.number
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        taken.total = taken.total.without(self.bytes);
        if let Some(own) = taken.by_tenant.get_mut(&self.tenant) {
            *own = own.without(self.bytes);
            if own.number == 0 {
                taken.by_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_in_all_and_per_tenant_and_come_back() {
        let slots = Slots::new(Room::places(3), Room::places(2));
        let (one, two): (TenantId, TenantId) = ("one".parse().unwrap(), "two".parse().unwrap());
        let first = slots.take(&one, 0).unwrap();
        let _second = slots.take(&one, 0).unwrap();
        assert!(slots.take(&one, 0).is_none(), "a third of one tenant");
        let _third = slots.take(&two, 0).unwrap();
        assert!(slots.take(&two, 0).is_none(), "a fourth in all");
        drop(first);
        assert!(slots.take(&two, 0).is_some());
        assert_eq!(slots.taken().by_tenant.len(), 2);
    }

    #[test]
    fn bytes_are_bounded_in_all_and_per_tenant_and_come_back() {
        let room = |bytes| Room { number: 9, bytes };
        let slots = Slots::new(room(100), room(60));
        let [one, two]: [TenantId; 2] = ["one", "two"].map(|id| id.parse().unwrap());
        let first = slots.take(&one, 50).unwrap();
        assert!(slots.take(&one, 20).is_none(), "70 of one tenant");
        let second = slots.take(&two, 45).unwrap();
        assert!(slots.take(&two, 10).is_none(), "105 in all");
        drop(first);
        assert!(slots.take(&two, 10).is_some());
        drop(second);
        assert_eq!(slots.taken().total, Room::default());
        let huge = slots.take(&one, 500);
        assert!(huge.is_some(), "alone, the largest has room too");
        assert!(slots.take(&two, 1).is_none());
    }
}
