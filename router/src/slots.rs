//! Bounded places: so many in all, and so many of one tenant. Whoever finds
//! none is refused at once, so that waiting costs a bounded amount of memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ballast_domain::TenantId;

/// So many places, and so many of them for one tenant.
#[derive(Debug)]
pub(crate) struct Slots {
    most: usize,
    most_per_tenant: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_tenant: HashMap<TenantId, usize>,
}

/// One place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    tenant: TenantId,
}

impl Slots {
    pub(crate) fn new(most: usize, most_per_tenant: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_per_tenant,
            taken: Mutex::default(),
        })
    }

    /// A place for a tenant, or nothing when there is none left.
    pub(crate) fn take(self: &Arc<Self>, tenant: &TenantId) -> Option<Slot> {
        let mut taken = self.taken();
        if taken.total >= self.most {
            return None;
        }
        let own = taken.by_tenant.entry(tenant.clone()).or_default();
        if *own >= self.most_per_tenant {
            return None;
        }
        *own += 1;
        taken.total += 1;
        Some(Slot {
            slots: self.clone(),
            tenant: tenant.clone(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        taken.total = taken.total.saturating_sub(1);
        if let Some(own) = taken.by_tenant.get_mut(&self.tenant) {
            *own = own.saturating_sub(1);
            if *own == 0 {
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
        let slots = Slots::new(3, 2);
        let (one, two): (TenantId, TenantId) = ("one".parse().unwrap(), "two".parse().unwrap());
        let first = slots.take(&one).unwrap();
        let _second = slots.take(&one).unwrap();
        assert!(slots.take(&one).is_none(), "a third of one tenant");
        let _third = slots.take(&two).unwrap();
        assert!(slots.take(&two).is_none(), "a fourth in all");
        drop(first);
        assert!(slots.take(&two).is_some());
        assert_eq!(slots.taken().by_tenant.len(), 2);
    }
}
