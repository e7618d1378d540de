//! Splits and merges slices in one record of the log: before it the parents are
//! sealed, after it the children accept votes, with no state in between.

use ballast_domain::Timestamp;
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;

use super::slices::effective_token;
use super::{Core, PendingAnswer};
use crate::embedded::record::{Record, RecutRecord, SliceRecord};
use crate::shard::{
    Fence, Holding, MigrationToken, RecutSpec, ShardResult, SliceKey, SliceStateError,
};

impl Core {
    /// Replaces the parents by the children.
    pub(in crate::embedded) fn recut(
        &mut self,
        token: &MigrationToken,
        cut: &RecutSpec,
        clock: Timestamp,
    ) -> ShardResult<PendingAnswer<()>> {
        self.check()?;
        let token = &effective_token(token);
        if self.is_cut(cut) {
            return Ok(self.answer_after_all(()));
        }
        let record = self.cut_record(token, cut)?;
        let parents: Vec<SliceId> = record.parents.iter().map(|it| it.slice.clone()).collect();
        let polls = self.state.polls_in(&parents);
        let now = self.now(clock);
        self.write(now, &Record::Recut(Box::new(record)));
        // Live views identify a poll by its slice: publish all of them again.
        for number in polls {
            self.mark_counts_changed(number);
        }
        Ok(self.answer_after(self.open.sequence, ()))
    }

    /// Whether this recut was done before, whatever happened to the children
    /// since.
    fn is_cut(&self, cut: &RecutSpec) -> bool {
        let fence = |slice| self.state.slices.get(&cut.slice(slice)).map(|it| &it.fence);
        let gone = cut.parents.iter().all(|slice| {
            fence(*slice).is_some_and(|it| it.holding == Holding::Gone && it.epoch >= cut.epoch)
        });
        let mut children = cut.children.iter();
        gone && children.all(|it| fence(it.slice).is_some_and(|it| it.epoch >= cut.epoch))
    }

    /// Builds the record with all slices after the recut, or says why it is not
    /// allowed.
    fn cut_record(&self, token: &MigrationToken, cut: &RecutSpec) -> ShardResult<RecutRecord> {
        let (mut parents, mut ranges) = (Vec::new(), Vec::<HashRange>::new());
        let mut key: Option<SliceKey> = None;
        for slice in &cut.parents {
            let slice = cut.slice(*slice);
            let known = self.require_slice(&slice)?;
            let fence = known.fence.recut(cut.epoch, token)?;
            if *key.get_or_insert(known.key) != known.key {
                return Err(
                    SliceStateError::InvalidRecut("the parents have different keys").into(),
                );
            }
            ranges.push(known.range);
            parents.push(SliceRecord {
                slice,
                fence,
                key: known.key,
                range: known.range,
            });
        }
        let key = key.ok_or(SliceStateError::InvalidRecut("there are no parents"))?;
        if !cut.covers_exactly(&ranges) {
            return Err(SliceStateError::InvalidRecut(
                "the children do not cover the parents' ranges",
            )
            .into());
        }
        let known = |slice| self.state.slices.contains_key(&cut.slice(slice));
        if cut.children.iter().any(|child| known(child.slice)) {
            return Err(SliceStateError::InvalidRecut("a child's number is already in use").into());
        }
        let children = cut.children.iter().map(|child| SliceRecord {
            slice: cut.slice(child.slice),
            fence: Fence::new_child_owner(cut.epoch, token),
            key,
            range: child.range(),
        });
        Ok(RecutRecord {
            children: children.collect(),
            parents,
        })
    }
}
