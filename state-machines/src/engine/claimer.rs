//! Claims due executions, resumes them, and renews their leases.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::OwnedSemaphorePermit;

use super::driver::ExecutionDriver;
use super::held_execution::HeldExecution;
use super::journal::Journal;
use super::shared::Shared;
use crate::language::Definition;
use crate::store::{Claimant, ClaimedExecution, ExecutionStoreResult};

/// How many executions one claim takes at most.
const CLAIMED_AT_ONCE: usize = 64;

/// Claims due executions until the engine stops.
pub(super) async fn run_claim_loop(shared: Arc<Shared>) {
    let mut changes = shared.store.changes();
    let mut stopping = shared.stopping.subscribe();
    let mut failures = 0;
    loop {
        changes.borrow_and_update();
        let permit = tokio::select! {
            permit = Arc::clone(&shared.execution_permits).acquire_owned() => permit,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        let Ok(permit) = permit else { return };
        let claiming = shared.gate.read().await;
        if shared.is_stopping() {
            return;
        }
        let taken_up = claim_due(&shared, permit).await;
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

/// Claims due executions, as many as there are permits for. Returns when to look
/// again; `None` means at once, because more may be due.
async fn claim_due(
    shared: &Arc<Shared>,
    permit: OwnedSemaphorePermit,
) -> ExecutionStoreResult<Option<i64>> {
    let mut permits = vec![permit];
    while permits.len() < CLAIMED_AT_ONCE
        && let Ok(permit) = Arc::clone(&shared.execution_permits).try_acquire_owned()
    {
        permits.push(permit);
    }
    // Renew first, and claim with the time from before the renewal: otherwise a
    // slow renewal could make our own leases look expired, and we would claim them
    // from ourselves.
    let now_ms = shared.clock.now_ms();
    renew_leases_if_due(shared, now_ms).await?;
    let posts = shared.posts.load(Ordering::Acquire);
    let by = Claimant {
        worker: shared.settings.worker.clone(),
        now_ms,
        until_ms: shared.lease_until_ms(),
    };
    let claims = shared.store.claim(&by, permits.len()).await?;
    let may_be_more = claims.len() == permits.len();
    for (claim, permit) in claims.into_iter().zip(permits) {
        accept_claim(shared, claim, by.until_ms, permit, posts).await?;
    }
    if may_be_more {
        return Ok(None);
    }
    // Based on the time of the claim: the clock may have moved since.
    let poll = by.now_ms.saturating_add(shared.settings.poll_ms);
    let wake = shared.store.next_due().await?.unwrap_or(i64::MAX);
    Ok(Some(poll.min(wake.max(by.now_ms.saturating_add(1)))))
}

/// Checks that a claimed execution can run here, and resumes it.
async fn accept_claim(
    shared: &Arc<Shared>,
    claim: ClaimedExecution,
    until_ms: i64,
    permit: OwnedSemaphorePermit,
    posts: u64,
) -> ExecutionStoreResult<()> {
    let found = shared.load_definition(&claim.row.definition).await?;
    let definition = found.unwrap_or_else(|| Err("its definition is not in the store".to_owned()));
    let definition = definition.and_then(|definition| {
        let missing = shared.registry.missing(&definition);
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(format!("no handler is registered for {missing}"));
        }
        Ok(definition)
    });
    let workflow = claim.row.workflow.clone();
    let held = Arc::new(HeldExecution::new(claim.lease.clone(), workflow, until_ms));
    match definition {
        Err(cause) => log_not_runnable(&held, &cause),
        Ok(definition) => {
            // Register it before reading, which may take a while, so that its lease
            // is renewed meanwhile.
            register_held(shared, &held, posts);
            let reading = load_and_resume(Arc::clone(shared), held, claim, definition, permit);
            shared.spawn(reading);
        }
    }
    Ok(())
}

/// Loads a claimed execution from its journal and resumes it.
async fn load_and_resume(
    shared: Arc<Shared>,
    held: Arc<HeldExecution>,
    mut claim: ClaimedExecution,
    definition: Arc<Definition>,
    permit: OwnedSemaphorePermit,
) {
    let messages = std::mem::take(&mut claim.messages);
    let shared_definition = Arc::clone(&definition);
    let journal = shared.evaluate(&shared_definition, move || {
        Journal::load(&claim, definition)
    });
    let journal = match journal.await.flatten() {
        Ok(journal) => journal,
        Err(cause) => {
            log_not_runnable(&held, &cause);
            return shared.remove_held(&held);
        }
    };
    let rejected = shared.take_rejected_step(&held.lease.id);
    let effects = journal.execution.outstanding();
    let driver = ExecutionDriver::new(shared, held, journal, permit);
    match rejected {
        Some(why) => driver.fail(why).await,
        None => driver.resume(effects, messages).await,
    }
}

/// Logs why an execution cannot run here. Its lease expires, and then a worker
/// claims it again.
fn log_not_runnable(held: &HeldExecution, cause: &str) {
    tracing::error!(
        execution = held.lease.id,
        workflow = held.workflow,
        cause,
        "cannot run a claimed execution here"
    );
}

/// Registers an execution as held by this process. `posts` is the value of the post
/// counter from before the lease was taken.
pub(super) fn register_held(shared: &Shared, held: &Arc<HeldExecution>, posts: u64) {
    shared.add_held(held);
    if shared.posts.load(Ordering::Acquire) != posts {
        // A message may have been posted for this execution before it was
        // registered.
        held.notify_message();
    }
}

/// Renews leases, and checks for messages that other processes posted.
pub(super) async fn run_lease_loop(shared: Arc<Shared>) {
    loop {
        let poll_ms = shared.settings.poll_ms.min(shared.settings.lease_ms / 3);
        let next = shared.clock.now_ms().saturating_add(poll_ms.max(1));
        shared.clock.sleep_until(next).await;
        if let Err(error) = renew_and_check_messages(&shared).await {
            tracing::warn!(
                error = &error as &(dyn std::error::Error + 'static),
                "renewing leases failed; retrying"
            );
        }
    }
}

async fn renew_and_check_messages(shared: &Shared) -> ExecutionStoreResult<()> {
    renew_leases_if_due(shared, shared.clock.now_ms()).await?;
    let leases = shared.leases();
    if leases.is_empty() {
        return Ok(());
    }
    for unread in shared.store.unread_messages(&leases).await? {
        if let Some(held) = shared.find_held(&unread.lease.id) {
            held.notify_message();
        }
    }
    Ok(())
}

/// Renews all leases when a third of the lease time has passed.
async fn renew_leases_if_due(shared: &Shared, now: i64) -> ExecutionStoreResult<()> {
    if shared.renew_at_ms.load(Ordering::Acquire) > now {
        return Ok(());
    }
    let leases = shared.leases();
    let until_ms = shared.lease_until_ms();
    let renewed = shared.store.renew_leases(&leases, until_ms).await?;
    let next = now.saturating_add(shared.settings.lease_ms / 3);
    shared.renew_at_ms.store(next, Ordering::Release);
    let renewed: HashSet<_> = renewed.iter().collect();
    for lease in &leases {
        let Some(held) = shared
            .find_held(&lease.id)
            .filter(|held| held.lease == *lease)
        else {
            continue;
        };
        match renewed.contains(lease) {
            true => held.extend_lease(until_ms),
            false => held.mark_lost(),
        }
    }
    Ok(())
}
