//! A pool of slots for requests that wait, bounded in number and in bytes, in total
//! and per tenant. A request that finds no slot is refused at once, so that waiting
//! requests use a bounded amount of memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ballast_domain::TenantId;

/// A number of slots and their bytes: a limit, or the amount in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SlotAmount {
    /// Slots.
    pub(crate) number: usize,
    /// Bytes that they keep in memory.
    pub(crate) bytes: usize,
}

impl SlotAmount {
    /// A limit on the number alone.
    pub(crate) fn count_only(number: usize) -> Self {
        let bytes = usize::MAX;
        Self { number, bytes }
    }

    /// This amount and one slot more, if that is within `most`. The first slot may
    /// exceed the limit on bytes: otherwise a request larger than the limit would
    /// never be admitted.
    fn plus(self, bytes: usize, most: Self) -> Option<Self> {
        let next = Self {
            number: self.number + 1,
            bytes: self.bytes.saturating_add(bytes),
        };
        let fits = next.bytes <= most.bytes || self.number == 0;
        (next.number <= most.number && fits).then_some(next)
    }

    fn minus(self, bytes: usize) -> Self {
        Self {
            number: self.number.saturating_sub(1),
            bytes: self.bytes.saturating_sub(bytes),
        }
    }
}

/// The slots in use, and their limits.
#[derive(Debug)]
pub(crate) struct SlotPool {
    most: SlotAmount,
    most_per_tenant: SlotAmount,
    usage: Mutex<SlotUsage>,
}

#[derive(Debug, Default)]
struct SlotUsage {
    total: SlotAmount,
    by_tenant: HashMap<TenantId, SlotAmount>,
}

/// One slot, released when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<SlotPool>,
    tenant: TenantId,
    bytes: usize,
}

impl SlotPool {
    pub(crate) fn new(most: SlotAmount, most_per_tenant: SlotAmount) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_per_tenant,
            usage: Mutex::default(),
        })
    }

    /// Takes a slot for a tenant; `None` when the pool or the tenant's share is full.
    pub(crate) fn acquire(self: &Arc<Self>, tenant: &TenantId, bytes: usize) -> Option<Slot> {
        let mut usage = self.usage();
        let own = usage.by_tenant.get(tenant).copied().unwrap_or_default();
        let total = usage.total.plus(bytes, self.most)?;
        let own = own.plus(bytes, self.most_per_tenant)?;
        usage.total = total;
        usage.by_tenant.insert(tenant.clone(), own);
        Some(Slot {
            slots: self.clone(),
            tenant: tenant.clone(),
            bytes,
        })
    }

    /// How many slots are in use.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.usage().total.number
    }

    fn usage(&self) -> MutexGuard<'_, SlotUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut usage = self.slots.usage();
        usage.total = usage.total.minus(self.bytes);
        if let Some(own) = usage.by_tenant.get_mut(&self.tenant) {
            *own = own.minus(self.bytes);
            if own.number == 0 {
                usage.by_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_bounded_in_total_and_per_tenant_and_reusable() {
        let slots = SlotPool::new(SlotAmount::count_only(3), SlotAmount::count_only(2));
        let (one, two): (TenantId, TenantId) = ("one".parse().unwrap(), "two".parse().unwrap());
        let first = slots.acquire(&one, 0).unwrap();
        let _second = slots.acquire(&one, 0).unwrap();
        assert!(slots.acquire(&one, 0).is_none(), "a third of one tenant");
        let _third = slots.acquire(&two, 0).unwrap();
        assert!(slots.acquire(&two, 0).is_none(), "a fourth in all");
        drop(first);
        assert!(slots.acquire(&two, 0).is_some());
        assert_eq!(slots.usage().by_tenant.len(), 2);
    }

    #[test]
    fn bytes_are_bounded_in_total_and_per_tenant_and_reusable() {
        let room = |bytes| SlotAmount { number: 9, bytes };
        let slots = SlotPool::new(room(100), room(60));
        let [one, two]: [TenantId; 2] = ["one", "two"].map(|id| id.parse().unwrap());
        let first = slots.acquire(&one, 50).unwrap();
        assert!(slots.acquire(&one, 20).is_none(), "70 of one tenant");
        let second = slots.acquire(&two, 45).unwrap();
        assert!(slots.acquire(&two, 10).is_none(), "105 in all");
        drop(first);
        assert!(slots.acquire(&two, 10).is_some());
        drop(second);
        assert_eq!(slots.usage().total, SlotAmount::default());
        let huge = slots.acquire(&one, 500);
        assert!(huge.is_some(), "alone, the largest has room too");
        assert!(slots.acquire(&two, 1).is_none());
    }
}
