//! Checks that every world comes to rest once failures stop.
//!
//! All messages in flight are lost, the last worker finishes the migration, and
//! clients retry. Messages in flight cannot prevent it: the worlds in which they have
//! arrived are checked as well. Each path to rest is followed once, because every world
//! on it comes to rest, too.

use std::sync::PoisonError;

use ballast_migration_engine::protocol::MigrationIntent;

use super::happen::MigrationModel;
use super::world::ModelWorld;

/// The number of steps within which a world must come to rest.
const STEPS_MAX: usize = 60;

impl MigrationModel {
    /// Whether a world comes to rest.
    pub(super) fn ends_calm(&self, world: &ModelWorld) -> bool {
        let mut now = world.without_messages();
        let mut way = Vec::new();
        for _ in 0..STEPS_MAX {
            let known = self.calm.lock().unwrap_or_else(PoisonError::into_inner);
            let is_known = known.contains(&now);
            drop(known);
            if is_known || self.is_over(&now) {
                way.push(now);
                let mut known = self.calm.lock().unwrap_or_else(PoisonError::into_inner);
                known.extend(way);
                return true;
            }
            way.push(now);
            match self.step(&now) {
                Some(after) => now = after,
                None => return false,
            }
        }
        false
    }

    /// The last worker's next action: first copy what the target lacks, then seal.
    fn step(&self, world: &ModelWorld) -> Option<ModelWorld> {
        let workers = self.bounds.workers - u8::from(self.bounds.reconciler);
        let last = usize::from(workers) - 1;
        let mut then = *world;
        if self.bounds.torn {
            then.workers[last].seen = None;
        }
        let copies = self.next_message(&then, last, MigrationIntent::Finish, false);
        let work = copies.or_else(|| self.next_message(&then, last, MigrationIntent::Finish, true));
        // An abandoned shard answers again.
        let work = work.or_else(|| self.message_to_abandoned(&then));
        let work = work.or_else(|| self.removes(&then))?;
        self.deliver(&mut then, &work);
        Some(then)
    }

    /// Whether nothing of a migration is left and every vote is answered, including
    /// retries of votes whose answer was lost.
    fn is_over(&self, world: &ModelWorld) -> bool {
        let (owner, epoch) = (usize::from(world.route.owner), world.route.epoch);
        let answered = |voter: usize| {
            let made = world.acknowledged[voter];
            let choices = [made.max(1), (made + 1).min(self.bounds.choices)];
            choices.into_iter().all(|choice| {
                let mut shard = world.shards[owner];
                self.vote(&mut shard, voter, choice, epoch)
            })
        };
        world.is_calm() && (0..usize::from(self.bounds.clients)).all(answered)
    }
}
