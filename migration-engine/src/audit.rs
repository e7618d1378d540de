//! Checks that the history of a slice's record is one that the protocol allows.
//!
//! The registry keeps every change of a tenant's record, with the states before and
//! after. The audit replays them: each must be a transition of [`route`] or, for
//! recuts, of [`recut`]. The model checker explores these same transitions, so what
//! it has verified is what really happened. Pure; the caller passes the changes in
//! order.

use std::collections::BTreeMap;

use ballast_domain::ShardId;
use ballast_domain::moving::{ActiveMigration, MigrationPhase, SliceRoute};
use ballast_domain::slicing::SliceLayout;
use ballast_domain::tenant::{Epoch, Tenant};
use serde::Serialize;

use crate::protocol::{recut, route};

/// The transition that a change of a slice's record was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AuditedTransition {
    /// The slice was placed.
    Placed,
    /// The change does not concern migrations.
    Nothing,
    /// A migration started.
    Claimed,
    /// The seal was decided.
    Sealing,
    /// The target became the owner.
    Committed,
    /// The target became the owner without the source, whose extra writes are lost.
    GivenUp,
    /// A seal was postponed.
    Retreated,
    /// A migration was aborted.
    Aborted,
    /// A reverse migration started.
    Reversed,
    /// Synchronous acknowledgement ended.
    Relaxed,
    /// The window ended.
    Cleaning,
    /// A migration ended.
    Released,
    /// The registry was restored from a backup, which raised all epochs.
    Restored,
    /// A recut started.
    Cutting,
    /// The children replaced their parents.
    Cut,
    /// A recut was aborted.
    CutAborted,
    /// A recut ended.
    CutReleased,
}

/// A violation of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditFault {
    /// A change is not a transition of the protocol.
    #[error("no transition leads from {0} to {1}")]
    NoTransition(String, String),
    /// A slice's first record is not that of a newly placed slice.
    #[error("the first record is {0}, not that of a newly placed slice")]
    NotPlaced(String),
    /// A change of the set of slices is not a transition of a recut.
    #[error("no recut leads from slices {0:?} to {1:?}")]
    NoCut(Vec<u32>, Vec<u32>),
    /// A change does not start where the previous one ended.
    #[error("a change is missing: the record was {0}, and the next change starts from {1}")]
    Gap(String, String),
    /// A slice or its tenant was removed from the record.
    #[error("the slice was removed from the record")]
    Gone,
    /// An epoch was issued to two owners.
    #[error("epoch {epoch} was issued to {first} and again to {second}")]
    TwoOwners {
        /// The epoch.
        epoch: u64,
        /// The first owner.
        first: ShardId,
        /// The second owner.
        second: ShardId,
    },
    /// The epoch, or the highest epoch that was issued, decreased.
    #[error("the epoch decreased from {0} to {1}")]
    EpochFell(u64, u64),
}

/// A violation, and where it is in the history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("version {version}, slice {slice}: {fault}")]
pub struct AuditFinding {
    /// The version of the tenant's record after the change.
    pub version: u64,
    /// The slice.
    pub slice: u32,
    /// The violation.
    pub fault: AuditFault,
}

/// One change of a tenant's record.
#[derive(Debug, Clone)]
pub struct TenantChange {
    /// Its version after the change.
    pub version: u64,
    /// The record before the change; `None` if the change created it.
    pub before: Option<Tenant>,
    /// The record after the change; `None` if the change removed it.
    pub after: Option<Tenant>,
}

/// The result of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryAudit {
    /// How many changes of each kind there were.
    pub changes: BTreeMap<AuditedTransition, u64>,
    /// The violations.
    pub findings: Vec<AuditFinding>,
}

/// What the replay remembers of a slice.
#[derive(Default)]
struct SliceHistory {
    last: Option<SliceRoute>,
    owners: BTreeMap<Epoch, ShardId>,
}

impl HistoryAudit {
    /// Replays the history of one tenant's record, oldest change first. The history
    /// may start later than the tenant's creation.
    pub fn replay_history(history: impl IntoIterator<Item = TenantChange>) -> Self {
        let mut audit = Self::default();
        let mut known: BTreeMap<u32, SliceHistory> = BTreeMap::new();
        for changed in history {
            audit.replay(&mut known, &changed);
        }
        audit
    }

    fn replay(&mut self, known: &mut BTreeMap<u32, SliceHistory>, changed: &TenantChange) {
        let before = routes(changed.before.as_ref());
        let after = routes(changed.after.as_ref());
        let cut = changed.cut();
        let (version, mut faults) = (changed.version, Vec::new());
        match cut {
            Some(Some(change)) => *self.changes.entry(change).or_default() += 1,
            Some(None) => {
                let names = |routes: &BTreeMap<u32, SliceRoute>| routes.keys().copied().collect();
                let first = before.keys().next().copied().unwrap_or_default();
                faults.push((first, AuditFault::NoCut(names(&before), names(&after))));
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
            known.check_continuity(before, after, &mut own);
            // A recut is checked as a whole, above.
            if cut.is_none() {
                let change = classify_or_report(before, after, &mut own);
                *self.changes.entry(change).or_default() += 1;
            }
            faults.extend(own.into_iter().map(|fault| (slice, fault)));
        }
        let found = faults.into_iter().map(|(slice, fault)| AuditFinding {
            version,
            slice,
            fault,
        });
        self.findings.extend(found);
    }
}

impl TenantChange {
    /// If the change concerns a recut, returns its transition, or `Some(None)` if the
    /// protocol has no such transition.
    fn cut(&self) -> Option<Option<AuditedTransition>> {
        let (before, after) = (self.before.as_ref()?, self.after.as_ref()?);
        let (before, after) = (before.layout(), after.layout());
        let slices = |layout: &SliceLayout| -> Vec<u32> {
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
        (is_cut && !is_restored).then(|| cut_transition(&before, &after))
    }
}

/// Returns the recut transition that leads from one layout to another, if any does.
fn cut_transition(before: &SliceLayout, after: &SliceLayout) -> Option<AuditedTransition> {
    if let (None, Some(begun)) = (&before.recut, &after.recut) {
        let cuts: Vec<u64> = begun.children.iter().map(|child| child.hash_from).collect();
        let claimed = recut::claim(before, &begun.recut_id, &begun.parents, &cuts);
        return (claimed.as_ref() == Ok(after)).then_some(AuditedTransition::Cutting);
    }
    let id = &before.recut.as_ref()?.recut_id;
    let transitions = [
        (AuditedTransition::Cut, recut::commit(before, id)),
        (AuditedTransition::CutAborted, recut::abort(before, id)),
        (AuditedTransition::CutReleased, recut::release(before, id)),
    ];
    let mut transitions = transitions.into_iter();
    let found = transitions.find(|(_, then)| then.as_ref() == Ok(after));
    found.map(|(change, _)| change)
}

fn routes(tenant: Option<&Tenant>) -> BTreeMap<u32, SliceRoute> {
    let slices = tenant.iter().flat_map(|tenant| &tenant.slices);
    slices.map(|slice| (slice.slice, slice.route())).collect()
}

impl SliceHistory {
    /// Checks that the change starts where the previous one ended, that epochs do not
    /// decrease, and that an epoch has one owner.
    fn check_continuity(
        &mut self,
        before: Option<&SliceRoute>,
        after: Option<&SliceRoute>,
        faults: &mut Vec<AuditFault>,
    ) {
        if let (Some(last), Some(before)) = (&self.last, before)
            && last != before
        {
            faults.push(AuditFault::Gap(
                describe_route(last),
                describe_route(before),
            ));
        }
        self.last = after.cloned();
        let Some(after) = after else { return };
        if let Some(before) = before {
            for (was, is) in [(before.epoch, after.epoch), (before.spent, after.spent)] {
                if is < was {
                    faults.push(AuditFault::EpochFell(was.0, is.0));
                }
            }
        }
        let first = self.owners.entry(after.epoch);
        let first = first.or_insert_with(|| after.owner.clone());
        if *first != after.owner {
            faults.push(AuditFault::TwoOwners {
                epoch: after.epoch.0,
                first: first.clone(),
                second: after.owner.clone(),
            });
        }
    }
}

fn classify_or_report(
    before: Option<&SliceRoute>,
    after: Option<&SliceRoute>,
    faults: &mut Vec<AuditFault>,
) -> AuditedTransition {
    match (before, after) {
        (Some(_), None) => {
            faults.push(AuditFault::Gone);
            AuditedTransition::Nothing
        }
        (None, None) => AuditedTransition::Nothing,
        (None, Some(after)) => {
            if *after != SliceRoute::placed(after.owner.clone()) {
                faults.push(AuditFault::NotPlaced(describe_route(after)));
            }
            AuditedTransition::Placed
        }
        (Some(before), Some(after)) => change(before, after).unwrap_or_else(|| {
            faults.push(AuditFault::NoTransition(
                describe_route(before),
                describe_route(after),
            ));
            AuditedTransition::Nothing
        }),
    }
}

/// Describes a record in one line.
fn describe_route(route: &SliceRoute) -> String {
    let moving = match &route.moving {
        Some(ActiveMigration {
            migration_id,
            from,
            to,
            prepared,
            gives_up,
            sync,
            phase,
        }) => {
            let how = if *gives_up { ", source abandoned" } else { "" };
            let both = if *sync { ", synchronous" } else { "" };
            let at = prepared.0;
            format!(", {migration_id} from {from} to {to} at {at} {phase:?}{how}{both}")
        }
        None => String::new(),
    };
    let (owner, epoch, spent) = (&route.owner, route.epoch.0, route.spent.0);
    format!("{owner} at {epoch} of {spent}{moving}")
}

/// Returns the transition that leads from one record to another, if any does.
pub fn change<S: Clone + PartialEq>(
    before: &SliceRoute<S>,
    after: &SliceRoute<S>,
) -> Option<AuditedTransition> {
    if before == after {
        return Some(AuditedTransition::Nothing);
    }
    if let Some(begun) = &after.moving {
        let claimed = route::claim(before, &begun.migration_id, begun.to.clone(), begun.sync);
        if claimed.as_ref() == Ok(after) {
            return Some(AuditedTransition::Claimed);
        }
    }
    if is_restored(before, after) {
        return Some(AuditedTransition::Restored);
    }
    let id = &before.moving.as_ref()?.migration_id;
    let transitions = [
        (AuditedTransition::Sealing, route::seal(before, id)),
        (AuditedTransition::Committed, route::commit(before, id)),
        (
            AuditedTransition::GivenUp,
            route::commit_without_source(before, id),
        ),
        (AuditedTransition::Retreated, route::retreat(before, id)),
        (AuditedTransition::Aborted, route::abort(before, id)),
        (
            AuditedTransition::Reversed,
            route::reverse(before, id, &id.way_back()),
        ),
        (
            AuditedTransition::Reversed,
            route::reverse_without_owner(before, id, &id.way_back()),
        ),
        (AuditedTransition::Relaxed, route::relax(before, id)),
        (AuditedTransition::Cleaning, route::clean(before, id)),
        (AuditedTransition::Released, route::release(before, id)),
    ];
    let mut transitions = transitions.into_iter();
    let found = transitions.find(|(_, then)| then.as_ref() == Ok(after));
    found.map(|(change, _)| change)
}

/// Whether all epochs were raised by the same number, and an active migration is
/// being aborted or finished: a restore from a backup.
fn is_restored<S: Clone + PartialEq>(before: &SliceRoute<S>, after: &SliceRoute<S>) -> bool {
    let raise = after.epoch.0.saturating_sub(before.epoch.0);
    let raised = |epoch: Epoch| Epoch(epoch.0 + raise);
    let moving = before.moving.clone().map(|moving| ActiveMigration {
        prepared: raised(moving.prepared),
        phase: match moving.phase {
            MigrationPhase::Copying | MigrationPhase::Sealing { .. } | MigrationPhase::Aborting => {
                MigrationPhase::Aborting
            }
            MigrationPhase::Window | MigrationPhase::Cleaning => MigrationPhase::Cleaning,
        },
        ..moving
    });
    let expected = SliceRoute {
        epoch: raised(before.epoch),
        spent: raised(before.spent),
        moving,
        ..before.clone()
    };
    raise > 0 && expected == *after
}

#[cfg(test)]
mod tests;
