//! Gates: held requests for the same slice wait at one gate.
//!
//! ```text
//!   scout    the one request that retries, for all of them
//!   others   notified when the scout was answered or the route changed
//!   permit   limits how many requests leave the gate at a time
//! ```
//! Thousands of held requests cost the shard no more than one, and they do not
//! flood it when it is back.

use std::sync::Arc;

use ballast_domain::TenantId;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, watch};

use crate::ref_counted::{RefCountedEntry, RefCountedMap};

/// How many requests that left a gate may be at the shard at a time. If the shard
/// answers in 2 ms, that is 250,000 requests per second.
const RELEASED_AT_ONCE: usize = 512;

/// The tenant and the slice; no slice when the route has none for the request.
type GateKey = (TenantId, Option<u32>);

/// The gates that are in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gates(Arc<RefCountedMap<GateKey, Gate>>);

/// Membership of a request at a gate.
pub(super) type GateGuard = RefCountedEntry<GateKey, Gate>;

/// The lock that the scout of a gate holds.
pub(super) type ScoutGuard = OwnedMutexGuard<()>;

/// The gate of one slice.
#[derive(Debug)]
pub(crate) struct Gate {
    /// How many held requests were answered. A notification that does not change
    /// the number says that the route may have changed.
    answered: watch::Sender<u64>,
    scout: Arc<Mutex<()>>,
    released: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            answered: watch::Sender::new(0),
            scout: Arc::default(),
            released: Arc::new(Semaphore::new(RELEASED_AT_ONCE)),
        }
    }
}

impl Gates {
    /// Enters the gate of a slice.
    pub(super) fn enter(&self, tenant: &TenantId, slice: Option<u32>) -> GateGuard {
        self.0.enter((tenant.clone(), slice))
    }

    /// Tells the requests held for a tenant that its route may have changed.
    pub(crate) fn route_changed(&self, tenant: &TenantId) {
        let slices = (tenant.clone(), None)..=(tenant.clone(), Some(u32::MAX));
        self.0
            .for_each(slices, |gate| gate.answered.send_modify(|_| {}));
    }
}

impl Gate {
    /// Receives the notifications from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        let mut notifications = self.answered.subscribe();
        notifications.mark_unchanged();
        notifications
    }

    /// Tells the others that a held request was answered, so that they retry.
    pub(super) fn notify_answered(&self) {
        self.answered.send_modify(|times| *times += 1);
    }

    /// Becomes the scout if there is none.
    pub(super) fn try_scout(&self) -> Option<ScoutGuard> {
        self.scout.clone().try_lock_owned().ok()
    }

    /// Waits until the scout leaves, and becomes the next one.
    pub(super) fn next_scout(&self) -> impl Future<Output = ScoutGuard> + use<> {
        self.scout.clone().lock_owned()
    }

    /// Waits for a permit to call the shard. The semaphore is never closed; if it
    /// were, requests would go on without a permit.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.released.clone().acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_change_notifies_only_the_tenants_own_requests() {
        let gates = Gates::default();
        let [acme, other]: [TenantId; 2] = ["acme", "beta"].map(|id| id.parse().unwrap());
        let waiting = [
            (gates.enter(&acme, None), true),
            (gates.enter(&acme, Some(0)), true),
            (gates.enter(&acme, Some(7)), true),
            (gates.enter(&other, Some(0)), false),
        ];
        let subscribed: Vec<_> = waiting
            .iter()
            .map(|(gate, notified)| (gate.subscribe(), *notified))
            .collect();
        gates.route_changed(&acme);
        for (receiver, notified) in subscribed {
            assert_eq!(receiver.has_changed().unwrap(), notified);
        }
    }

    #[tokio::test]
    async fn there_is_one_scout_and_the_next_follows_it() {
        let gates = Gates::default();
        let acme: TenantId = "acme".parse().unwrap();
        let gate = gates.enter(&acme, Some(0));
        let scout = gate.try_scout().unwrap();
        assert!(gate.try_scout().is_none());
        let next = gate.next_scout();
        drop(scout);
        let _next = next.await;
        assert!(gate.try_scout().is_none());
    }

    #[tokio::test]
    async fn permits_bound_how_many_leave_at_a_time() {
        let gate = Gate::default();
        let mut permits = Vec::new();
        for _ in 0..RELEASED_AT_ONCE {
            permits.push(gate.permit().await.unwrap());
        }
        assert!(gate.released.try_acquire().is_err());
        permits.pop();
        assert!(gate.released.try_acquire().is_ok());
    }
}
