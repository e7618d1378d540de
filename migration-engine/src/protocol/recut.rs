//! Cutting slices anew, pure: how a tenant's record changes, and what is to be
//! done next from what is seen.
//!
//! ```text
//!            claim                       commit                    release
//!   (none) ────────► Sealing(E) ────────────────────────► Cut ──────────────► (none)
//!                        └── abort, above E ──► Aborting ────── release ──────► (none)
//! ```
//! All of it happens on one shard, so nothing is copied: the parents are
//! sealed, the record lets the children take their place (the point of no
//! return), and the shard hands their polls over in one step. As with moves,
//! nothing is remembered between two looks.

use ballast_domain::moving::MoveId;
use ballast_domain::slicing::{HashRange, Layout, Part, Piece, Recut, RecutPhase, equal_cuts};
use ballast_domain::tenant::Epoch;
use ballast_vote_shard::shard::{Fence, Holding};

/// Why a record is not changed so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Another cut is at work.
    #[error("the cut {0} is at work on the tenant")]
    Cutting(MoveId),
    /// A move is at work on a parent.
    #[error("the move {id} is at work on slice {slice}")]
    Moving {
        /// The slice.
        slice: u32,
        /// The move.
        id: MoveId,
    },
    /// There is no such slice.
    #[error("there is no slice {0}")]
    NoSlice(u32),
    /// The parents lie on several shards.
    #[error("the slices are on several shards")]
    Apart,
    /// The parents do not lie beside each other, or the cuts are not theirs.
    #[error("the ranges do not fit")]
    Ranges,
    /// The cut is not at work, or farther than that.
    #[error("the cut is not at work, or not that far")]
    NotCutting,
}

type Changed = Result<Layout, Refused>;

/// The next cut that brings a tenant to so many equal slices: which slices are
/// cut, and where the new ones begin. Wide slices are divided first; then those
/// that are too narrow are joined. `None` when it is so.
#[must_use]
pub fn wanted(layout: &Layout, into: u32) -> Option<(Vec<u32>, Vec<u64>)> {
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
        let within = |part: &&Part| (*from..=to).contains(&part.hash_from);
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

/// A cut begins: the parents are to be sealed from now on.
pub fn claim(layout: &Layout, id: &MoveId, parents: &[u32], cuts: &[u64]) -> Changed {
    if let Some(other) = &layout.recut {
        return Err(Refused::Cutting(other.recut_id.clone()));
    }
    let parts = parents.iter().map(|slice| {
        let place = layout.parts.iter().position(|part| part.slice == *slice);
        place.ok_or(Refused::NoSlice(*slice))
    });
    let places = parts.collect::<Result<Vec<usize>, _>>()?;
    let (Some(first), Some(last)) = (places.first(), places.last()) else {
        return Err(Refused::Ranges);
    };
    if places.windows(2).any(|two| two[0] + 1 != two[1]) {
        return Err(Refused::Ranges);
    }
    let own = &layout.parts[*first..=*last];
    for part in own {
        if let Some(id) = part.moving.clone() {
            let slice = part.slice;
            return Err(Refused::Moving { slice, id });
        }
        if part.owner != own[0].owner {
            return Err(Refused::Apart);
        }
    }
    let range = HashRange {
        from: layout.range(*first).from,
        to: layout.range(*last).to,
    };
    let children = pieces(layout.next_slice, range, cuts)?;
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

/// The slices that begin at these hashes and together hold a range.
fn pieces(first: u32, range: HashRange, cuts: &[u64]) -> Result<Vec<Piece>, Refused> {
    let grow = cuts.windows(2).all(|two| two[0] < two[1]);
    let ends = cuts.last().is_some_and(|last| *last <= range.to);
    if cuts.first() != Some(&range.from) || !grow || !ends {
        return Err(Refused::Ranges);
    }
    let tos = cuts.iter().skip(1).map(|next| next - 1).chain([range.to]);
    let numbered = (first..).zip(cuts.iter().zip(tos));
    let pieces = numbered.map(|(slice, (from, to))| Piece {
        slice,
        hash_from: *from,
        hash_to: to,
    });
    Ok(pieces.collect())
}

fn at_work(layout: &Layout, id: &MoveId, phases: &[RecutPhase]) -> Result<Recut, Refused> {
    let recut = layout.recut.as_ref();
    recut
        .filter(|recut| recut.recut_id == *id && phases.contains(&recut.phase))
        .cloned()
        .ok_or(Refused::NotCutting)
}

/// The children take the parents' place: the point of no return.
pub fn commit(layout: &Layout, id: &MoveId) -> Changed {
    let recut = at_work(layout, id, &[RecutPhase::Sealing])?;
    let mut then = layout.clone();
    then.parts
        .retain(|part| !recut.parents.contains(&part.slice));
    then.parts.extend(recut.children.iter().map(|child| Part {
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

/// It is not to be: the parents go on at a newer epoch, so that a seal or a cut
/// that comes late finds nothing to do.
pub fn abort(layout: &Layout, id: &MoveId) -> Changed {
    let recut = at_work(layout, id, &[RecutPhase::Sealing])?;
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

/// The cut is over.
pub fn release(layout: &Layout, id: &MoveId) -> Changed {
    at_work(layout, id, &[RecutPhase::Cut, RecutPhase::Aborting])?;
    Ok(Layout {
        recut: None,
        ..layout.clone()
    })
}

/// What is seen of a cut. Each part may be of another moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The tenant's record.
    pub layout: Layout,
    /// What the shard remembers of the parents, in their order.
    pub parents: Vec<Option<Fence>>,
    /// What it remembers of the children, in their order.
    pub children: Vec<Option<Fence>>,
    /// Whether it is to be called off, if it still can be.
    pub give_up: bool,
}

/// What the shard is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// Take no more writes to a parent.
    Seal(u32, Epoch),
    /// Own a parent, at this newer epoch, as before.
    Reinstate(u32, Epoch),
    /// Hand the parents' polls to the children.
    Recut,
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Change the record from what was seen to this, by compare-and-swap.
    Swap(Box<Layout>),
    /// Tell the shard.
    Order(Op),
    /// The cut is over.
    Over,
}

/// The next thing to do for a cut.
#[must_use]
pub fn next(id: &MoveId, view: &View) -> Step {
    let layout = &view.layout;
    let Some(recut) = layout.recut.as_ref().filter(|it| it.recut_id == *id) else {
        return Step::Over;
    };
    let parents = || recut.parents.iter().zip(&view.parents);
    match recut.phase {
        RecutPhase::Sealing => {
            if view.give_up {
                return swap(abort(layout, id));
            }
            for (slice, fence) in parents() {
                if !fence.as_ref().is_some_and(|it| is_sealed(it, recut)) {
                    return Step::Order(Op::Seal(*slice, recut.epoch));
                }
            }
            swap(commit(layout, id))
        }
        RecutPhase::Cut => {
            let knows = |fence: &Option<Fence>| {
                let fence = fence.as_ref();
                fence.is_some_and(|fence| fence.epoch >= recut.epoch)
            };
            match view.children.iter().all(knows) {
                true => swap(release(layout, id)),
                false => Step::Order(Op::Recut),
            }
        }
        RecutPhase::Aborting => {
            for (slice, fence) in parents() {
                let epoch = layout.part(*slice).map_or(recut.epoch, |part| part.epoch);
                let owns = |it: &Fence| it.holding == Holding::Owner && it.epoch >= epoch;
                if !fence.as_ref().is_some_and(owns) {
                    return Step::Order(Op::Reinstate(*slice, epoch));
                }
            }
            swap(release(layout, id))
        }
    }
}

fn is_sealed(fence: &Fence, recut: &Recut) -> bool {
    fence.holding == Holding::Sealed
        && fence.epoch == recut.epoch
        && fence.move_id.as_ref() == Some(&recut.recut_id)
}

fn swap(changed: Changed) -> Step {
    // The phase was looked at before, so it is never refused.
    changed.map_or(Step::Over, |layout| Step::Swap(Box::new(layout)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> MoveId {
        MoveId(name.to_owned())
    }

    fn whole() -> Layout {
        Layout {
            parts: vec![Part {
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

    /// Cuts until there are so many slices.
    fn sliced(mut layout: Layout, into: u32) -> (Layout, usize) {
        let mut cuts = 0;
        while let Some((parents, at)) = wanted(&layout, into) {
            let claimed = claim(&layout, &id("c"), &parents, &at).unwrap();
            let cut = commit(&claimed, &id("c")).unwrap();
            layout = release(&cut, &id("c")).unwrap();
            cuts += 1;
        }
        (layout, cuts)
    }

    #[test]
    fn a_tenant_comes_to_any_number_of_slices_and_back() {
        let (four, cuts) = sliced(whole(), 4);
        assert_eq!(cuts, 1, "at once");
        let numbers: Vec<u32> = four.parts.iter().map(|part| part.slice).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert!(four.parts.iter().all(|part| part.epoch == Epoch(8)));
        let (sixteen, cuts) = sliced(four, 16);
        assert_eq!((sixteen.parts.len(), cuts), (16, 4));
        let (two, cuts) = sliced(sixteen, 2);
        assert_eq!((two.parts.len(), cuts), (2, 2));
        let (one, _) = sliced(two, 1);
        assert_eq!(one.parts.len(), 1);
        assert_eq!(one.range(0), HashRange::WHOLE);
        assert_eq!(one.next_slice, one.parts[0].slice + 1);
    }

    #[test]
    fn what_is_half_done_is_finished() {
        let (two, _) = sliced(whole(), 2);
        let (parents, cuts) = wanted(&two, 4).unwrap();
        let claimed = claim(&two, &id("c"), &parents, &cuts).unwrap();
        let cut = commit(&claimed, &id("c")).unwrap();
        let three = release(&cut, &id("c")).unwrap();
        assert_eq!(three.parts.len(), 3);
        let (parents, _) = wanted(&three, 4).unwrap();
        assert_eq!(parents, [2], "the one that is still whole");
        assert_eq!(sliced(three.clone(), 4).0.parts.len(), 4);
        assert_eq!(sliced(three, 1).0.parts.len(), 1);
    }

    #[test]
    fn an_epoch_is_above_everything_that_was_spent() {
        let (two, _) = sliced(whole(), 2);
        let mut later = two.clone();
        later.parts[1].spent = Epoch(20);
        let claimed = claim(&later, &id("c"), &[1, 2], &[0]).unwrap();
        let cut = claimed.recut.clone().unwrap();
        assert_eq!(cut.epoch, Epoch(21));
        let aborted = abort(&claimed, &id("c")).unwrap();
        let epochs = aborted.parts.iter().map(|part| (part.epoch, part.spent));
        assert!(epochs.into_iter().all(|it| it == (Epoch(22), Epoch(22))));
        // One of the two happens, not both.
        assert_eq!(commit(&aborted, &id("c")), Err(Refused::NotCutting));
        let committed = commit(&claimed, &id("c")).unwrap();
        assert_eq!(abort(&committed, &id("c")), Err(Refused::NotCutting));
        // And its numbers are not given again.
        let again = release(&aborted, &id("c")).unwrap();
        let again = claim(&again, &id("d"), &[1, 2], &[0]).unwrap();
        let number = again.recut.unwrap().children[0].slice;
        assert!(number > cut.children[0].slice);
    }

    #[test]
    fn what_is_busy_or_apart_is_not_cut() {
        let (two, _) = sliced(whole(), 2);
        let mut moving = two.clone();
        moving.parts[1].moving = Some(id("m"));
        let (slice, by) = (2, id("m"));
        let busy = claim(&moving, &id("c"), &[1, 2], &[0]);
        assert_eq!(busy, Err(Refused::Moving { slice, id: by }));
        assert!(
            claim(&moving, &id("c"), &[1], &[0]).is_ok(),
            "the other one"
        );
        let mut apart = two.clone();
        apart.parts[1].owner = "shard-2".parse().unwrap();
        assert_eq!(claim(&apart, &id("c"), &[1, 2], &[0]), Err(Refused::Apart));
        let claimed = claim(&two, &id("c"), &[1], &[0]).unwrap();
        let second = claim(&claimed, &id("d"), &[2], &[two.parts[1].hash_from]);
        assert_eq!(second, Err(Refused::Cutting(id("c"))));
        for (parents, cuts) in [
            (vec![2, 1], vec![0]),
            (vec![], vec![0]),
            (vec![1], vec![]),
            (vec![1], vec![1]),
            (vec![1], vec![0, u64::MAX]),
            (vec![1], vec![0, 9, 9]),
        ] {
            let refused = claim(&two, &id("c"), &parents, &cuts);
            assert_eq!(refused, Err(Refused::Ranges), "{parents:?} {cuts:?}");
        }
        assert_eq!(claim(&two, &id("c"), &[9], &[0]), Err(Refused::NoSlice(9)));
    }
}
