//! A poll in memory: what it is, who voted, and how the counts stand.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use ballast_domain::ItemId;
use ballast_domain::Timestamp;
use ballast_domain::poll::{Poll, RequestId};
use ballast_domain::tenant::SliceId;

use super::lanes::Lanes;
use super::sums::Share;
use super::voters::{Row, Seen, Voters};
use crate::embedded::record::{Counters, PollNo, VoteRecord};
use crate::shard::{
    ArchiveFile, Archived, Digest, Hash, PollRow, SliceKey, Tally, Version, VoterPrint,
};

#[derive(Debug)]
pub(in crate::embedded) struct PollState {
    pub(in crate::embedded) number: PollNo,
    pub(in crate::embedded) slice: SliceId,
    pub(in crate::embedded) key: SliceKey,
    pub(in crate::embedded) poll: Arc<Poll>,
    pub(in crate::embedded) version: Version,
    pub(in crate::embedded) carried: Vec<u64>,
    pub(in crate::embedded) imports: Vec<RequestId>,
    pub(in crate::embedded) lanes: Lanes,
    pub(in crate::embedded) voters: Voters,
    /// Its rows are only on disk: it is closed, and they do not change.
    pub(in crate::embedded) cold: bool,
    /// The file that holds its rows: then it has none here.
    pub(in crate::embedded) archive: Option<Arc<ArchiveFile>>,
    /// Voters whose row holds at least one item.
    pub(in crate::embedded) voting: u64,
    /// Of the voters' rows.
    pub(in crate::embedded) digest: Digest,
    /// The hash of its own row, once that was needed.
    own: OnceCell<Hash>,
    /// What of it is in its slice's sum.
    pub(super) share: Share,
    /// The last group that changed it.
    pub(in crate::embedded) changed_in: u64,
    /// The last group that noted that its counts change.
    pub(in crate::embedded) counted_in: u64,
    items: HashMap<ItemId, u16, BuildHasherDefault<Number>>,
}

impl PollState {
    pub(in crate::embedded) fn new(
        number: PollNo,
        slice: SliceId,
        key: SliceKey,
        row: PollRow,
    ) -> Self {
        let poll = Arc::new(row.poll);
        let items = poll.item_ids().zip(0..).collect();
        let count = poll.spec.items.len();
        let mut state = Self {
            number,
            slice,
            key,
            version: row.version,
            carried: vec![0; count],
            imports: row.imports,
            lanes: Lanes::new(count, poll.spec.options.lanes),
            voters: Voters::new(poll.created_at),
            cold: false,
            archive: None,
            voting: 0,
            digest: Digest::default(),
            own: OnceCell::new(),
            share: Share::default(),
            changed_in: 0,
            counted_in: 0,
            items,
            poll,
        };
        state.carry(row.carried);
        state.archive(row.archived);
        state
    }

    /// The poll itself was changed. What is no longer needed is returned.
    pub(super) fn change(&mut self, row: PollRow) -> Option<Voters> {
        self.own = OnceCell::new();
        self.lanes.spread_over(row.poll.spec.options.lanes);
        self.poll = Arc::new(row.poll);
        self.version = row.version;
        self.imports = row.imports;
        self.carry(row.carried);
        self.archive(row.archived)
    }

    /// A file took the place of the rows: they are no part of the digest any
    /// more, since the poll's own row names the file. The counts stay.
    fn archive(&mut self, archived: Option<Box<Archived>>) -> Option<Voters> {
        let Archived {
            file,
            voting,
            lanes,
        } = *archived?;
        self.set_counters(&Counters {
            voting,
            digest: Digest::default(),
            lanes,
        });
        self.archive = Some(Arc::new(file));
        Some(self.forget_rows())
    }

    /// Where the rows are, and the counts.
    pub(in crate::embedded) fn archived(&self) -> Option<Box<Archived>> {
        let archived = self.archive.as_deref().map(|file| Archived {
            file: file.clone(),
            voting: self.voting,
            lanes: self.lanes.by_item(),
        });
        archived.map(Box::new)
    }

    fn carry(&mut self, carried: Vec<u64>) {
        for (item, votes) in carried.into_iter().enumerate().take(self.carried.len()) {
            let more = votes.saturating_sub(self.carried[item]);
            self.lanes.carry(item, more);
            self.carried[item] += more;
        }
    }

    /// The place of an item.
    pub(in crate::embedded) fn item(&self, id: ItemId) -> Option<u16> {
        self.items.get(&id).copied()
    }

    pub(in crate::embedded) fn seen(&self, print: &VoterPrint) -> Option<Seen<'_>> {
        self.voters.get(print)
    }

    /// A voter's first vote was counted.
    pub(in crate::embedded) fn first_vote(&mut self, print: VoterPrint, vote: &VoteRecord<'_>) {
        let version = Version {
            epoch: vote.epoch,
            revision: 1,
        };
        self.voting += 1;
        self.lanes.add(vote.item, print);
        let hash = self
            .key
            .row(self.poll.poll_id, print, &[vote.item], version);
        self.digest.add(hash);
        self.voters
            .put_first(print, vote.item, vote.request, vote.epoch, vote.at);
    }

    /// A row takes the place of the one that is there.
    pub(in crate::embedded) fn replace(&mut self, print: VoterPrint, row: Row) {
        let poll_id = self.poll.poll_id;
        if let Some(old) = self.voters.get(&print) {
            self.voting -= u64::from(!old.items().is_empty());
            for item in old.items() {
                self.lanes.subtract(*item, print);
            }
            let hash = self.key.row(poll_id, print, old.items(), old.version());
            self.digest.subtract(hash);
        }
        let items = row.items.as_slice();
        self.voting += u64::from(!items.is_empty());
        for item in items {
            self.lanes.add(*item, print);
        }
        let hash = self.key.row(poll_id, print, items, row.version);
        self.digest.add(hash);
        self.voters.put(print, row);
    }

    /// A fault: the votes are counted, and nobody knows whose they were.
    pub(in crate::embedded) fn forget_voters(&mut self) {
        self.voters = Voters::new(self.poll.created_at);
    }

    /// Drops the rows from memory; whoever calls gives it back.
    pub(super) fn forget_rows(&mut self) -> Voters {
        self.cold = true;
        let none = Voters::new(self.poll.created_at);
        std::mem::replace(&mut self.voters, none)
    }

    pub(in crate::embedded) fn counters(&self) -> Counters {
        Counters {
            voting: self.voting,
            digest: self.digest,
            lanes: self.lanes.by_item(),
        }
    }

    pub(in crate::embedded) fn set_counters(&mut self, counters: &Counters) {
        // The row of a poll whose votes are in a file says how they stand.
        self.own = OnceCell::new();
        self.voting = counters.voting;
        self.digest = counters.digest;
        self.lanes = Lanes::from_saved(self.poll.spec.options.lanes, &counters.lanes);
    }

    /// The poll for those who copy it when the lock is free again.
    pub(in crate::embedded) fn shared(&self) -> SharedPoll {
        SharedPoll {
            number: self.number,
            poll: self.poll.clone(),
            version: self.version,
            carried: self.carried.clone(),
            imports: self.imports.clone(),
            archived: self.archived(),
        }
    }

    pub(in crate::embedded) fn row(&self) -> PollRow {
        PollRow {
            poll: Poll::clone(&self.poll),
            version: self.version,
            carried: self.carried.clone(),
            imports: self.imports.clone(),
            archived: self.archived(),
        }
    }

    pub(in crate::embedded) fn tally(&self, mark: u64) -> Tally {
        Tally {
            slice: self.slice.clone(),
            poll: self.poll.poll_id,
            counts: self.lanes.totals().to_vec(),
            voters: self.voting,
            closed_at: self.poll.closed_at,
            mark,
        }
    }

    /// The digest of the poll and its rows.
    pub(in crate::embedded) fn full_digest(&self) -> Digest {
        let own = self.own.get_or_init(|| self.key.poll(&self.row()));
        let mut digest = self.digest;
        digest.add(*own);
        digest
    }

    /// When it is to be closed, if it is open.
    pub(in crate::embedded) fn expires(&self) -> Option<Timestamp> {
        let open = self.poll.closed_at.is_none();
        open.then_some(self.poll.spec.expiration_time)
    }
}

/// A poll as it was, not copied yet.
pub(in crate::embedded) struct SharedPoll {
    pub(in crate::embedded) number: PollNo,
    poll: Arc<Poll>,
    version: Version,
    carried: Vec<u64>,
    imports: Vec<RequestId>,
    archived: Option<Box<Archived>>,
}

impl From<SharedPoll> for PollRow {
    fn from(shared: SharedPoll) -> Self {
        Self {
            poll: Poll::clone(&shared.poll),
            version: shared.version,
            carried: shared.carried,
            imports: shared.imports,
            archived: shared.archived,
        }
    }
}

/// Ids that are hashes already.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::embedded) struct Number(u64);

impl Hasher for Number {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    /// Numbers that were counted up: spread over all bits.
    fn write_u32(&mut self, number: u32) {
        self.0 = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u128(&mut self, number: u128) {
        self.0 = number as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}
