//! The recut protocol, which splits and merges a tenant's slices: the transitions of
//! the tenant's record, and the next action from what a worker observed. Pure.
//!
//! ```text
//!            claim                       commit                    release
//!   (none) ────────► Sealing(E) ────────────────────────► Cut ──────────────► (none)
//!                        └── abort, above E ──► Aborting ────── release ──────► (none)
//! ```
//! A recut happens on one shard, so nothing is copied: the shard seals the parents,
//! the record replaces them with the children (the point of no return), and the
//! shard hands the polls over in one step. As in a migration, a worker keeps no
//! state between two actions.

use ballast_domain::moving::MigrationId;
use ballast_domain::slicing::{
    ChildSlice, HashRange, LayoutSlice, Recut, RecutPhase, SliceLayout, equal_cuts,
};
use ballast_domain::tenant::Epoch;
use ballast_vote_shard::shard::{Fence, Holding};

/// Why a transition is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecutError {
    /// Another recut is active on the tenant.
    #[error("recut {0} is active on the tenant")]
    AlreadyCutting(MigrationId),
    /// A migration is active on a parent.
    #[error("migration {id} is active on slice {slice}")]
    SliceMigrating {
        /// The slice.
        slice: u32,
        /// The migration.
        id: MigrationId,
    },
    /// There is no such slice.
    #[error("there is no slice {0}")]
    NoSlice(u32),
    /// The parents are on several shards.
    #[error("the slices are on several shards")]
    DifferentShards,
    /// The parents are not adjacent, or the cuts are outside of their range.
    #[error("the hash ranges do not fit together")]
    InvalidRanges,
    /// The recut is not active, or in another phase.
    #[error("the recut is not active, or in another phase")]
    NotActive,
}

type RecutResult = Result<SliceLayout, RecutError>;

/// Returns the next recut on the way to this many equal slices: the parents, and
/// the hashes at which the children begin. It splits wide slices first, then merges
/// narrow ones. `None` when the tenant has the slices it should have.
#[must_use]
pub fn plan_next_recut(layout: &SliceLayout, into: u32) -> Option<(Vec<u32>, Vec<u64>)> {
    let cuts = equal_cuts(into);
    let inside = |range: HashRange| {
        let own = cuts.iter().copied();
        own.filter(move |cut| range.from < *cut && *cut <= range.to)
    };
    for (place, part) in layout.parts.iter().enumerate() {
        let range = layout.range(place);
        if inside(range).next().is_some() {
            let pieces = std::iter::once(range.from).chain(inside(range)).collect();
            return Some((vec![part.slice], pieces));
        }
    }
    let ends = cuts.iter().skip(1).map(|next| next - 1).chain([u64::MAX]);
    for (from, to) in cuts.iter().zip(ends) {
        let within = |part: &&LayoutSlice| (*from..=to).contains(&part.hash_from);
        let parts: Vec<u32> = layout
            .parts
            .iter()
            .filter(within)
            .map(|p| p.slice)
            .collect();
        if parts.len() > 1 {
            return Some((parts, vec![*from]));
        }
    }
    None
}

/// Starts a recut: from now on the parents may be sealed.
pub fn claim(layout: &SliceLayout, id: &MigrationId, parents: &[u32], cuts: &[u64]) -> RecutResult {
    if let Some(other) = &layout.recut {
        return Err(RecutError::AlreadyCutting(other.recut_id.clone()));
    }
    let parts = parents.iter().map(|slice| {
        let place = layout.parts.iter().position(|part| part.slice == *slice);
        place.ok_or(RecutError::NoSlice(*slice))
    });
    let places = parts.collect::<Result<Vec<usize>, _>>()?;
    let (Some(first), Some(last)) = (places.first(), places.last()) else {
        return Err(RecutError::InvalidRanges);
    };
    if places.windows(2).any(|two| two[0] + 1 != two[1]) {
        return Err(RecutError::InvalidRanges);
    }
    let own = &layout.parts[*first..=*last];
    for part in own {
        if let Some(id) = part.moving.clone() {
            let slice = part.slice;
            return Err(RecutError::SliceMigrating { slice, id });
        }
        if part.owner != own[0].owner {
            return Err(RecutError::DifferentShards);
        }
    }
    let range = HashRange {
        from: layout.range(*first).from,
        to: layout.range(*last).to,
    };
    let children = child_pieces(layout.next_slice, range, cuts)?;
    let spent = own.iter().map(|part| part.spent).max();
    let epoch = Epoch(spent.map_or(0, |spent| spent.0) + 1);
    let mut then = layout.clone();
    for part in &mut then.parts[*first..=*last] {
        part.spent = epoch;
    }
    then.next_slice = children.last().map_or(0, |child| child.slice) + 1;
    then.recut = Some(Recut {
        recut_id: id.clone(),
        shard_id: own[0].owner.clone(),
        epoch,
        parents: parents.to_vec(),
        children,
        phase: RecutPhase::Sealing,
    });
    Ok(then)
}

/// Returns the slices that begin at these hashes and together cover a range.
fn child_pieces(first: u32, range: HashRange, cuts: &[u64]) -> Result<Vec<ChildSlice>, RecutError> {
    let grow = cuts.windows(2).all(|two| two[0] < two[1]);
    let ends = cuts.last().is_some_and(|last| *last <= range.to);
    if cuts.first() != Some(&range.from) || !grow || !ends {
        return Err(RecutError::InvalidRanges);
    }
    let tos = cuts.iter().skip(1).map(|next| next - 1).chain([range.to]);
    let numbered = (first..).zip(cuts.iter().zip(tos));
    let pieces = numbered.map(|(slice, (from, to))| ChildSlice {
        slice,
        hash_from: *from,
        hash_to: to,
    });
    Ok(pieces.collect())
}

fn active_recut(
    layout: &SliceLayout,
    id: &MigrationId,
    phases: &[RecutPhase],
) -> Result<Recut, RecutError> {
    let recut = layout.recut.as_ref();
    recut
        .filter(|recut| recut.recut_id == *id && phases.contains(&recut.phase))
        .cloned()
        .ok_or(RecutError::NotActive)
}

/// Replaces the parents with the children: the point of no return.
pub fn commit(layout: &SliceLayout, id: &MigrationId) -> RecutResult {
    let recut = active_recut(layout, id, &[RecutPhase::Sealing])?;
    let mut then = layout.clone();
    then.parts
        .retain(|part| !recut.parents.contains(&part.slice));
    then.parts
        .extend(recut.children.iter().map(|child| LayoutSlice {
            slice: child.slice,
            hash_from: child.hash_from,
            owner: recut.shard_id.clone(),
            epoch: recut.epoch,
            spent: recut.epoch,
            moving: None,
        }));
    then.parts.sort_by_key(|part| part.hash_from);
    then.recut = Some(Recut {
        phase: RecutPhase::Cut,
        ..recut
    });
    Ok(then)
}

/// Aborts a recut: the parents continue at a new epoch, so that the shard refuses a
/// delayed seal or recut command.
pub fn abort(layout: &SliceLayout, id: &MigrationId) -> RecutResult {
    let recut = active_recut(layout, id, &[RecutPhase::Sealing])?;
    let epoch = Epoch(recut.epoch.0 + 1);
    let mut then = layout.clone();
    for part in &mut then.parts {
        if recut.parents.contains(&part.slice) {
            (part.epoch, part.spent) = (epoch, epoch);
        }
    }
    then.recut = Some(Recut {
        phase: RecutPhase::Aborting,
        ..recut
    });
    Ok(then)
}

/// Ends the recut and frees the record.
pub fn release(layout: &SliceLayout, id: &MigrationId) -> RecutResult {
    active_recut(layout, id, &[RecutPhase::Cut, RecutPhase::Aborting])?;
    Ok(SliceLayout {
        recut: None,
        ..layout.clone()
    })
}

/// What a worker observed. Each part may have been read at a different moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedRecut {
    /// The tenant's record.
    pub layout: SliceLayout,
    /// The shard's fences for the parents, in their order.
    pub parents: Vec<Option<Fence>>,
    /// The shard's fences for the children, in their order.
    pub children: Vec<Option<Fence>>,
    /// Whether to abort, if that is still possible.
    pub call_off: bool,
}

/// A command to the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecutCommand {
    /// Stop taking writes to a parent.
    Seal(u32, Epoch),
    /// Own a parent again, at this newer epoch.
    Reinstate(u32, Epoch),
    /// Hand the parents' polls to the children.
    Recut,
}

/// The next action of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecutAction {
    /// Replace the observed record with this one, by compare-and-swap.
    UpdateRecord(Box<SliceLayout>),
    /// Send the shard a command.
    SendCommand(RecutCommand),
    /// The recut has ended.
    Ended,
}

/// Returns the next action for a recut.
#[must_use]
pub fn next_action(id: &MigrationId, view: &ObservedRecut) -> RecutAction {
    let layout = &view.layout;
    let Some(recut) = layout.recut.as_ref().filter(|it| it.recut_id == *id) else {
        return RecutAction::Ended;
    };
    let parents = || recut.parents.iter().zip(&view.parents);
    match recut.phase {
        RecutPhase::Sealing => {
            if view.call_off {
                return update_record(abort(layout, id));
            }
            for (slice, fence) in parents() {
                if !fence.as_ref().is_some_and(|it| is_sealed(it, recut)) {
                    return RecutAction::SendCommand(RecutCommand::Seal(*slice, recut.epoch));
                }
            }
            update_record(commit(layout, id))
        }
        RecutPhase::Cut => {
            let knows = |fence: &Option<Fence>| {
                let fence = fence.as_ref();
                fence.is_some_and(|fence| fence.epoch >= recut.epoch)
            };
            match view.children.iter().all(knows) {
                true => update_record(release(layout, id)),
                false => RecutAction::SendCommand(RecutCommand::Recut),
            }
        }
        RecutPhase::Aborting => {
            for (slice, fence) in parents() {
                let epoch = layout.part(*slice).map_or(recut.epoch, |part| part.epoch);
                let owns = |it: &Fence| it.holding == Holding::Owner && it.epoch >= epoch;
                if !fence.as_ref().is_some_and(owns) {
                    return RecutAction::SendCommand(RecutCommand::Reinstate(*slice, epoch));
                }
            }
            update_record(release(layout, id))
        }
    }
}

fn is_sealed(fence: &Fence, recut: &Recut) -> bool {
    fence.holding == Holding::Sealed
        && fence.epoch == recut.epoch
        && fence.migration_id.as_ref() == Some(&recut.recut_id)
}

fn update_record(changed: RecutResult) -> RecutAction {
    // The caller has checked the phase, so the transition is never refused.
    changed.map_or(RecutAction::Ended, |layout| {
        RecutAction::UpdateRecord(Box::new(layout))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> MigrationId {
        MigrationId(name.to_owned())
    }

    fn whole() -> SliceLayout {
        SliceLayout {
            parts: vec![LayoutSlice {
                slice: 0,
                hash_from: 0,
                owner: "shard-1".parse().unwrap(),
                epoch: Epoch(3),
                spent: Epoch(7),
                moving: None,
            }],
            next_slice: 1,
            recut: None,
        }
    }

    /// Recuts until there are this many slices, and counts the recuts.
    fn recut_until(mut layout: SliceLayout, into: u32) -> (SliceLayout, usize) {
        let mut cuts = 0;
        while let Some((parents, at)) = plan_next_recut(&layout, into) {
            let claimed = claim(&layout, &id("c"), &parents, &at).unwrap();
            let cut = commit(&claimed, &id("c")).unwrap();
            layout = release(&cut, &id("c")).unwrap();
            cuts += 1;
        }
        (layout, cuts)
    }

    #[test]
    fn a_tenant_comes_to_any_number_of_slices_and_back() {
        let (four, cuts) = recut_until(whole(), 4);
        assert_eq!(cuts, 1, "at once");
        let numbers: Vec<u32> = four.parts.iter().map(|part| part.slice).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert!(four.parts.iter().all(|part| part.epoch == Epoch(8)));
        let (sixteen, cuts) = recut_until(four, 16);
        assert_eq!((sixteen.parts.len(), cuts), (16, 4));
        let (two, cuts) = recut_until(sixteen, 2);
        assert_eq!((two.parts.len(), cuts), (2, 2));
        let (one, _) = recut_until(two, 1);
        assert_eq!(one.parts.len(), 1);
        assert_eq!(one.range(0), HashRange::WHOLE);
        assert_eq!(one.next_slice, one.parts[0].slice + 1);
    }

    #[test]
    fn a_partial_split_is_completed() {
        let (two, _) = recut_until(whole(), 2);
        let (parents, cuts) = plan_next_recut(&two, 4).unwrap();
        let claimed = claim(&two, &id("c"), &parents, &cuts).unwrap();
        let cut = commit(&claimed, &id("c")).unwrap();
        let three = release(&cut, &id("c")).unwrap();
        assert_eq!(three.parts.len(), 3);
        let (parents, _) = plan_next_recut(&three, 4).unwrap();
        assert_eq!(parents, [2], "the one that is still whole");
        assert_eq!(recut_until(three.clone(), 4).0.parts.len(), 4);
        assert_eq!(recut_until(three, 1).0.parts.len(), 1);
    }

    #[test]
    fn an_epoch_is_above_everything_that_was_spent() {
        let (two, _) = recut_until(whole(), 2);
        let mut later = two.clone();
        later.parts[1].spent = Epoch(20);
        let claimed = claim(&later, &id("c"), &[1, 2], &[0]).unwrap();
        let cut = claimed.recut.clone().unwrap();
        assert_eq!(cut.epoch, Epoch(21));
        let aborted = abort(&claimed, &id("c")).unwrap();
        let epochs = aborted.parts.iter().map(|part| (part.epoch, part.spent));
        assert!(epochs.into_iter().all(|it| it == (Epoch(22), Epoch(22))));
        // Either commit or abort happens, never both.
        assert_eq!(commit(&aborted, &id("c")), Err(RecutError::NotActive));
        let committed = commit(&claimed, &id("c")).unwrap();
        assert_eq!(abort(&committed, &id("c")), Err(RecutError::NotActive));
        // Slice numbers are not reused.
        let again = release(&aborted, &id("c")).unwrap();
        let again = claim(&again, &id("d"), &[1, 2], &[0]).unwrap();
        let number = again.recut.unwrap().children[0].slice;
        assert!(number > cut.children[0].slice);
    }

    #[test]
    fn a_recut_needs_idle_adjacent_parents_on_one_shard() {
        let (two, _) = recut_until(whole(), 2);
        let mut moving = two.clone();
        moving.parts[1].moving = Some(id("m"));
        let (slice, by) = (2, id("m"));
        let busy = claim(&moving, &id("c"), &[1, 2], &[0]);
        assert_eq!(busy, Err(RecutError::SliceMigrating { slice, id: by }));
        assert!(
            claim(&moving, &id("c"), &[1], &[0]).is_ok(),
            "the other one"
        );
        let mut apart = two.clone();
        apart.parts[1].owner = "shard-2".parse().unwrap();
        assert_eq!(
            claim(&apart, &id("c"), &[1, 2], &[0]),
            Err(RecutError::DifferentShards)
        );
        let claimed = claim(&two, &id("c"), &[1], &[0]).unwrap();
        let second = claim(&claimed, &id("d"), &[2], &[two.parts[1].hash_from]);
        assert_eq!(second, Err(RecutError::AlreadyCutting(id("c"))));
        for (parents, cuts) in [
            (vec![2, 1], vec![0]),
            (vec![], vec![0]),
            (vec![1], vec![]),
            (vec![1], vec![1]),
            (vec![1], vec![0, u64::MAX]),
            (vec![1], vec![0, 9, 9]),
        ] {
            let refused = claim(&two, &id("c"), &parents, &cuts);
            assert_eq!(
                refused,
                Err(RecutError::InvalidRanges),
                "{parents:?} {cuts:?}"
            );
        }
        assert_eq!(
            claim(&two, &id("c"), &[9], &[0]),
            Err(RecutError::NoSlice(9))
        );
    }
}
