//! Whether the history of a slice's record is one that the protocol allows.
//!
//! The registry keeps every change of a tenant's record, with what it was
//! before and after. Replayed here, each must be one of the transitions of
//! [`route`] or, where slices are cut anew, of [`recut`]; these are what the
//! model checker tries, so what has been checked is also what has happened.
//! Pure; it is given the changes in their order.

use std::collections::BTreeMap;

use ballast_domain::ShardId;
use ballast_domain::moving::{Moving, Phase, Route};
use ballast_domain::slicing::Layout;
use ballast_domain::tenant::{Epoch, Tenant};
use serde::Serialize;

use crate::protocol::{recut, route};

/// What became of a slice's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It was placed.
    Placed,
    /// Nothing that concerns moves.
    Nothing,
    /// A move began.
    Claimed,
    /// The source was to be sealed.
    Sealing,
    /// The target owns it.
    Committed,
    /// The target owns it, and what only the source had was given up.
    GivenUp,
    /// A seal was put off.
    Retreated,
    /// A move was called off.
    Aborted,
    /// A move was turned round.
    Reversed,
    /// The owner alone acknowledges, where both sides did.
    Relaxed,
    /// The source's copy was to be removed.
    Cleaning,
    /// A move was over.
    Released,
    /// The registry was restored from a backup, and epochs were raised.
    Restored,
    /// Slices were to be cut anew.
    Cutting,
    /// Others took their place.
    Cut,
    /// A cut was called off.
    CutAborted,
    /// A cut was over.
    CutReleased,
}

/// Something in a history that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A change that is no transition of the protocol.
    #[error("no transition leads from {0} to {1}")]
    NoTransition(String, String),
    /// A slice begins otherwise than placed.
    #[error("it begins as {0}")]
    NotPlaced(String),
    /// Slices that were cut otherwise than the protocol allows.
    #[error("no cut leads from slices {0:?} to {1:?}")]
    NoCut(Vec<u32>, Vec<u32>),
    /// What it was before is not what it was after the change before.
    #[error("it was {0} and, without a change, became {1}")]
    Gap(String, String),
    /// A slice, or its tenant, is gone from the record.
    #[error("it is gone from the record")]
    Gone,
    /// An epoch was given out twice.
    #[error("epoch {epoch} was {first}'s, and was given to {second}")]
    TwoOwners {
        /// The epoch.
        epoch: u64,
        /// Who had it first.
        first: ShardId,
        /// Who was given it later.
        second: ShardId,
    },
    /// The epoch fell, or those given out were forgotten.
    #[error("the epoch went from {0} to {1}")]
    EpochFell(u64, u64),
}

/// A fault, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("version {version}, slice {slice}: {fault}")]
pub struct Found {
    /// The version of the tenant's record after the change.
    pub version: u64,
    /// The slice.
    pub slice: u32,
    /// What is wrong.
    pub fault: Fault,
}

/// One change of a tenant's record.
#[derive(Debug, Clone)]
pub struct Changed {
    /// Its version after the change.
    pub version: u64,
    /// What it was before, if it was.
    pub before: Option<Tenant>,
    /// What it is after, if it is.
    pub after: Option<Tenant>,
}

/// What a history was found to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    /// How many changes of each sort there were.
    pub changes: BTreeMap<Change, u64>,
    /// What is wrong with it.
    pub found: Vec<Found>,
}

/// What is known of a slice while its history is replayed.
#[derive(Default)]
struct Known {
    last: Option<Route>,
    owners: BTreeMap<Epoch, ShardId>,
}

impl Audit {
    /// Replays the history of one tenant's record, the oldest change first. A
    /// history that does not begin with the tenant is taken as it comes.
    pub fn of(history: impl IntoIterator<Item = Changed>) -> Self {
        let mut audit = Self::default();
        let mut known: BTreeMap<u32, Known> = BTreeMap::new();
        for changed in history {
            audit.replay(&mut known, &changed);
        }
        audit
    }

    fn replay(&mut self, known: &mut BTreeMap<u32, Known>, changed: &Changed) {
        let before = routes(changed.before.as_ref());
        let after = routes(changed.after.as_ref());
        let cut = changed.cut();
        let (version, mut faults) = (changed.version, Vec::new());
        match cut {
            Some(Some(change)) => *self.changes.entry(change).or_default() += 1,
            Some(None) => {
                let names = |routes: &BTreeMap<u32, Route>| routes.keys().copied().collect();
                let first = before.keys().next().copied().unwrap_or_default();
                faults.push((first, Fault::NoCut(names(&before), names(&after))));
            }
            None => {}
        }
        let mut names: Vec<u32> = before.keys().chain(after.keys()).copied().collect();
        names.sort_unstable();
        names.dedup();
        for slice in names {
            let known = known.entry(slice).or_default();
            let (before, after) = (before.get(&slice), after.get(&slice));
            let mut own = Vec::new();
            known.goes_on(before, after, &mut own);
            // What a cut makes of a slice is for the cut to say.
            if cut.is_none() {
                let change = judged(before, after, &mut own);
                *self.changes.entry(change).or_default() += 1;
            }
            faults.extend(own.into_iter().map(|fault| (slice, fault)));
        }
        let found = faults.into_iter().map(|(slice, fault)| Found {
            version,
            slice,
            fault,
        });
        self.found.extend(found);
    }
}

impl Changed {
    /// What became of a cut, if the change concerns one; none within if that
    /// cannot be.
    fn cut(&self) -> Option<Option<Change>> {
        let (before, after) = (self.before.as_ref()?, self.after.as_ref()?);
        let (before, after) = (before.layout(), after.layout());
        let slices = |layout: &Layout| -> Vec<u32> {
            let mut slices: Vec<u32> = layout.parts.iter().map(|part| part.slice).collect();
            slices.sort_unstable();
            slices
        };
        let is_cut = before.recut != after.recut || slices(&before) != slices(&after);
        let is_restored = before.recut.is_some()
            && after.recut.is_none()
            && routes(self.before.as_ref())
                .iter()
                .zip(&routes(self.after.as_ref()))
                .all(|(was, is)| was.0 == is.0 && is_restored(was.1, is.1));
        (is_cut && !is_restored).then(|| cut(&before, &after))
    }
}

/// Which transition of a cut leads from one layout to another, if any does.
fn cut(before: &Layout, after: &Layout) -> Option<Change> {
    if let (None, Some(begun)) = (&before.recut, &after.recut) {
        let cuts: Vec<u64> = begun.children.iter().map(|child| child.hash_from).collect();
        let claimed = recut::claim(before, &begun.recut_id, &begun.parents, &cuts);
        return (claimed.as_ref() == Ok(after)).then_some(Change::Cutting);
    }
    let id = &before.recut.as_ref()?.recut_id;
    let transitions = [
        (Change::Cut, recut::commit(before, id)),
        (Change::CutAborted, recut::abort(before, id)),
        (Change::CutReleased, recut::release(before, id)),
    ];
    let mut transitions = transitions.into_iter();
    let found = transitions.find(|(_, then)| then.as_ref() == Ok(after));
    found.map(|(change, _)| change)
}

fn routes(tenant: Option<&Tenant>) -> BTreeMap<u32, Route> {
    let slices = tenant.iter().flat_map(|tenant| &tenant.slices);
    slices.map(|slice| (slice.slice, slice.route())).collect()
}

impl Known {
    /// A slice goes on from where it was, at no lower epoch, and an epoch has one
    /// owner.
    fn goes_on(&mut self, before: Option<&Route>, after: Option<&Route>, faults: &mut Vec<Fault>) {
        if let (Some(last), Some(before)) = (&self.last, before)
            && last != before
        {
            faults.push(Fault::Gap(told(last), told(before)));
        }
        self.last = after.cloned();
        let Some(after) = after else { return };
        if let Some(before) = before {
            for (was, is) in [(before.epoch, after.epoch), (before.spent, after.spent)] {
                if is < was {
                    faults.push(Fault::EpochFell(was.0, is.0));
                }
            }
        }
        let first = self.owners.entry(after.epoch);
        let first = first.or_insert_with(|| after.owner.clone());
        if *first != after.owner {
            faults.push(Fault::TwoOwners {
                epoch: after.epoch.0,
                first: first.clone(),
                second: after.owner.clone(),
            });
        }
    }
}

fn judged(before: Option<&Route>, after: Option<&Route>, faults: &mut Vec<Fault>) -> Change {
    match (before, after) {
        (Some(_), None) => {
            faults.push(Fault::Gone);
            Change::Nothing
        }
        (None, None) => Change::Nothing,
        (None, Some(after)) => {
            if *after != Route::placed(after.owner.clone()) {
                faults.push(Fault::NotPlaced(told(after)));
            }
            Change::Placed
        }
        (Some(before), Some(after)) => change(before, after).unwrap_or_else(|| {
            faults.push(Fault::NoTransition(told(before), told(after)));
            Change::Nothing
        }),
    }
}

/// A record in one line.
fn told(route: &Route) -> String {
    let moving = match &route.moving {
        Some(Moving {
            move_id,
            from,
            to,
            prepared,
            gives_up,
            sync,
            phase,
        }) => {
            let how = if *gives_up { ", given up" } else { "" };
            let both = if *sync { ", on both" } else { "" };
            let at = prepared.0;
            format!(", {move_id} from {from} to {to} at {at} {phase:?}{how}{both}")
        }
        None => String::new(),
    };
    let (owner, epoch, spent) = (&route.owner, route.epoch.0, route.spent.0);
    format!("{owner} at {epoch} of {spent}{moving}")
}

/// Which transition leads from one record to another, if any does.
pub fn change<S: Clone + PartialEq>(before: &Route<S>, after: &Route<S>) -> Option<Change> {
    if before == after {
        return Some(Change::Nothing);
    }
    if let Some(begun) = &after.moving {
        let claimed = route::claim(before, &begun.move_id, begun.to.clone(), begun.sync);
        if claimed.as_ref() == Ok(after) {
            return Some(Change::Claimed);
        }
    }
    if is_restored(before, after) {
        return Some(Change::Restored);
    }
    let id = &before.moving.as_ref()?.move_id;
    let transitions = [
        (Change::Sealing, route::seal(before, id)),
        (Change::Committed, route::commit(before, id)),
        (Change::GivenUp, route::give_up(before, id)),
        (Change::Retreated, route::retreat(before, id)),
        (Change::Aborted, route::abort(before, id)),
        (Change::Reversed, route::reverse(before, id, &id.back())),
        (Change::Reversed, route::forsake(before, id, &id.back())),
        (Change::Relaxed, route::relax(before, id)),
        (Change::Cleaning, route::clean(before, id)),
        (Change::Released, route::release(before, id)),
    ];
    let mut transitions = transitions.into_iter();
    let found = transitions.find(|(_, then)| then.as_ref() == Ok(after));
    found.map(|(change, _)| change)
}

/// Whether all epochs were raised by as much, and what was under way is undone
/// or finished.
fn is_restored<S: Clone + PartialEq>(before: &Route<S>, after: &Route<S>) -> bool {
    let raise = after.epoch.0.saturating_sub(before.epoch.0);
    let raised = |epoch: Epoch| Epoch(epoch.0 + raise);
    let moving = before.moving.clone().map(|moving| Moving {
        prepared: raised(moving.prepared),
        phase: match moving.phase {
            Phase::Copying | Phase::Sealing { .. } | Phase::Aborting => Phase::Aborting,
            Phase::Window | Phase::Cleaning => Phase::Cleaning,
        },
        ..moving
    });
    let expected = Route {
        epoch: raised(before.epoch),
        spent: raised(before.spent),
        moving,
        ..before.clone()
    };
    raise > 0 && expected == *after
}

#[cfg(test)]
mod tests;
