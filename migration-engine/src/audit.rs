//! Whether the history of a slice's record is one that the protocol allows.
//!
//! The registry keeps every change of a tenant's record, with what it was
//! before and after. Replayed here, each must be one of the transitions of
//! [`route`], which the model checker tries: so what has been checked is also
//! what has happened. Pure; it is given the changes in their order.

use std::collections::BTreeMap;

use ballast_domain::ShardId;
use ballast_domain::moving::{Moving, Phase, Route};
use ballast_domain::tenant::{Epoch, Tenant};
use serde::Serialize;

use crate::protocol::{self, recut, route};

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
    /// A seal was put off.
    Retreated,
    /// A move was called off.
    Aborted,
    /// A move was turned round.
    Reversed,
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
            let before = routes(changed.before.as_ref());
            let after = routes(changed.after.as_ref());
            let mut names: Vec<u32> = before.keys().chain(after.keys()).copied().collect();
            names.sort_unstable();
            names.dedup();
            let cut = cut_of(&changed);
            for slice in names {
                let known = known.entry(slice).or_default();
                let mut faults = Vec::new();
                let (before, after) = (before.get(&slice), after.get(&slice));
                let change = replay(known, before, after, cut, &mut faults);
                *audit.changes.entry(change).or_default() += 1;
                let version = changed.version;
                audit.found.extend(faults.into_iter().map(|fault| Found {
                    version,
                    slice,
                    fault,
                }));
            }
        }
        audit
    }
}

fn routes(tenant: Option<&Tenant>) -> BTreeMap<u32, Route> {
    let slices = tenant.iter().flat_map(|tenant| &tenant.slices);
    slices.map(|slice| (slice.slice, slice.route())).collect()
}

fn replay(
    known: &mut Known,
    before: Option<&Route>,
    after: Option<&Route>,
    cut: Option<Change>,
    faults: &mut Vec<Fault>,
) -> Change {
    if let (Some(last), Some(before)) = (&known.last, before)
        && last != before
    {
        faults.push(Fault::Gap(told(last), told(before)));
    }
    known.last = after.cloned();
    let change = match (before, after) {
        _ if before == after => Change::Nothing,
        // Which slices come and go was decided with the cut as a whole.
        _ if cut.is_some() => cut.unwrap_or(Change::Nothing),
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
    };
    if let (Some(before), Some(after)) = (before, after) {
        for (was, is) in [(before.epoch, after.epoch), (before.spent, after.spent)] {
            if is < was {
                faults.push(Fault::EpochFell(was.0, is.0));
            }
        }
    }
    if let Some(after) = after {
        let first = known.owners.entry(after.epoch);
        let first = first.or_insert_with(|| after.owner.clone());
        if *first != after.owner {
            faults.push(Fault::TwoOwners {
                epoch: after.epoch.0,
                first: first.clone(),
                second: after.owner.clone(),
            });
        }
    }
    change
}

/// Which transition of a cut a change is, if it is one.
fn cut_of(changed: &Changed) -> Option<Change> {
    let (before, after) = (changed.before.as_ref()?, changed.after.as_ref()?);
    let (before, after) = (before.layout(), after.layout());
    let id = match (&before.recut, &after.recut) {
        (None, Some(begun)) => {
            let cuts: Vec<u64> = begun.children.iter().map(|child| child.hash_from).collect();
            let claimed = recut::claim(&before, &begun.recut_id, &begun.parents, &cuts);
            return (claimed.as_ref() == Ok(&after)).then_some(Change::Cutting);
        }
        (Some(recut), _) => &recut.recut_id,
        (None, None) => return None,
    };
    let transitions = [
        (Change::Cut, recut::commit(&before, id)),
        (Change::CutAborted, recut::abort(&before, id)),
        (Change::CutReleased, recut::release(&before, id)),
    ];
    let mut transitions = transitions.into_iter();
    let found = transitions.find(|(_, then)| then.as_ref() == Ok(&after));
    found.map(|(change, _)| change)
}

/// A record in one line.
fn told(route: &Route) -> String {
    let moving = match &route.moving {
        Some(Moving {
            move_id,
            from,
            to,
            prepared,
            phase,
        }) => format!(
            ", {move_id} from {from} to {to} at {} {phase:?}",
            prepared.0
        ),
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
        let claimed = route::claim(before, &begun.move_id, begun.to.clone());
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
        (Change::Retreated, route::retreat(before, id)),
        (Change::Aborted, route::abort(before, id)),
        (
            Change::Reversed,
            route::reverse(before, id, &protocol::back(id)),
        ),
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
mod tests {
    use ballast_domain::moving::MoveId;
    use ballast_domain::tenant::Slice;
    use serde_json::json;

    use super::*;

    fn tenant(route: &Route) -> Tenant {
        let now = "2026-11-16T09:30:00Z".parse().unwrap();
        let mut slice = Slice::placed(0, route.owner.clone(), now);
        slice.set_route(route.clone(), now);
        serde_json::from_value(json!({
            "tenantID": "acme",
            "name": "Acme",
            "status": "active",
            "homeRegion": "local",
            "residency": { "policy": "strict" },
            "zones": [],
            "limits": { "votesPerSecond": null, "concurrentQueries": null, "retentionDays": null },
            "corsOrigins": [],
            "slices": [slice],
            "createdAt": now,
        }))
        .unwrap()
    }

    fn shard(id: &str) -> ShardId {
        id.parse().unwrap()
    }

    fn history(routes: &[Route]) -> Vec<Changed> {
        let first = [None].into_iter();
        let before = first.chain(routes.iter().map(|route| Some(tenant(route))));
        let both = (1..).zip(before.zip(routes));
        both.map(|(version, (before, after))| Changed {
            version,
            before,
            after: Some(tenant(after)),
        })
        .collect()
    }

    /// There, put off once, and back.
    fn told_whole() -> Vec<Route> {
        let m = MoveId("m".to_owned());
        let back = protocol::back(&m);
        let placed = Route::placed(shard("a"));
        let claimed = route::claim(&placed, &m, shard("b")).unwrap();
        let sealing = route::seal(&claimed, &m).unwrap();
        let put_off = route::retreat(&sealing, &m).unwrap();
        let again = route::seal(&put_off, &m).unwrap();
        let there = route::commit(&again, &m).unwrap();
        let turned = route::reverse(&there, &m, &back).unwrap();
        let returning = route::seal(&turned, &back).unwrap();
        let home = route::commit(&returning, &back).unwrap();
        let cleaning = route::clean(&home, &back).unwrap();
        let over = route::release(&cleaning, &back).unwrap();
        vec![
            placed, claimed, sealing, put_off, again, there, turned, returning, home, cleaning,
            over,
        ]
    }

    #[test]
    fn what_the_protocol_allows_is_found_right() {
        let audit = Audit::of(history(&told_whole()));
        assert_eq!(audit.found, []);
        assert_eq!(audit.changes[&Change::Sealing], 3);
        assert_eq!(audit.changes[&Change::Committed], 2);
        assert_eq!(audit.changes[&Change::Reversed], 1);
    }

    #[test]
    fn a_history_without_its_beginning_is_taken_as_it_comes() {
        let mut late = history(&told_whole());
        late.drain(..4);
        assert_eq!(Audit::of(late).found, []);
    }

    #[test]
    fn a_restore_raises_every_epoch_and_undoes_what_was_under_way() {
        for route in told_whole() {
            let before = tenant(&route);
            let mut after = before.clone();
            after.slices[0].restore(1_000);
            let changed = change(&route, &after.slices[0].route());
            assert_eq!(changed, Some(Change::Restored), "{route:?}");
        }
    }

    /// Each change left out, repeated out of turn or altered is noticed.
    #[test]
    fn what_it_does_not_allow_is_found() {
        let whole = told_whole();
        let found = |routes: &[Route]| !Audit::of(history(routes)).found.is_empty();
        for left_out in 1..whole.len() - 1 {
            let mut routes = whole.clone();
            routes.remove(left_out);
            assert!(found(&routes), "without {:?}", whole[left_out]);
        }
        for changed in 1..whole.len() {
            let alter = |alteration: fn(&mut Route)| {
                let mut routes = whole.clone();
                alteration(&mut routes[changed]);
                routes
            };
            let fallen = alter(|route| route.epoch = Epoch(route.epoch.0 - 1));
            let moved = alter(|route| route.owner = "c".parse().unwrap());
            let forgotten = alter(|route| route.spent = route.epoch);
            assert!(found(&fallen) && found(&moved), "{:?}", whole[changed]);
            if forgotten != whole {
                assert!(found(&forgotten), "{:?}", whole[changed]);
            }
        }
    }

    #[test]
    fn an_epoch_has_one_owner() {
        // Both changes are restores as far as one look tells; together they are
        // none.
        let mut other = told_whole();
        let there = other.remove(5);
        let mut stolen = there.clone();
        stolen.owner = shard("a");
        let found = Audit::of(history(&[there, stolen])).found;
        let two = |found: &Found| matches!(found.fault, Fault::TwoOwners { .. });
        assert!(found.iter().any(two), "{found:?}");
    }

    #[test]
    fn a_change_that_nobody_wrote_down_is_found() {
        let mut silent = history(&told_whole());
        silent.remove(4);
        let found = Audit::of(silent).found;
        let gap = |found: &Found| matches!(found.fault, Fault::Gap(..));
        assert!(found.iter().any(gap), "{found:?}");
    }
}
