//! Slices become others, in one record of the log: before it the parents are
//! sealed, after it the children take votes, and there is nothing in between.

use ballast_domain::Timestamp;
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;

use super::slices::heeded;
use super::{Answer, Core};
use crate::embedded::record::{Record, RecutRecord, SliceRecord};
use crate::shard::{Cut, Fence, Holding, Order, ShardResult, SliceKey, Unfit};

impl Core {
    /// Cuts slices anew.
    pub(in crate::embedded) fn recut(
        &mut self,
        order: &Order,
        cut: &Cut,
        clock: Timestamp,
    ) -> ShardResult<Answer<()>> {
        self.check()?;
        let order = &heeded(order);
        if self.is_cut(cut) {
            return Ok(self.after_all(()));
        }
        let record = self.cut_record(order, cut)?;
        let parents: Vec<SliceId> = record.parents.iter().map(|it| it.slice.clone()).collect();
        let polls = self.state.polls_of(&parents);
        let now = self.now(clock);
        self.write(now, &Record::Recut(Box::new(record)));
        // Live views know a poll by its slice, so all of them are told anew.
        for number in polls {
            self.counted(number);
        }
        Ok(self.after(self.open.sequence, ()))
    }

    /// Whether it was cut so before: what became of the children since does not
    /// matter.
    fn is_cut(&self, cut: &Cut) -> bool {
        let fence = |slice| self.state.slices.get(&cut.slice(slice)).map(|it| &it.fence);
        let gone = cut.parents.iter().all(|slice| {
            fence(*slice).is_some_and(|it| it.holding == Holding::Gone && it.epoch >= cut.epoch)
        });
        let mut children = cut.children.iter();
        gone && children.all(|it| fence(it.slice).is_some_and(|it| it.epoch >= cut.epoch))
    }

    /// All slices as they are afterwards, or why they cannot be.
    fn cut_record(&self, order: &Order, cut: &Cut) -> ShardResult<RecutRecord> {
        let (mut parents, mut ranges) = (Vec::new(), Vec::<HashRange>::new());
        let mut key: Option<SliceKey> = None;
        for slice in &cut.parents {
            let slice = cut.slice(*slice);
            let known = self.held(&slice)?;
            let fence = known.fence.cut(cut.epoch, order)?;
            if *key.get_or_insert(known.key) != known.key {
                return Err(Unfit::Cut("their keys differ, so they were never one").into());
            }
            ranges.push(known.range);
            parents.push(SliceRecord {
                slice,
                fence,
                key: known.key,
                range: known.range,
            });
        }
        let key = key.ok_or(Unfit::Cut("there is nothing to cut"))?;
        if !cut.fits(&ranges) {
            return Err(Unfit::Cut("the ranges do not fit").into());
        }
        let known = |slice| self.state.slices.contains_key(&cut.slice(slice));
        if cut.children.iter().any(|child| known(child.slice)) {
            return Err(Unfit::Cut("a number is given again").into());
        }
        let children = cut.children.iter().map(|child| SliceRecord {
            slice: cut.slice(child.slice),
            fence: Fence::part(cut.epoch, order),
            key,
            range: child.range(),
        });
        Ok(RecutRecord {
            children: children.collect(),
            parents,
        })
    }
}
