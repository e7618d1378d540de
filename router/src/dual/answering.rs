//! How the shards of a slice that moves answer its calls: before the cutover
//! and since. Only the shard's own time counts, never the time that a request
//! was held.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ballast_domain::answers::{Answers, AroundCutover};
use ballast_domain::tenant::{Epoch, SliceId};
use ballast_vote_shard::{At, ShardError, ShardResult};

use super::window::What;
use crate::State;
use crate::deliver::Place;

#[derive(Debug, Default)]
struct Counting {
    took: [AtomicU64; Answers::BANDS],
    failed: AtomicU64,
}

impl Counting {
    fn read(&self) -> Answers {
        let mut answers = Answers::default();
        for (told, counted) in answers.took.iter_mut().zip(&self.took) {
            *told = counted.load(Ordering::Relaxed);
        }
        answers.failed = self.failed.load(Ordering::Relaxed);
        answers
    }
}

#[derive(Debug)]
struct Since {
    epoch: Epoch,
    before: Answers,
    now: Arc<Counting>,
}

/// How slices that move are answered.
#[derive(Debug, Default)]
pub(crate) struct Answering {
    slices: Mutex<HashMap<SliceId, Since>>,
}

impl Answering {
    /// Where to count the calls of a slice at an epoch.
    fn counting(&self, at: &At) -> Option<Arc<Counting>> {
        let mut slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match slices.get(&at.slice) {
            Some(known) if known.epoch == at.epoch => return Some(known.now.clone()),
            // By a stale route: nobody asks about that any more.
            Some(known) if known.epoch > at.epoch => return None,
            Some(known) => known.now.read(),
            None => Answers::default(),
        };
        let now = Arc::new(Counting::default());
        let since = Since {
            epoch: at.epoch,
            before,
            now: now.clone(),
        };
        slices.insert(at.slice.clone(), since);
        Some(now)
    }

    pub(super) fn forget(&self, slice: &SliceId) {
        let mut slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        slices.remove(slice);
    }

    /// Notes how a call was answered that took so long.
    fn note<T>(&self, at: &At, took_ms: u64, answer: &ShardResult<T>) {
        let Some(counting) = self.counting(at) else {
            return;
        };
        let count = match answer {
            Err(ShardError::Unavailable { .. } | ShardError::Damaged { .. }) => &counting.failed,
            // The cutover's doing, not the shard's.
            Err(ShardError::Fenced(_)) => return,
            Ok(_) | Err(_) => &counting.took[Answers::band(took_ms)],
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl State {
    /// Makes a call, and notes how it was answered if its slice moves.
    pub(crate) async fn noting<T>(
        &self,
        place: &Place,
        call: impl Future<Output = ShardResult<T>>,
    ) -> ShardResult<T> {
        if place.beside.is_none() && place.coming_to.is_none() {
            return call.await;
        }
        let clock = &self.parts.clock;
        let began = clock.now().unix_ms();
        let answer = call.await;
        let took = clock.now().unix_ms().saturating_sub(began).max(0);
        let answering = &self.parts.answering;
        answering.note(&place.at, took.unsigned_abs(), &answer);
        if let Err(ShardError::Damaged { .. }) = &answer
            && let Some((_, window)) = self.beside(place)
        {
            // Whoever looks after the window finds out whose rows these are.
            self.note(&window, What::Difference);
        }
        answer
    }

    /// How the calls of a slice were answered around its cutover.
    pub fn around_cutover(&self, slice: &SliceId) -> AroundCutover {
        let slices = &self.parts.answering.slices;
        let slices = slices.lock().unwrap_or_else(PoisonError::into_inner);
        slices
            .get(slice)
            .map_or_else(AroundCutover::default, |known| AroundCutover {
                before: known.before,
                after: known.now.read(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: u64) -> At {
        At {
            slice: SliceId {
                tenant_id: "acme".parse().unwrap(),
                slice: 0,
            },
            epoch: Epoch(epoch),
        }
    }

    #[test]
    fn a_cutover_parts_the_calls_before_it_from_those_since() {
        let answering = Answering::default();
        let away = || -> ShardResult<()> { Err(ShardError::unavailable("away")) };
        answering.note(&at(1), 3, &Ok(()));
        answering.note(&at(1), 0, &away());
        answering.note(&at(3), 900, &Ok(()));
        // A stale route.
        answering.note(&at(1), 1, &Ok(()));
        let slices = answering.slices.lock().unwrap();
        let known = &slices[&at(1).slice];
        assert_eq!((known.before.calls(), known.before.failed), (2, 1));
        let after = known.now.read();
        assert_eq!((after.calls(), after.p99_ms()), (1, Some(1_024)));
    }
}
