//! Finds executions that are due, takes them up, and keeps their leases.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::OwnedSemaphorePermit;

use super::held::Held;
use super::holder::Holder;
use super::journal::Journal;
use super::shared::Shared;
use crate::language::Definition;
use crate::store::{Claim, Claimant, StoreResult};

/// Executions that are taken up at once.
const CLAIMED_AT_ONCE: usize = 64;

/// Takes up what is due, until the engine stops.
pub(super) async fn claim(shared: Arc<Shared>) {
    let mut changes = shared.store.changes();
    let mut stopping = shared.stopping.subscribe();
    let mut failures = 0;
    loop {
        changes.borrow_and_update();
        let slot = tokio::select! {
            slot = Arc::clone(&shared.slots).acquire_owned() => slot,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let Ok(slot) = slot else { return };
        let claiming = shared.gate.read().await;
        if shared.is_stopping() {
            return;
        }
        let taken_up = take_up_due(&shared, slot).await;
        drop(claiming);
        let next = match taken_up {
            Ok(Some(next)) => next,
            Ok(None) => {
                failures = 0;
                continue;
            }
            Err(error) => {
                shared.back_off(failures, &error).await;
                failures += 1;
                continue;
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = shared.clock.sleep_until(next) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}

/// Takes up what is due and there is room for. When to look again; at once if
/// there may be more.
async fn take_up_due(shared: &Arc<Shared>, slot: OwnedSemaphorePermit) -> StoreResult<Option<i64>> {
    let mut slots = vec![slot];
    while slots.len() < CLAIMED_AT_ONCE
        && let Ok(slot) = Arc::clone(&shared.slots).try_acquire_owned()
    {
        slots.push(slot);
    }
    // Nobody shall find our own leases run out, least of all we: however long
    // it takes until they are renewed, they are judged by the time before it.
    let now_ms = shared.clock.now_ms();
    renew(shared, now_ms).await?;
    let posts = shared.posts.load(Ordering::Acquire);
    let by = Claimant {
        worker: shared.settings.worker.clone(),
        now_ms,
        until_ms: shared.lease_until_ms(),
    };
    let claims = shared.store.claim(&by, slots.len()).await?;
    let may_be_more = claims.len() == slots.len();
    for (claim, slot) in claims.into_iter().zip(slots) {
        take_up(shared, claim, by.until_ms, slot, posts).await?;
    }
    if may_be_more {
        return Ok(None);
    }
    // Counted from when it was asked: the clock may have gone on since.
    let poll = by.now_ms.saturating_add(shared.settings.poll_ms);
    let wake = shared.store.next_wake().await?.unwrap_or(i64::MAX);
    Ok(Some(poll.min(wake.max(by.now_ms.saturating_add(1)))))
}

/// Takes up an execution that was claimed.
async fn take_up(
    shared: &Arc<Shared>,
    claim: Claim,
    until_ms: i64,
    slot: OwnedSemaphorePermit,
    posts: u64,
) -> StoreResult<()> {
    let found = shared.definition(&claim.row.definition).await?;
    let definition = found.unwrap_or_else(|| Err("its definition is not kept".to_owned()));
    let definition = definition.and_then(|definition| {
        let missing = shared.registry.missing(&definition);
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(format!("no handler is registered for {missing}"));
        }
        Ok(definition)
    });
    let workflow = claim.row.workflow.clone();
    let held = Arc::new(Held::new(claim.lease.clone(), workflow, until_ms));
    match definition {
        Err(cause) => cannot_go_on(&held, &cause),
        Ok(definition) => {
            // It is held from now on, though reading it may take a while.
            hold(shared, &held, posts);
            let reading = read(Arc::clone(shared), held, claim, definition, slot);
            shared.spawn(reading);
        }
    }
    Ok(())
}

/// Reads an execution that was claimed, and goes on with it.
async fn read(
    shared: Arc<Shared>,
    held: Arc<Held>,
    mut claim: Claim,
    definition: Arc<Definition>,
    slot: OwnedSemaphorePermit,
) {
    let messages = std::mem::take(&mut claim.messages);
    let of = Arc::clone(&definition);
    let journal = shared.evaluate(&of, move || Journal::load(&claim, definition));
    let journal = match journal.await.flatten() {
        Ok(journal) => journal,
        Err(cause) => {
            cannot_go_on(&held, &cause);
            return shared.let_go(&held);
        }
    };
    let unfit = shared.take_unfit(&held.lease.id);
    let effects = journal.execution.outstanding();
    let holder = Holder::new(shared, held, journal, slot);
    match unfit {
        Some(why) => holder.fail(why).await,
        None => holder.resume(effects, messages).await,
    }
}

/// The lease runs out by itself; then it is tried again.
fn cannot_go_on(held: &Held, cause: &str) {
    tracing::error!(
        execution = held.lease.id,
        workflow = held.workflow,
        cause,
        "an execution cannot go on here"
    );
}

/// Has an execution held from now on. `posts` were sent before it was leased.
pub(super) fn hold(shared: &Shared, held: &Arc<Held>, posts: u64) {
    shared.hold(held);
    if shared.posts.load(Ordering::Acquire) != posts {
        // One of them may have been for this execution, and found it nowhere.
        held.has_mail();
    }
}

/// Keeps the leases, and looks for messages that others have sent.
pub(super) async fn keep(shared: Arc<Shared>) {
    loop {
        let poll_ms = shared.settings.poll_ms.min(shared.settings.lease_ms / 3);
        let next = shared.clock.now_ms().saturating_add(poll_ms.max(1));
        shared.clock.sleep_until(next).await;
        if let Err(error) = look_after(&shared).await {
            tracing::warn!(
                error = &error as &(dyn std::error::Error + 'static),
                "the store failed, and is asked again"
            );
        }
    }
}

async fn look_after(shared: &Shared) -> StoreResult<()> {
    renew(shared, shared.clock.now_ms()).await?;
    let leases = shared.leases();
    if leases.is_empty() {
        return Ok(());
    }
    for mail in shared.store.messages(&leases).await? {
        if let Some(held) = shared.held(&mail.lease.id) {
            held.has_mail();
        }
    }
    Ok(())
}

/// Renews the leases if it is time.
async fn renew(shared: &Shared, now: i64) -> StoreResult<()> {
    if shared.renew_at_ms.load(Ordering::Acquire) > now {
        return Ok(());
    }
    let leases = shared.leases();
    let until_ms = shared.lease_until_ms();
    let renewed = shared.store.renew(&leases, until_ms).await?;
    let next = now.saturating_add(shared.settings.lease_ms / 3);
    shared.renew_at_ms.store(next, Ordering::Release);
    let renewed: HashSet<_> = renewed.iter().collect();
    for lease in &leases {
        let Some(held) = shared.held(&lease.id).filter(|held| held.lease == *lease) else {
            continue;
        };
        match renewed.contains(lease) {
            true => held.renewed(until_ms),
            false => held.lose(),
        }
    }
    Ok(())
}
