//! Splitting and merging slices on the shard that holds them.

use ballast_domain::TenantId;
use ballast_domain::slicing::{ChildSlice, HashRange};
use ballast_domain::tenant::{Epoch, SliceId};

/// What to cut: the parents end, the children replace them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecutSpec {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The epoch at which the parents are sealed and the children start.
    pub epoch: Epoch,
    /// Slices that end.
    pub parents: Vec<u32>,
    /// Slices that replace them.
    pub children: Vec<ChildSlice>,
}

impl RecutSpec {
    /// A slice of the tenant, by number.
    #[must_use]
    pub fn slice(&self, slice: u32) -> SliceId {
        SliceId {
            tenant_id: self.tenant_id.clone(),
            slice,
        }
    }

    /// Whether the children cover exactly the parents' ranges.
    #[must_use]
    pub fn covers_exactly(&self, parents: &[HashRange]) -> bool {
        let children: Vec<HashRange> = self.children.iter().map(ChildSlice::range).collect();
        match (join_ranges(parents), join_ranges(&children)) {
            (Some(before), Some(after)) => before == after,
            _ => false,
        }
    }
}

/// Joins adjacent ranges; `None` if there is a gap or an overlap.
fn join_ranges(ranges: &[HashRange]) -> Option<HashRange> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    let (first, last) = (ranges.first()?, ranges.last()?);
    let whole = ranges.iter().all(|range| range.from <= range.to);
    let mut pairs = ranges.windows(2);
    let are_adjacent = pairs.all(|two| two[0].to.checked_add(1) == Some(two[1].from));
    (whole && are_adjacent).then_some(HashRange {
        from: first.from,
        to: last.to,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u64, to: u64) -> HashRange {
        HashRange { from, to }
    }

    #[test]
    fn only_ranges_beside_each_other_are_joined() {
        let all = Some(HashRange::WHOLE);
        assert_eq!(join_ranges(&[HashRange::WHOLE]), all);
        assert_eq!(join_ranges(&[range(8, u64::MAX), range(0, 7)]), all);
        assert_eq!(join_ranges(&[range(0, 6), range(8, 9)]), None, "a gap");
        assert_eq!(join_ranges(&[range(0, 7), range(7, 9)]), None, "twice");
        assert_eq!(join_ranges(&[range(9, 8)]), None, "turned round");
        assert_eq!(join_ranges(&[]), None);
    }
}
