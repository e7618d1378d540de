//! A request that waits because its shard cannot take it now.
//!
//! ```text
//!   refused ──► is the route another one? ──► tried again at once
//!                        │ no
//!                        ▼
//!              at the gate (gate.rs) ── told, or its time has come ──► tried again
//! ```
//! How long to wait is decided by [`ballast_domain::hold`]. How many may wait,
//! and how many bytes they may keep, is bounded, in all and per tenant. Whoever
//! waits is a future of the request: when its client goes, it is dropped, and
//! never tried again.

mod ahead;
mod gate;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ballast_domain::hold::{self, Next, Role, Setback};
use ballast_domain::routes::TenantRoute;
use ballast_domain::tenant::Epoch;
use ballast_domain::{Error, ErrorCode, Result, ShardId};
use ballast_vote_shard::ShardError;
use tokio::sync::OwnedSemaphorePermit;

pub(crate) use ahead::Ahead;
pub(crate) use gate::Gates;

use self::gate::{AtGate, Scout};
use crate::State;
use crate::admit::Access;
use crate::deliver::Target;
use crate::slots::Slot;

/// What became of requests that had to wait, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldCounts {
    /// How long they waited, all together.
    pub ms: u64,
    /// Those that their shard answered in the end.
    pub answered: u64,
    /// Those that waited in vain until their time was over.
    pub gave_up: u64,
    /// Those whose clients have gone.
    pub gone: u64,
    /// Those that found no room to wait.
    pub refused: u64,
}

/// The same, as it is counted.
#[derive(Debug, Default)]
pub(crate) struct HeldCounters {
    ms: AtomicU64,
    answered: AtomicU64,
    gave_up: AtomicU64,
    gone: AtomicU64,
    refused: AtomicU64,
}

impl State {
    /// What became of requests that had to wait. Their time is none of their
    /// tenant's: it is the move's.
    pub fn held(&self) -> HeldCounts {
        let HeldCounters {
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

/// Where an attempt went: another attempt makes sense where that differs.
type Tried = Option<(ShardId, Epoch)>;

/// A request that waits, or will.
pub(crate) struct Held<'a> {
    state: &'a State,
    access: &'a Access,
    target: &'a Target,
    bytes: usize,
    since_ms: i64,
    waited_ms: i64,
    /// Since when it waits, while it does, and how long it did before.
    waits_since_ms: Option<i64>,
    held_for_ms: i64,
    attempt: u32,
    /// Whether it ever had to wait.
    was_held: bool,
    /// Whether there is an answer to it. If not, its client has gone.
    has_ended: bool,
    waiting: Option<Box<Waiting>>,
}

struct Waiting {
    _slot: Slot,
    gate: AtGate,
    slice: Option<u32>,
    scout: Option<Scout>,
}

impl<'a> Held<'a> {
    /// A request that keeps so many bytes while it waits.
    pub(crate) fn new(
        state: &'a State,
        access: &'a Access,
        target: &'a Target,
        bytes: usize,
    ) -> Self {
        Self {
            state,
            access,
            target,
            bytes,
            since_ms: state.parts.clock.now().unix_ms(),
            waited_ms: 0,
            waits_since_ms: None,
            held_for_ms: 0,
            attempt: 0,
            was_held: false,
            has_ended: false,
            waiting: None,
        }
    }

    /// Whoever has waited goes on only with a permit. Waiting for it is part of
    /// the wait.
    pub(crate) async fn permit(&mut self) -> Option<OwnedSemaphorePermit> {
        let permit = self.waiting.as_ref()?.gate.permit().await;
        self.stop_watch();
        permit
    }

    /// Notes how long it has waited, up to now.
    fn stop_watch(&mut self) {
        if let Some(since_ms) = self.waits_since_ms.take() {
            let now_ms = self.state.parts.clock.now().unix_ms();
            self.held_for_ms += now_ms.saturating_sub(since_ms).max(0);
        }
    }

    /// The shard has answered, whatever it was: who waits like this one goes
    /// on.
    pub(crate) fn answered(&mut self) {
        self.has_ended = true;
        if let Some(waiting) = &self.waiting {
            waiting.gate.open();
            let counters = &self.state.parts.held_counters;
            counters.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It ends without an answer of its shard.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Waits before the next attempt; fails when there is to be none.
    pub(crate) async fn wait(
        &mut self,
        route: &Arc<TenantRoute>,
        trouble: ShardError,
    ) -> Result<()> {
        let setback = match &trouble {
            ShardError::Fenced(_) => Setback::Fenced,
            ShardError::Unavailable { .. } => Setback::Away,
            // Waiting makes nothing whole.
            ShardError::Damaged { .. }
            | ShardError::Refused(_)
            | ShardError::Unfit(_)
            | ShardError::CursorTooOld => {
                self.answered();
                return Err(trouble.into());
            }
        };
        self.attempt = self.attempt.saturating_add(1);
        if self.next(Role::Other, setback).is_none() {
            self.state.look_into(route, self.target, &trouble).await;
            return Err(self.given_up(&trouble));
        }
        let slice = self.target.slice(route);
        let tried = slice.map(|slice| (slice.shard_id.clone(), slice.epoch));
        let mut waiting = self.come_to_gate(slice.map(|slice| slice.slice))?;
        self.was_held = true;
        self.waits_since_ms = Some(self.state.parts.clock.now().unix_ms());
        let waited = self.wait_at(&mut waiting, route, &tried, setback).await;
        self.waiting = Some(waiting);
        if let Waited::Elsewhere = waited {
            self.attempt = 0;
        }
        Ok(())
    }

    async fn wait_at(
        &mut self,
        waiting: &mut Waiting,
        route: &Arc<TenantRoute>,
        tried: &Tried,
        setback: Setback,
    ) -> Waited {
        // From here on nothing is missed.
        let mut news = waiting.gate.news();
        let answered = *news.borrow();
        let is_fenced = setback == Setback::Fenced;
        if waiting.scout.is_none() {
            waiting.scout = waiting.gate.try_scout();
        }
        // The scout reads the route for all; the others look at what it found
        // before they came.
        let is_elsewhere = match waiting.scout {
            Some(_) if is_fenced && self.attempt == 1 => self.is_elsewhere_now(route, tried).await,
            Some(_) => false,
            None => self.is_elsewhere(tried).await,
        };
        if is_elsewhere {
            return Waited::Elsewhere;
        }
        let timer = tokio::time::sleep(self.patience(waiting, setback));
        tokio::pin!(timer);
        loop {
            // In this order: by chance, a simulated world would have two ends.
            tokio::select! {
                biased;
                () = &mut timer => {
                    if is_fenced && self.is_elsewhere_now(route, tried).await {
                        return Waited::Elsewhere;
                    }
                    return Waited::Enough;
                }
                Ok(()) = news.changed() => {
                    if *news.borrow_and_update() != answered {
                        return Waited::Enough;
                    }
                    if self.is_elsewhere(tried).await {
                        return Waited::Elsewhere;
                    }
                }
                scout = waiting.gate.scout(), if waiting.scout.is_none() => {
                    waiting.scout = Some(scout);
                    timer.set(tokio::time::sleep(self.patience(waiting, setback)));
                }
            }
        }
    }

    /// How long to wait at the most. It counts as waited: the clock may be set
    /// back.
    fn patience(&mut self, waiting: &Waiting, setback: Setback) -> Duration {
        let role = match waiting.scout {
            Some(_) => Role::Scout,
            None => Role::Other,
        };
        let after_ms = self.next(role, setback).unwrap_or(0);
        self.waited_ms += after_ms;
        Duration::from_millis(after_ms.unsigned_abs())
    }

    /// Whether the route leads elsewhere when it is read anew. Many who ask at
    /// once share one reading.
    async fn is_elsewhere_now(&self, route: &Arc<TenantRoute>, tried: &Tried) -> bool {
        let now = self.state.parts.clock.now();
        self.state.parts.routes.refresh(route, now).await;
        self.is_elsewhere(tried).await
    }

    async fn is_elsewhere(&self, tried: &Tried) -> bool {
        let Ok(route) = self.state.route(self.access).await else {
            return false;
        };
        let slice = self.target.slice(&route);
        let place = slice.map(|slice| (&slice.shard_id, slice.epoch));
        place != tried.as_ref().map(|(shard, epoch)| (shard, *epoch))
    }

    /// How long to wait by the rules, or nothing when the time is over.
    fn next(&self, role: Role, setback: Setback) -> Option<i64> {
        let most = self.state.parts.settings.hold_max.as_millis();
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        match hold::after(role, setback, self.attempt, self.held_ms(), most) {
            Next::Retry { after_ms } => Some(after_ms),
            Next::GiveUp => None,
        }
    }

    fn held_ms(&self) -> i64 {
        let elapsed = self.state.parts.clock.now().unix_ms() - self.since_ms;
        elapsed.max(self.waited_ms)
    }

    fn given_up(&mut self, trouble: &ShardError) -> Error {
        self.has_ended = true;
        let counters = &self.state.parts.held_counters;
        counters.gave_up.fetch_add(1, Ordering::Relaxed);
        let tenant = &self.access.tenant.tenant_id;
        tracing::warn!(%tenant, attempts = self.attempt, %trouble, "a held request gave up");
        let detail = "the tenant's data cannot be reached right now";
        Error::new(ErrorCode::Unavailable, detail).retry_after(1)
    }

    /// The place at the gate where those wait who wait for the same slice.
    fn come_to_gate(&mut self, slice: Option<u32>) -> Result<Box<Waiting>> {
        let tenant = &self.access.tenant.tenant_id;
        let gates = &self.state.parts.gates;
        match self.waiting.take() {
            Some(waiting) if waiting.slice == slice => Ok(waiting),
            // A split, or a merge, took place meanwhile.
            Some(mut waiting) => {
                waiting.scout = None;
                waiting.gate = gates.enter(tenant, slice);
                waiting.slice = slice;
                Ok(waiting)
            }
            None => {
                let slot = self.state.parts.held.take(tenant, self.bytes);
                let slot = slot.ok_or_else(|| {
                    let counters = &self.state.parts.held_counters;
                    counters.refused.fetch_add(1, Ordering::Relaxed);
                    let detail = "too many requests wait for the tenant's shard already";
                    Error::new(ErrorCode::Busy, detail).retry_after(1)
                })?;
                Ok(Box::new(Waiting {
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
enum Waited {
    /// The route leads elsewhere.
    Elsewhere,
    /// Somebody else was answered, or it was long enough.
    Enough,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.was_held {
            return;
        }
        self.stop_watch();
        let ms = self.held_for_ms.unsigned_abs();
        let counters = &self.state.parts.held_counters;
        if !self.has_ended {
            counters.gone.fetch_add(1, Ordering::Relaxed);
        }
        counters.ms.fetch_add(ms, Ordering::Relaxed);
        self.access.was_held(Duration::from_millis(ms));
    }
}
