//! Where those wait who wait for the same slice.
//!
//! ```text
//!   one of them, the scout, tries again and again
//!   the others are told: its try was answered, or the route has changed
//!   whoever goes on takes a permit: so many at once, and no more
//! ```
//! So thousands who wait cost the shard as little as one, and when it is back
//! it is not flooded by all of them.

use std::sync::Arc;

use ballast_domain::TenantId;
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, watch};

use crate::in_use::{InUse, Using};

/// Of those who waited for a slice, so many may be at its shard at once. With
/// a shard that answers in 2 ms, that is 250,000 a second.
const RELEASED_AT_ONCE: usize = 512;

/// Which slice is waited for; `None` when the route has none for the request.
type Awaited = (TenantId, Option<u32>);

/// The gates at which somebody waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gates(Arc<InUse<Awaited, Gate>>);

/// A gate at which somebody waits.
pub(super) type AtGate = Using<Awaited, Gate>;

/// Held by the scout.
pub(super) type Scout = OwnedMutexGuard<()>;

/// Where those wait who wait for one slice.
#[derive(Debug)]
pub(crate) struct Gate {
    /// How often somebody was answered who had waited. Told without a change
    /// when the route is another one.
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
    /// Comes to wait for a slice.
    pub(super) fn enter(&self, tenant: &TenantId, slice: Option<u32>) -> AtGate {
        self.0.enter((tenant.clone(), slice))
    }

    /// A tenant's route is, or may be, another one: whoever waits looks.
    pub(crate) fn route_changed(&self, tenant: &TenantId) {
        let slices = (tenant.clone(), None)..=(tenant.clone(), Some(u32::MAX));
        self.0
            .each(slices, |gate| gate.answered.send_modify(|_| {}));
    }
}

impl Gate {
    /// What is told from now on.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        let mut news = self.answered.subscribe();
        news.mark_unchanged();
        news
    }

    /// Somebody who waited was answered: the others go on.
    pub(super) fn open(&self) {
        self.answered.send_modify(|times| *times += 1);
    }

    /// Becomes the scout, if there is none.
    pub(super) fn try_scout(&self) -> Option<Scout> {
        self.scout.clone().try_lock_owned().ok()
    }

    /// Becomes the scout when the one there is has gone.
    pub(super) fn scout(&self) -> impl Future<Output = Scout> + use<> {
        self.scout.clone().lock_owned()
    }

    /// The permit to go on. Nobody closes it; if somebody did, nobody would be
    /// kept back.
    pub(super) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        self.released.clone().acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wait_for_a_tenant_hear_of_its_route_and_no_others() {
        let gates = Gates::default();
        let [acme, other]: [TenantId; 2] = ["acme", "beta"].map(|id| id.parse().unwrap());
        let waiting = [
            (gates.enter(&acme, None), true),
            (gates.enter(&acme, Some(0)), true),
            (gates.enter(&acme, Some(7)), true),
            (gates.enter(&other, Some(0)), false),
        ];
        let news: Vec<_> = waiting
            .iter()
            .map(|(gate, told)| (gate.news(), *told))
            .collect();
        gates.route_changed(&acme);
        for (news, told) in news {
            assert_eq!(news.has_changed().unwrap(), told);
        }
    }

    #[tokio::test]
    async fn there_is_one_scout_and_the_next_follows_it() {
        let gates = Gates::default();
        let acme: TenantId = "acme".parse().unwrap();
        let gate = gates.enter(&acme, Some(0));
        let scout = gate.try_scout().unwrap();
        assert!(gate.try_scout().is_none());
        let next = gate.scout();
        drop(scout);
        let _next = next.await;
        assert!(gate.try_scout().is_none());
    }

    #[tokio::test]
    async fn only_so_many_go_on_at_once() {
        let gate = Gate::default();
        let mut gone_on = Vec::new();
        for _ in 0..RELEASED_AT_ONCE {
            gone_on.push(gate.permit().await.unwrap());
        }
        assert!(gate.released.try_acquire().is_err());
        gone_on.pop();
        assert!(gate.released.try_acquire().is_ok());
    }
}
