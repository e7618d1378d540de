//! Held requests: a request waits here while its shard cannot serve it.
//!
//! ```text
//!   attempt failed ──► has the route changed? ── yes ──► retry at once
//!                             │ no
//!                             ▼
//!                      wait at the gate of the slice (gate.rs)
//!                             │ notified, or the backoff is over
//!                             ▼
//!                           retry
//! ```
//! [`ballast_domain::hold`] decides how long to wait. The number of held
//! requests and their bytes are bounded, in total and per tenant. The wait is
//! part of the request's future: when the client disconnects, the future is
//! dropped and the request is not retried.

mod gate;
mod stale_registry;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ballast_domain::hold::{self, AttemptFailure, HoldDecision, WaiterRole};
use ballast_domain::routes::TenantRoute;
use ballast_domain::tenant::Epoch;
use ballast_domain::{Error, ErrorCode, Result, ShardId, TenantId};
use ballast_vote_shard::ShardError;
use tokio::sync::OwnedSemaphorePermit;

pub(crate) use gate::Gates;
pub(crate) use stale_registry::StaleRegistryMonitor;

use self::gate::{GateGuard, ScoutGuard};
use crate::RouterState;

use crate::deliver::RouteKey;
use crate::slots::Slot;

/// Outcomes of held requests since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldCounts {
    /// The time that they waited, in total.
    pub ms: u64,
    /// Requests that their shard answered.
    pub answered: u64,
    /// Requests that reached their deadline.
    pub gave_up: u64,
    /// Requests whose clients disconnected.
    pub gone: u64,
    /// Requests that were refused because too many were held.
    pub refused: u64,
}

/// The counters behind [`HeldCounts`].
#[derive(Debug, Default)]
pub(crate) struct HeldRequestCounters {
    ms: AtomicU64,
    answered: AtomicU64,
    gave_up: AtomicU64,
    gone: AtomicU64,
    refused: AtomicU64,
}

impl RouterState {
    /// Outcomes of held requests since the start.
    pub fn held_counts(&self) -> HeldCounts {
        let HeldRequestCounters {
            ms,
            answered,
            gave_up,
            gone,
            refused,
        } = &self.parts.held_counters;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        HeldCounts {
            ms: read(ms),
            answered: read(answered),
            gave_up: read(gave_up),
            gone: read(gone),
            refused: read(refused),
        }
    }
}

/// The shard and epoch of an attempt. Another attempt makes sense at once when
/// the route differs from this.
type TriedRoute = Option<(ShardId, Epoch)>;

/// A request on its way to its shard, which may have to wait.
pub(crate) struct PendingRequest<'a> {
    state: &'a RouterState,
    tenant: &'a TenantId,
    route_key: &'a RouteKey,
    bytes: usize,
    /// When it arrived.
    since_ms: i64,
    /// The sum of the waits that were set. The deadline also counts these, in
    /// case the clock is set back.
    waited_ms: i64,
    /// When the current wait began, if it is waiting.
    waits_since_ms: Option<i64>,
    /// How long the waits took that are over.
    held_for_ms: i64,
    /// Attempts on the current route.
    attempt: u32,
    /// Whether it ever waited.
    was_held: bool,
    /// Whether it was answered or failed. If not, its client disconnected.
    has_ended: bool,
    wait_state: Option<Box<WaitState>>,
}

/// What a request owns while it is held.
struct WaitState {
    _slot: Slot,
    gate: GateGuard,
    slice: Option<u32>,
    scout: Option<ScoutGuard>,
}

impl<'a> PendingRequest<'a> {
    /// A request that keeps `bytes` in memory while it is held.
    pub(crate) fn new(
        state: &'a RouterState,
        tenant: &'a TenantId,
        route_key: &'a RouteKey,
        bytes: usize,
    ) -> Self {
        Self {
            state,
            tenant,
            route_key,
            bytes,
            since_ms: state.parts.clock.now().unix_ms(),
            waited_ms: 0,
            waits_since_ms: None,
            held_for_ms: 0,
            attempt: 0,
            was_held: false,
            has_ended: false,
            wait_state: None,
        }
    }

    /// The tenant.
    pub(crate) fn tenant(&self) -> &'a TenantId {
        self.tenant
    }

    /// What the request is about.
    pub(crate) fn route_key(&self) -> &'a RouteKey {
        self.route_key
    }

    /// Waits for a permit to call the shard. Only a request that was held needs
    /// one. The time counts as held.
    pub(crate) async fn permit(&mut self) -> Option<OwnedSemaphorePermit> {
        let permit = self.wait_state.as_ref()?.gate.permit().await;
        self.stop_timer();
        permit
    }

    /// How long it has been held until now.
    pub(crate) fn held_time(&mut self) -> Duration {
        self.stop_timer();
        Duration::from_millis(self.held_for_ms.unsigned_abs())
    }

    /// Adds the time of the current wait.
    fn stop_timer(&mut self) {
        if let Some(since_ms) = self.waits_since_ms.take() {
            let now_ms = self.state.parts.clock.now().unix_ms();
            self.held_for_ms += now_ms.saturating_sub(since_ms).max(0);
        }
    }

    /// The shard has answered, be it with a refusal: the other requests at the
    /// gate retry.
    pub(crate) fn answered(&mut self) {
        self.has_ended = true;
        if let Some(wait_state) = &self.wait_state {
            wait_state.gate.notify_answered();
            let counters = &self.state.parts.held_counters;
            counters.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The request fails before its shard has answered.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Waits before the next attempt. Fails if waiting does not help, at the
    /// deadline, or when too many requests are held.
    pub(crate) async fn wait(
        &mut self,
        route: &Arc<TenantRoute>,
        failure: ShardError,
    ) -> Result<()> {
        let cause = match &failure {
            ShardError::Fenced(_) => AttemptFailure::Fenced,
            ShardError::Unavailable { .. } => AttemptFailure::Unavailable,
            // A retry gives the same result.
            ShardError::Damaged { .. }
            | ShardError::Refused(_)
            | ShardError::SliceState(_)
            | ShardError::CursorTooOld => {
                self.answered();
                return Err(failure.into());
            }
        };
        self.attempt = self.attempt.saturating_add(1);
        if self.backoff(WaiterRole::Other, cause).is_none() {
            self.state
                .check_registry_age(route, self.route_key, &failure)
                .await;
            return Err(self.give_up(&failure));
        }
        let slice = self.route_key.slice(route);
        let tried = slice.map(|slice| (slice.shard_id.clone(), slice.epoch));
        let mut wait_state = self.enter_gate(slice.map(|slice| slice.slice))?;
        self.was_held = true;
        self.waits_since_ms = Some(self.state.parts.clock.now().unix_ms());
        let outcome = self
            .wait_at_gate(&mut wait_state, route, &tried, cause)
            .await;
        self.wait_state = Some(wait_state);
        if let WaitOutcome::RouteChanged = outcome {
            self.attempt = 0;
        }
        Ok(())
    }

    async fn wait_at_gate(
        &mut self,
        wait_state: &mut WaitState,
        route: &Arc<TenantRoute>,
        tried: &TriedRoute,
        cause: AttemptFailure,
    ) -> WaitOutcome {
        // Subscribe first, so that no notification is lost from here on.
        let mut notifications = wait_state.gate.subscribe();
        let answered = *notifications.borrow();
        let is_fenced = cause == AttemptFailure::Fenced;
        if wait_state.scout.is_none() {
            wait_state.scout = wait_state.gate.try_scout();
        }
        // The scout reads the route for all. The others check whether it has
        // found a new one before they came.
        let has_changed = match wait_state.scout {
            Some(_) if is_fenced && self.attempt == 1 => {
                self.has_route_changed_after_refresh(route, tried).await
            }
            Some(_) => false,
            None => self.has_route_changed(tried).await,
        };
        if has_changed {
            return WaitOutcome::RouteChanged;
        }
        let timer = tokio::time::sleep(self.next_wait(wait_state, cause));
        tokio::pin!(timer);
        loop {
            // `biased`: a random order would make simulations not repeatable.
            tokio::select! {
                biased;
                () = &mut timer => {
                    if is_fenced && self.has_route_changed_after_refresh(route, tried).await {
                        return WaitOutcome::RouteChanged;
                    }
                    return WaitOutcome::Retry;
                }
                Ok(()) = notifications.changed() => {
                    if *notifications.borrow_and_update() != answered {
                        return WaitOutcome::Retry;
                    }
                    if self.has_route_changed(tried).await {
                        return WaitOutcome::RouteChanged;
                    }
                }
                scout = wait_state.gate.next_scout(), if wait_state.scout.is_none() => {
                    wait_state.scout = Some(scout);
                    timer.set(tokio::time::sleep(self.next_wait(wait_state, cause)));
                }
            }
        }
    }

    /// How long to wait before the next attempt.
    fn next_wait(&mut self, wait_state: &WaitState, cause: AttemptFailure) -> Duration {
        let role = match wait_state.scout {
            Some(_) => WaiterRole::Scout,
            None => WaiterRole::Other,
        };
        let after_ms = self.backoff(role, cause).unwrap_or(0);
        self.waited_ms += after_ms;
        Duration::from_millis(after_ms.unsigned_abs())
    }

    /// Reads the route from its source, and says whether it differs from the one
    /// that was tried. Concurrent callers share one read.
    async fn has_route_changed_after_refresh(
        &self,
        route: &Arc<TenantRoute>,
        tried: &TriedRoute,
    ) -> bool {
        let now = self.state.parts.clock.now();
        self.state.parts.routes.refresh(route, now).await;
        self.has_route_changed(tried).await
    }

    /// Whether the cached route differs from the one that was tried.
    async fn has_route_changed(&self, tried: &TriedRoute) -> bool {
        let Ok(route) = self.state.route(self.tenant).await else {
            return false;
        };
        let slice = self.route_key.slice(&route);
        let owner = slice.map(|slice| (&slice.shard_id, slice.epoch));
        owner != tried.as_ref().map(|(shard, epoch)| (shard, *epoch))
    }

    /// The backoff in milliseconds; `None` after the deadline.
    fn backoff(&self, role: WaiterRole, cause: AttemptFailure) -> Option<i64> {
        let most = self.state.parts.settings.hold_max.as_millis();
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        match hold::decide(role, cause, self.attempt, self.held_ms(), most) {
            HoldDecision::Retry { after_ms } => Some(after_ms),
            HoldDecision::GiveUp => None,
        }
    }

    /// How long ago the request arrived.
    fn held_ms(&self) -> i64 {
        let elapsed = self.state.parts.clock.now().unix_ms() - self.since_ms;
        elapsed.max(self.waited_ms)
    }

    fn give_up(&mut self, failure: &ShardError) -> Error {
        self.has_ended = true;
        let counters = &self.state.parts.held_counters;
        counters.gave_up.fetch_add(1, Ordering::Relaxed);
        let tenant = self.tenant;
        tracing::warn!(%tenant, attempts = self.attempt, error = %failure, "a held request reached its deadline");
        let detail = "the tenant's data cannot be reached right now";
        Error::new(ErrorCode::Unavailable, detail).retry_after(1)
    }

    /// Joins the requests that wait for the same slice. The first time this takes
    /// one of the slots for held requests.
    fn enter_gate(&mut self, slice: Option<u32>) -> Result<Box<WaitState>> {
        let tenant = self.tenant;
        let gates = &self.state.parts.gates;
        match self.wait_state.take() {
            Some(wait_state) if wait_state.slice == slice => Ok(wait_state),
            // A split or merge has replaced the slice.
            Some(mut wait_state) => {
                wait_state.scout = None;
                wait_state.gate = gates.enter(tenant, slice);
                wait_state.slice = slice;
                Ok(wait_state)
            }
            None => {
                let slot = self.state.parts.held_slots.acquire(tenant, self.bytes);
                let slot = slot.ok_or_else(|| {
                    let counters = &self.state.parts.held_counters;
                    counters.refused.fetch_add(1, Ordering::Relaxed);
                    let detail = "too many requests are waiting for the tenant's shard";
                    Error::new(ErrorCode::Busy, detail).retry_after(1)
                })?;
                Ok(Box::new(WaitState {
                    _slot: slot,
                    gate: gates.enter(tenant, slice),
                    slice,
                    scout: None,
                }))
            }
        }
    }
}

/// Why a wait ended.
enum WaitOutcome {
    /// The route has changed.
    RouteChanged,
    /// Another request at the gate was answered, or the backoff is over.
    Retry,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if !self.was_held {
            return;
        }
        self.stop_timer();
        let ms = self.held_for_ms.unsigned_abs();
        let counters = &self.state.parts.held_counters;
        if !self.has_ended {
            counters.gone.fetch_add(1, Ordering::Relaxed);
        }
        counters.ms.fetch_add(ms, Ordering::Relaxed);
    }
}
