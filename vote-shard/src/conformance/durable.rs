//! P5 and P6, for engines whose writes can be held on their way to the disk:
//! reads show only durable data, and a seal is a barrier.

use std::fmt::Debug;
use std::pin::Pin;
use std::task::Poll::Pending;

use ballast_domain::poll::{BallotOutcome, Poll};
use ballast_domain::slicing::ChildSlice;
use ballast_domain::tenant::{Epoch, SliceId};

use super::builders::*;
use super::snapshot::snapshot;
use super::{SharedShard, SyncGate, crash};
use crate::shard::{Cursor, Fence, FencedSlice, Holding, RecutSpec, ShardResult};

/// A future answer, as debug text.
type GatedAnswer<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;

fn pending_answer<'a, T: Debug>(
    asked: impl Future<Output = ShardResult<T>> + Send + 'a,
) -> GatedAnswer<'a> {
    Box::pin(async move {
        match asked.await {
            Ok(answer) => format!("{answer:?}"),
            Err(error) => format!("{error:?}"),
        }
    })
}

/// Holds the gate; releases it on drop, also on a panic.
struct HeldGate<'a, F: SyncGate>(&'a F);

fn hold<F: SyncGate>(fixture: &F) -> HeldGate<'_, F> {
    fixture.hold();
    HeldGate(fixture)
}

impl<F: SyncGate> HeldGate<'_, F> {
    fn release(self) {}

    fn fail(self) {
        self.0.fail();
    }
}

impl<F: SyncGate> Drop for HeldGate<'_, F> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// An answer's debug text.
fn debug_text<T: Debug>(answer: T) -> String {
    format!("{answer:?}")
}

/// Polls the answers many times, and asserts that none arrives.
async fn assert_wait(answers: &mut [(&str, GatedAnswer<'_>)]) {
    for _ in 0..20 {
        for (what, answer) in &mut *answers {
            std::future::poll_fn(|context| match answer.as_mut().poll(context) {
                Pending => std::task::Poll::Ready(()),
                std::task::Poll::Ready(answer) => panic!("{what} was answered with {answer}"),
            })
            .await;
        }
        tokio::task::yield_now().await;
    }
}

/// Waits for the answers.
async fn collect(answers: Vec<(&str, GatedAnswer<'_>)>) -> Vec<String> {
    let mut collected = Vec::new();
    for (_, answer) in answers {
        collected.push(answer.await);
    }
    collected
}

/// P5: no answer that depends on a vote is given before the vote is durable:
/// not its own, not `already`, not a refusal, a count, a row or a digest.
pub async fn no_answer_precedes_the_vote_it_depends_on<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let (id, one, slice) = (poll(1).poll_id, at_epoch(1), slice());
    let (mark, _) = shard.tallies_since(0).await.unwrap();
    let ask = |item, request| [ballot(&poll(1), "v", item, request)];
    let (first, same, other) = (ask(0, 1), ask(0, 2), ask(1, 3));
    let name = voter("v");
    let gate = hold(&fixture);
    let mut vote = vec![("the vote", pending_answer(shard.cast(&one, &first)))];
    assert_wait(&mut vote).await;
    gate.0.wait_until_held().await;
    let mut answers = vec![
        ("the same vote", pending_answer(shard.cast(&one, &same))),
        ("the same request", pending_answer(shard.cast(&one, &first))),
        ("another vote", pending_answer(shard.cast(&one, &other))),
        ("the row", pending_answer(shard.voter(&slice, id, &name))),
        ("the tally", pending_answer(shard.tally(&slice, id))),
        ("the lanes", pending_answer(shard.lanes(&slice, id))),
        ("the digests", pending_answer(shard.digests(&slice))),
        ("who follows", pending_answer(shard.tallies_since(mark))),
        ("the digest", pending_answer(shard.digest(&slice))),
    ];
    assert_wait(&mut answers).await;
    assert_wait(&mut vote).await;
    gate.release();
    assert_eq!(collect(vote).await, [debug_text([counted(1)])]);
    let answer = collect(answers).await;
    assert_eq!(answer[0], debug_text([already(1)]));
    assert_eq!(answer[1], debug_text([counted(1)]));
    assert_eq!(
        answer[2],
        debug_text([refused_as_already_voted(&poll(1), &[0])])
    );
    let tally = shard.tally(&slice, id).await.unwrap();
    assert_eq!((tally.counts.clone(), tally.voters), (vec![1, 0, 0], 1));
    assert_eq!(answer[4], debug_text(tally));
    assert_eq!(answer[6], debug_text(shard.digests(&slice).await.unwrap()));
    assert_eq!(answer[8], debug_text(shard.digest(&slice).await.unwrap()));
}

/// P5: the same for votes that wait behind one that is syncing.
pub async fn no_answer_precedes_a_vote_that_waits_its_turn<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1), poll(2)]).await;
    let (id, one, slice) = (poll(2).poll_id, at_epoch(1), slice());
    let ahead = [ballot(&poll(1), "v", 0, 1)];
    let behind = [ballot(&poll(2), "v", 0, 1)];
    let same = [ballot(&poll(2), "v", 0, 2)];
    let gate = hold(&fixture);
    let mut answers = vec![("the first", pending_answer(shard.cast(&one, &ahead)))];
    assert_wait(&mut answers).await;
    gate.0.wait_until_held().await;
    answers.push(("the second", pending_answer(shard.cast(&one, &behind))));
    answers.push(("the second again", pending_answer(shard.cast(&one, &same))));
    answers.push(("its tally", pending_answer(shard.tally(&slice, id))));
    answers.push(("the digests", pending_answer(shard.digests(&slice))));
    answers.push(("the digest", pending_answer(shard.digest(&slice))));
    assert_wait(&mut answers).await;
    gate.release();
    let answer = collect(answers).await;
    assert_eq!(
        answer[..2],
        [debug_text([counted(1)]), debug_text([counted(1)])]
    );
    assert_eq!(answer[2], debug_text([already(1)]));
}

/// P5: no answer precedes the creation, closing or lanes of a poll that it
/// depends on.
pub async fn no_answer_precedes_the_poll_it_depends_on<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1), poll(2), poll(5)]).await;
    let (one, slice) = (at_epoch(1), slice());
    let (made, closed, widened) = (poll(3).poll_id, poll(1).poll_id, poll(2).poll_id);
    let narrowed = poll(5).poll_id;
    let renamed = Poll {
        request: poll(3).request,
        ..poll(4)
    };
    let late = [ballot(&poll(1), "v", 0, 1)];
    let gate = hold(&fixture);
    let mut changes = vec![
        ("creating", pending_answer(shard.create_poll(&one, poll(3)))),
        ("closing", pending_answer(shard.close_poll(&one, closed))),
        (
            "widening",
            pending_answer(shard.widen_lanes(&one, widened, 20)),
        ),
        (
            "narrowing",
            pending_answer(shard.narrow_lanes(&one, narrowed, 3)),
        ),
    ];
    assert_wait(&mut changes).await;
    gate.0.wait_until_held().await;
    let mut answers = vec![
        (
            "creating again",
            pending_answer(shard.create_poll(&one, poll(3))),
        ),
        (
            "the same request",
            pending_answer(shard.create_poll(&one, renamed)),
        ),
        ("the poll", pending_answer(shard.poll(&slice, made))),
        ("the polls", pending_answer(shard.polls(&slice, None, 9))),
        ("its tally", pending_answer(shard.tally(&slice, made))),
        (
            "the closed poll",
            pending_answer(shard.poll(&slice, closed)),
        ),
        ("its tally", pending_answer(shard.tally(&slice, closed))),
        (
            "closing again",
            pending_answer(shard.close_poll(&one, closed)),
        ),
        ("a late vote", pending_answer(shard.cast(&one, &late))),
        ("lanes", pending_answer(shard.lanes(&slice, widened))),
        (
            "widening again",
            pending_answer(shard.widen_lanes(&one, widened, 5)),
        ),
        ("fewer lanes", pending_answer(shard.lanes(&slice, narrowed))),
        (
            "narrowing again",
            pending_answer(shard.narrow_lanes(&one, narrowed, 5)),
        ),
        ("the digests", pending_answer(shard.digests(&slice))),
        ("the digest", pending_answer(shard.digest(&slice))),
    ];
    assert_wait(&mut answers).await;
    gate.release();
    collect(changes).await;
    let answer = collect(answers).await;
    assert_eq!(
        answer[..3],
        [
            debug_text(poll(3)),
            debug_text(poll(3)),
            debug_text(poll(3))
        ]
    );
    assert!(answer[8].contains("Closed"), "{}", answer[8]);
}

/// P5: no answer precedes the fence that it depends on, neither a refusal nor
/// an admitted write.
pub async fn no_answer_precedes_the_fence_it_depends_on<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let (here, m) = (slice(), token("m", 1));
    let vote = [ballot(&poll(1), "v", 0, 1)];
    let again = [ballot(&poll(1), "v", 0, 2)];
    shard.cast(&at_epoch(1), &vote).await.unwrap();
    let (fresh, sealing, two) = (fenced_slice("fresh", 1), at_epoch(2), at_epoch(2));
    let gate = hold(&fixture);
    let mut changes = vec![
        ("founding", pending_answer(shard.adopt(&fresh))),
        ("sealing", pending_answer(shard.seal(&sealing, &m))),
    ];
    assert_wait(&mut changes).await;
    gate.0.wait_until_held().await;
    let one = at_epoch(1);
    let mut answers = vec![
        ("the sealed fence", pending_answer(shard.fence(&here))),
        ("a vote", pending_answer(shard.cast(&one, &again))),
        ("an empty batch", pending_answer(shard.cast(&two, &[]))),
        ("sealing again", pending_answer(shard.seal(&two, &m))),
        ("the new fence", pending_answer(shard.fence(&fresh.slice))),
        ("the new key", pending_answer(shard.slice_key(&fresh.slice))),
        ("founding again", pending_answer(shard.adopt(&fresh))),
        ("a vote to it", pending_answer(shard.cast(&fresh, &vote))),
        (
            "an empty batch to it",
            pending_answer(shard.cast(&fresh, &[])),
        ),
    ];
    assert_wait(&mut answers).await;
    gate.release();
    collect(changes).await;
    let after = collect(answers).await;
    assert!(after[1].contains("Sealed"), "{}", after[1]);
    let gate = hold(&fixture);
    let three = at_epoch(3);
    let mut changes = vec![("unsealing", pending_answer(shard.unseal(&three, &m)))];
    assert_wait(&mut changes).await;
    gate.0.wait_until_held().await;
    let mut answers = vec![
        ("the fence", pending_answer(shard.fence(&here))),
        (
            "a vote at the old epoch",
            pending_answer(shard.cast(&two, &again)),
        ),
        (
            "the same vote at the new",
            pending_answer(shard.cast(&three, &again)),
        ),
        ("an empty batch", pending_answer(shard.cast(&three, &[]))),
        (
            "a poll known before",
            pending_answer(shard.create_poll(&three, poll(1))),
        ),
        (
            "lanes it has",
            pending_answer(shard.widen_lanes(&three, poll(1).poll_id, 1)),
        ),
    ];
    assert_wait(&mut answers).await;
    gate.release();
    assert_eq!(collect(changes).await, ["()"]);
    assert_eq!(collect(answers).await[2], debug_text([already(1)]));
}

/// Slice 0, sealed at epoch 2, becomes slice 1.
fn renamed() -> RecutSpec {
    RecutSpec {
        tenant_id: slice().tenant_id,
        epoch: Epoch(2),
        parents: vec![0],
        children: vec![ChildSlice {
            slice: 1,
            hash_from: 0,
            hash_to: u64::MAX,
        }],
    }
}

fn child() -> FencedSlice {
    FencedSlice {
        slice: SliceId {
            slice: 1,
            ..slice()
        },
        epoch: Epoch(2),
    }
}

/// P5, P13: a recut is invisible before it is durable.
pub async fn no_answer_precedes_the_recut_it_depends_on<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let (here, c, cut, child) = (slice(), token("c", 1), renamed(), child());
    shard.seal(&at_epoch(2), &c).await.unwrap();
    let gate = hold(&fixture);
    let mut changes = vec![("cutting", pending_answer(shard.recut(&c, &cut)))];
    assert_wait(&mut changes).await;
    gate.0.wait_until_held().await;
    let (id, vote) = (poll(1).poll_id, [ballot(&poll(1), "v", 0, 1)]);
    let two = at_epoch(2);
    let mut answers = vec![
        ("the parent's fence", pending_answer(shard.fence(&here))),
        (
            "the child's fence",
            pending_answer(shard.fence(&child.slice)),
        ),
        (
            "the child's poll",
            pending_answer(shard.poll(&child.slice, id)),
        ),
        ("its count", pending_answer(shard.tally(&child.slice, id))),
        (
            "a vote to the parent",
            pending_answer(shard.cast(&two, &vote)),
        ),
        (
            "a vote to the child",
            pending_answer(shard.cast(&child, &vote)),
        ),
        ("cutting again", pending_answer(shard.recut(&c, &cut))),
    ];
    assert_wait(&mut answers).await;
    gate.release();
    assert_eq!(collect(changes).await, ["()"]);
    let after = collect(answers).await;
    assert!(after[4].contains("NotOwner"), "{}", after[4]);
    assert_eq!(after[5], debug_text([counted(1)]));
}

/// P5, P13: a recut happens completely or not at all.
pub async fn a_failed_recut_leaves_its_parent_sealed<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let (here, c, cut, child) = (slice(), token("c", 1), renamed(), child());
    cast(&shard, ballot(&poll(1), "v", 0, 1)).await;
    shard.seal(&at_epoch(2), &c).await.unwrap();
    let before = snapshot(&shard, &here, &["v"]).await;
    let gate = hold(&fixture);
    let mut changes = vec![("cutting", pending_answer(shard.recut(&c, &cut)))];
    assert_wait(&mut changes).await;
    gate.0.wait_until_held().await;
    gate.fail();
    let failed = collect(changes).await;
    assert!(failed[0].contains("Unavailable"), "{}", failed[0]);
    let fence = retry_until_available(|| shard.fence(&child.slice)).await;
    // Whatever reached the disk before the failure: all or nothing.
    match fence.unwrap() {
        None => assert_eq!(snapshot(&shard, &here, &["v"]).await, before),
        Some(fence) => assert_eq!(fence.holding, Holding::Owner),
    }
    shard.recut(&c, &cut).await.unwrap();
    let shard = crash(&fixture, shard).await;
    let tally = shard.tally(&child.slice, poll(1).poll_id).await.unwrap();
    assert_eq!(tally.voters, 1);
}

/// P5: removed data stays visible until the removal is durable.
pub async fn no_answer_precedes_the_removal_it_depends_on<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let (here, m, id) = (slice(), token("m", 1), poll(1).poll_id);
    let two = at_epoch(2);
    shard.seal(&two, &m).await.unwrap();
    shard.retire(&two, &m).await.unwrap();
    let gate = hold(&fixture);
    let mut changes = vec![("purging", pending_answer(shard.purge(&two, &m, 9)))];
    assert_wait(&mut changes).await;
    gate.0.wait_until_held().await;
    let mut answers = vec![
        ("the poll", pending_answer(shard.poll(&here, id))),
        ("the polls", pending_answer(shard.polls(&here, None, 9))),
        ("the tally", pending_answer(shard.tally(&here, id))),
        ("the fence", pending_answer(shard.fence(&here))),
        ("the digests", pending_answer(shard.digests(&here))),
        ("purging again", pending_answer(shard.purge(&two, &m, 9))),
        ("the digest", pending_answer(shard.digest(&here))),
    ];
    assert_wait(&mut answers).await;
    gate.release();
    assert_eq!(collect(changes).await, ["0"]);
    let answer = collect(answers).await;
    assert!(answer[0].contains("PollNotFound"), "{}", answer[0]);
    assert_eq!((answer[1].as_str(), answer[5].as_str()), ("[]", "0"));
}

/// P5: exported data is durable: a copy never has data that its source may
/// lose.
pub async fn an_export_contains_only_durable_data<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    cast(&shard, ballot(&poll(1), "w", 0, 1)).await;
    let (one, here) = (at_epoch(1), slice());
    let mut cursor = Cursor::Start;
    loop {
        let page = shard.export(&here, &cursor, 1 << 20).await.unwrap();
        cursor = page.next;
        if page.caught_up {
            break;
        }
    }
    let vote = [ballot(&poll(1), "v", 0, 1)];
    let gate = hold(&fixture);
    let mut votes = vec![("the vote", pending_answer(shard.cast(&one, &vote)))];
    assert_wait(&mut votes).await;
    gate.0.wait_until_held().await;
    // The export may wait, or return nothing.
    let mut early = shard.export(&here, &cursor, 1 << 20);
    let mut page = None;
    for _ in 0..20 {
        if page.is_none() {
            page = std::future::poll_fn(|context| match early.as_mut().poll(context) {
                Pending => std::task::Poll::Ready(None),
                std::task::Poll::Ready(page) => std::task::Poll::Ready(Some(page.unwrap())),
            })
            .await;
        }
        tokio::task::yield_now().await;
    }
    assert!(page.iter().all(|page| page.changes.is_empty()), "{page:?}");
    gate.release();
    collect(votes).await;
    let mut page = match page {
        Some(page) => page,
        None => early.await.unwrap(),
    };
    // It may have read before the vote was durable. A new call has not.
    if page.changes.is_empty() {
        page = shard.export(&here, &page.next, 1 << 20).await.unwrap();
    }
    assert_eq!((page.changes.len(), page.caught_up), (1, true));
}

/// After a vote with an unknown outcome: the row exists or not, all reads
/// agree, and a retry counts once.
async fn assert_counted_once_or_not_at_all<F: SyncGate>(fixture: F, shard: SharedShard) {
    let id = poll(1).poll_id;
    let row = retry_until_available(|| async { shard.voter(&slice(), id, &voter("v")).await });
    let row = row.await.unwrap();
    let votes = u64::from(row.is_some());
    let tally = shard.tally(&slice(), id).await.unwrap();
    assert_eq!(
        (tally.counts, tally.voters),
        (vec![1 + votes, 0, 0], 1 + votes)
    );
    let digests = shard.digests(&slice()).await.unwrap();
    assert_eq!(digests[0].1.rows, 2 + votes);
    assert_eq!(shard.usage().await.trouble, None);
    // Visible data is durable: it survives the next crash.
    let shard = crash(&fixture, shard).await;
    let again = shard.voter(&slice(), id, &voter("v")).await.unwrap();
    assert_eq!(again, row);
    assert_eq!(cast(&shard, ballot(&poll(1), "v", 0, 1)).await, counted(1));
    assert_eq!(cast(&shard, ballot(&poll(1), "v", 0, 2)).await, already(1));
    assert_eq!(cast(&shard, ballot(&poll(1), "w", 0, 9)).await, already(1));
    let tally = shard.tally(&slice(), id).await.unwrap();
    assert_eq!((tally.counts, tally.voters), (vec![2, 0, 0], 2));
}

/// P5: when a write fails, all dependent answers fail as unknown; afterwards
/// the shard works again, with the vote or without it.
pub async fn a_failed_write_fails_all_dependent_answers<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let (id, one, here) = (poll(1).poll_id, at_epoch(1), slice());
    cast(&shard, ballot(&poll(1), "w", 0, 1)).await;
    let (first, same) = ([ballot(&poll(1), "v", 0, 1)], [ballot(&poll(1), "v", 0, 2)]);
    let (other, behind) = ([ballot(&poll(1), "v", 1, 3)], [ballot(&poll(1), "v", 0, 4)]);
    let gate = hold(&fixture);
    let mut answers = vec![("the vote", pending_answer(shard.cast(&one, &first)))];
    assert_wait(&mut answers).await;
    gate.0.wait_until_held().await;
    answers.push(("the same vote", pending_answer(shard.cast(&one, &same))));
    answers.push(("another vote", pending_answer(shard.cast(&one, &other))));
    answers.push((
        "a vote behind it",
        pending_answer(shard.cast(&one, &behind)),
    ));
    answers.push(("the tally", pending_answer(shard.tally(&here, id))));
    answers.push(("the digests", pending_answer(shard.digests(&here))));
    answers.push(("the digest", pending_answer(shard.digest(&here))));
    assert_wait(&mut answers).await;
    gate.fail();
    for answer in collect(answers).await {
        assert!(answer.starts_with("Unavailable"), "{answer}");
    }
    assert_counted_once_or_not_at_all(fixture, shard).await;
}

/// P5: acknowledged data survives a failure.
pub async fn acknowledged_answers_survive_a_failure<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1), changeable(2)]).await;
    for n in 0..20 {
        let name = format!("v{n}");
        cast(&shard, ballot(&poll(1), &name, n % 3, 1)).await;
        cast(&shard, ballot(&changeable(2), &name, n % 3, 1)).await;
    }
    let before = snapshot(&shard, &slice(), &["v0", "v7", "v19"]).await;
    for round in 0..3 {
        let gate = hold(&fixture);
        let lost = [ballot(&poll(1), &format!("lost {round}"), 0, 1)];
        let one = at_epoch(1);
        let mut answers = vec![("a vote", pending_answer(shard.cast(&one, &lost)))];
        assert_wait(&mut answers).await;
        gate.0.wait_until_held().await;
        gate.fail();
        collect(answers).await;
        let again = retry_until_available(|| shard.cast(&one, &lost))
            .await
            .unwrap();
        assert_eq!(again, [counted(1)]);
    }
    let shard = crash(&fixture, shard).await;
    let after = snapshot(&shard, &slice(), &["v0", "v7", "v19"]).await;
    assert_eq!(after.rows, before.rows);
    let totals = after.tallies.iter().map(|tally| tally.total());
    assert_eq!(totals.collect::<Vec<_>>(), [23, 20]);
}

/// P6: a seal returns when every earlier admitted write is durable, and the
/// state is final.
pub async fn a_seal_waits_for_the_writes_before_it<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let (one, two, m) = (at_epoch(1), at_epoch(2), token("m", 1));
    let first = [ballot(&poll(1), "v", 0, 1)];
    let second = [ballot(&poll(1), "w", 1, 1)];
    let late = [ballot(&poll(1), "x", 2, 1)];
    let gate = hold(&fixture);
    let mut answers = vec![("a vote", pending_answer(shard.cast(&one, &first)))];
    assert_wait(&mut answers).await;
    gate.0.wait_until_held().await;
    answers.push((
        "a vote behind it",
        pending_answer(shard.cast(&one, &second)),
    ));
    answers.push(("the seal", pending_answer(shard.seal(&two, &m))));
    answers.push((
        "a vote after the seal",
        pending_answer(shard.cast(&one, &late)),
    ));
    assert_wait(&mut answers).await;
    gate.release();
    // Poll the seal first: when it has returned, the votes are there.
    let sealing = answers.remove(2).1;
    assert_eq!(sealing.await, "()");
    let sealed_at = snapshot(&shard, &slice(), &["v", "w", "x"]).await;
    assert_eq!(sealed_at.tallies[0].counts, [1, 1, 0]);
    let answer = collect(answers).await;
    assert_eq!(
        answer[..2],
        [debug_text([counted(1)]), debug_text([counted(1)])]
    );
    assert!(answer[2].contains("Sealed"), "{}", answer[2]);
    assert_eq!(
        snapshot(&shard, &slice(), &["v", "w", "x"]).await,
        sealed_at
    );
    let shard = crash(&fixture, shard).await;
    assert_eq!(
        snapshot(&shard, &slice(), &["v", "w", "x"]).await,
        sealed_at
    );
    assert_eq!(fenced(shard.cast(&at_epoch(1), &late).await), sealed(2));
}

/// P6: when an earlier write fails, the seal fails too or has happened. Once
/// sealed, the slice is final: with the write or without it.
pub async fn a_seal_after_a_failed_write_is_final<F: SyncGate>() {
    let (fixture, shard) = owner::<F>(&[poll(1)]).await;
    let (one, two, m) = (at_epoch(1), at_epoch(2), token("m", 1));
    let first = [ballot(&poll(1), "v", 0, 1)];
    let gate = hold(&fixture);
    let mut answers = vec![("a vote", pending_answer(shard.cast(&one, &first)))];
    assert_wait(&mut answers).await;
    gate.0.wait_until_held().await;
    answers.push(("the seal", pending_answer(shard.seal(&two, &m))));
    assert_wait(&mut answers).await;
    gate.fail();
    let outcome = collect(answers).await;
    assert!(outcome[0].starts_with("Unavailable"), "{}", outcome[0]);
    retry_until_available(|| shard.seal(&two, &m))
        .await
        .unwrap();
    let final_ = snapshot(&shard, &slice(), &["v"]).await;
    let fence: Fence = final_.fence.clone().unwrap();
    assert_eq!(fence.epoch.0, 2);
    let rows = final_.rows.len() as u64;
    assert_eq!(
        (final_.tallies[0].voters, final_.digests[0].1.rows),
        (rows, 1 + rows)
    );
    assert_eq!(fenced(shard.cast(&one, &first).await), sealed(2));
    let shard = crash(&fixture, shard).await;
    assert_eq!(snapshot(&shard, &slice(), &["v"]).await, final_);
    // After an unseal the client's retry counts the vote, if it was not
    // counted.
    shard.unseal(&at_epoch(3), &m).await.unwrap();
    let verdicts: Vec<BallotOutcome> = shard.cast(&at_epoch(3), &first).await.unwrap();
    assert_eq!(verdicts, [counted(1)]);
    let tally = shard.tally(&slice(), poll(1).poll_id).await.unwrap();
    assert_eq!(tally.total(), 1);
}
