//! Whoever archives or copies is ended at every operation of the store, with
//! the operation done or not, the shard loses its power, and it begins again.

use std::sync::Arc;

use async_trait::async_trait;

use super::steps::{archived_rows, incoming, later, rows_of};
use super::world::{Store, World, closed};
use crate::archive::{
    ArchiveError, FullSpeed, Pace, Stopped, backfill, check, copy_files, read_back, sweep,
};
use crate::conformance::words::*;

/// Ends the work after so many steps.
struct Ends(u64);

#[async_trait]
impl Pace for Ends {
    async fn went_on(&mut self, _: u64) -> Result<(), Stopped> {
        self.0 = self.0.checked_sub(1).ok_or(Stopped)?;
        Ok(())
    }
}

/// All is archived, nothing is lost, and nothing is left over.
async fn finished(world: &World, store: &Arc<Store>) {
    let (shard, archive) = (world.shard(), store.archive());
    backfill(&*shard, &archive, &at(1), 1, &mut FullSpeed)
        .await
        .unwrap();
    sweep(&*shard, &archive, &at(1), later()).await.unwrap();
    let damages = read_back(&*shard, &archive, &slice(), &mut FullSpeed).await;
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
    assert_eq!(rows_of(&shard, poll(4).poll_id).await.len(), 40);
}

/// At every moment a poll's rows are in the shard or in a file that is whole.
async fn nothing_lost(world: &World, store: &Arc<Store>) {
    let (shard, archive) = (world.shard(), store.archive());
    for poll in closed() {
        let rows = match shard.archive(&slice(), poll).await.unwrap() {
            Some(_) => archived_rows(&shard, &archive, poll).await,
            None => rows_of(&shard, poll).await,
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
            let mut world = World::voted(40).await;
            let store = Arc::new(Store::default()).failing(operation, done);
            let shard = world.shard();
            let outcome = backfill(&*shard, &store.archive(), &at(1), 1, &mut FullSpeed).await;
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
    let mut world = World::voted(40).await;
    let store = Arc::new(Store::default());
    for steps in 0.. {
        let shard = world.shard();
        let outcome = backfill(&*shard, &store.archive(), &at(1), 1, &mut Ends(steps)).await;
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
    let (world, other) = (World::voted(40).await, World::new());
    let (source, target) = (world.shard(), other.shard());
    let key = source.slice_key(&slice()).await.unwrap();
    let (m, slice) = (order("m", 1), slice());
    target
        .prepare(&at(2), &m, key, ballast_domain::slicing::HashRange::WHOLE)
        .await
        .unwrap();
    let here = Arc::new(Store::default());
    let from = here.archive();
    backfill(&*source, &from, &at(1), 1, &mut FullSpeed)
        .await
        .unwrap();
    let there = Arc::new(Store::default());
    let mut ends = 0;
    for operation in 0.. {
        let mut is_through = true;
        for done in [false, true] {
            let fresh = Arc::new(Store::default()).failing(operation, done);
            let archive = fresh.archive();
            let to = incoming(&target, &archive, &slice, &m);
            let outcome = copy_files(&*source, &from, &to, &mut FullSpeed).await;
            is_through &= !fresh.failed();
            ends += u64::from(outcome.is_err());
            assert_eq!(outcome.is_err(), fresh.failed());
            let again = fresh.again();
            let archive = again.archive();
            let to = incoming(&target, &archive, &slice, &m);
            copy_files(&*source, &from, &to, &mut FullSpeed)
                .await
                .unwrap();
            for poll in closed() {
                let file = source.archive(&slice, poll).await.unwrap().unwrap();
                check(&archive, &file, poll).await.unwrap();
            }
            sweep(&*source, &archive, &at(1), later()).await.unwrap();
            assert_eq!(again.names().await, here.names().await);
        }
        if is_through {
            break;
        }
    }
    assert!(ends > 10, "it was ended only {ends} times");
    assert!(there.names().await.is_empty());
}
