//! Whether everything ends: from any world, once nothing goes wrong any more.
//!
//! What is on its way is lost, the last worker works and wants the move to be
//! over, clients try again. That a letter that is on its way does not prevent
//! it follows, because the world in which it has arrived is looked at as well.
//! A way to the end is followed once: every world on it ends calm too.

use std::sync::PoisonError;

use ballast_migration_engine::protocol::Wish;

use super::happen::MoveModel;
use super::world::World;

/// Steps within which it must end.
const STEPS_MAX: usize = 60;

impl MoveModel {
    /// Whether a world ends calm.
    pub(super) fn ends_calm(&self, world: &World) -> bool {
        let mut now = world.without_mail();
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

    /// The last worker does the next thing: first what the target lacks, then
    /// the seal.
    fn step(&self, world: &World) -> Option<World> {
        let workers = self.bounds.workers - u8::from(self.bounds.watchman);
        let last = usize::from(workers) - 1;
        let mut then = *world;
        if self.bounds.torn {
            then.workers[last].seen = None;
        }
        let copies = self.intends(&then, last, Wish::Finish, false);
        let work = copies.or_else(|| self.intends(&then, last, Wish::Finish, true));
        // A shard that was given up answers again.
        let work = work.or_else(|| self.disowns(&then));
        let work = work.or_else(|| self.removes(&then))?;
        self.deliver(&mut then, &work);
        Some(then)
    }

    /// Nothing of a move is left, and whoever votes is answered: also those who
    /// were and did not hear of it.
    fn is_over(&self, world: &World) -> bool {
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
