//! Interrupts backfills and copies at every operation of the store, before or
//! after the operation takes effect, with a power failure of the shard, and
//! then resumes them.

use std::sync::Arc;

use async_trait::async_trait;

use super::steps::{archived_rows, incoming, later, stored_rows};
use super::world::{ArchiveWorld, FaultyStore, closed};
use crate::archive::{
    ArchiveError, ArchiveStopped, ArchiveThrottle, Unthrottled, backfill, copy_missing_files,
    remove_unreferenced, verify_checksums, verify_files,
};
use crate::conformance::builders::*;

/// Ends the work after a number of steps.
struct Ends(u64);

#[async_trait]
impl ArchiveThrottle for Ends {
    async fn advance(&mut self, _: u64) -> Result<(), ArchiveStopped> {
        self.0 = self.0.checked_sub(1).ok_or(ArchiveStopped)?;
        Ok(())
    }
}

/// Asserts that everything is archived, nothing is lost, and nothing is left
/// over.
async fn finished(world: &ArchiveWorld, store: &Arc<FaultyStore>) {
    let (shard, archive) = (world.shard(), store.archive());
    backfill(&*shard, &archive, &at_epoch(1), 1, &mut Unthrottled)
        .await
        .unwrap();
    remove_unreferenced(&*shard, &archive, &at_epoch(1), later())
        .await
        .unwrap();
    let damages = verify_files(&*shard, &archive, &slice(), &mut Unthrottled).await;
    assert!(damages.unwrap().is_empty());
    assert_eq!(store.names().await.len(), 2);
    for poll in closed() {
        assert_eq!(archived_rows(&shard, &archive, poll).await.len(), 40);
        let tally = shard.tally(&slice(), poll).await.unwrap();
        assert_eq!(
            tally.counts.iter().sum::<u64>(),
            if poll == closed()[0] { 47 } else { 41 }
        );
    }
    assert_eq!(stored_rows(&shard, poll(4).poll_id).await.len(), 40);
}

/// Asserts that a poll's rows are in the shard or in a whole file.
async fn nothing_lost(world: &ArchiveWorld, store: &Arc<FaultyStore>) {
    let (shard, archive) = (world.shard(), store.archive());
    for poll in closed() {
        let rows = match shard.archive(&slice(), poll).await.unwrap() {
            Some(_) => archived_rows(&shard, &archive, poll).await,
            None => stored_rows(&shard, poll).await,
        };
        assert_eq!(rows.len(), 40);
    }
}

#[tokio::test]
async fn a_backfill_may_be_ended_at_every_operation() {
    let mut ends = 0;
    for operation in 0.. {
        let mut is_through = true;
        for done in [false, true] {
            let mut world = ArchiveWorld::voted(40).await;
            let store = Arc::new(FaultyStore::default()).failing(operation, done);
            let shard = world.shard();
            let outcome =
                backfill(&*shard, &store.archive(), &at_epoch(1), 1, &mut Unthrottled).await;
            drop(shard);
            is_through &= !store.failed();
            assert_eq!(outcome.is_err(), store.failed(), "{outcome:?}");
            ends += u64::from(outcome.is_err());
            world.crash();
            let store = store.again();
            nothing_lost(&world, &store).await;
            finished(&world, &store).await;
        }
        if is_through {
            break;
        }
    }
    assert!(ends > 20, "it was ended only {ends} times");
}

#[tokio::test]
async fn a_backfill_that_is_stopped_goes_on_later() {
    let mut world = ArchiveWorld::voted(40).await;
    let store = Arc::new(FaultyStore::default());
    for steps in 0.. {
        let shard = world.shard();
        let outcome = backfill(&*shard, &store.archive(), &at_epoch(1), 1, &mut Ends(steps)).await;
        drop(shard);
        world.crash();
        nothing_lost(&world, &store).await;
        match outcome {
            Ok(_) => break,
            Err(ArchiveError::Stopped(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    finished(&world, &store).await;
}

#[tokio::test]
async fn a_copy_may_be_ended_at_every_operation() {
    let (world, other) = (ArchiveWorld::voted(40).await, ArchiveWorld::new());
    let (source, target) = (world.shard(), other.shard());
    let key = source.slice_key(&slice()).await.unwrap();
    let (m, slice) = (token("m", 1), slice());
    target
        .prepare(
            &at_epoch(2),
            &m,
            key,
            ballast_domain::slicing::HashRange::WHOLE,
        )
        .await
        .unwrap();
    let here = Arc::new(FaultyStore::default());
    let from = here.archive();
    backfill(&*source, &from, &at_epoch(1), 1, &mut Unthrottled)
        .await
        .unwrap();
    let there = Arc::new(FaultyStore::default());
    let mut ends = 0;
    for operation in 0.. {
        let mut is_through = true;
        for done in [false, true] {
            let fresh = Arc::new(FaultyStore::default()).failing(operation, done);
            let archive = fresh.archive();
            let to = incoming(&target, &archive, &slice, &m);
            let outcome = copy_missing_files(&*source, &from, &to, &mut Unthrottled).await;
            is_through &= !fresh.failed();
            ends += u64::from(outcome.is_err());
            assert_eq!(outcome.is_err(), fresh.failed());
            let again = fresh.again();
            let archive = again.archive();
            let to = incoming(&target, &archive, &slice, &m);
            copy_missing_files(&*source, &from, &to, &mut Unthrottled)
                .await
                .unwrap();
            for poll in closed() {
                let file = source.archive(&slice, poll).await.unwrap().unwrap();
                verify_checksums(&archive, &file, poll).await.unwrap();
            }
            remove_unreferenced(&*source, &archive, &at_epoch(1), later())
                .await
                .unwrap();
            assert_eq!(again.names().await, here.names().await);
        }
        if is_through {
            break;
        }
    }
    assert!(ends > 10, "it was ended only {ends} times");
    assert!(there.names().await.is_empty());
}
