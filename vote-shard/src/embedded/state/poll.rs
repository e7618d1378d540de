//! A poll in memory: its definition, its voters and its counts.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use ballast_domain::ItemId;
use ballast_domain::Timestamp;
use ballast_domain::poll::{Poll, RequestId};
use ballast_domain::tenant::SliceId;

use super::lanes::Lanes;
use super::sums::SumShare;
use super::voters::{RowData, VoterTable, VoterView};
use crate::embedded::record::{Counters, PollNo, VoteRecord};
use crate::shard::{
    ArchiveFile, ArchivedRows, Digest, PollRow, RowHash, RowVersion, SliceKey, Tally, VoterPrint,
};

#[derive(Debug)]
pub(in crate::embedded) struct PollState {
    pub(in crate::embedded) number: PollNo,
    pub(in crate::embedded) slice: SliceId,
    pub(in crate::embedded) key: SliceKey,
    pub(in crate::embedded) poll: Arc<Poll>,
    pub(in crate::embedded) version: RowVersion,
    pub(in crate::embedded) carried: Vec<u64>,
    pub(in crate::embedded) imports: Vec<RequestId>,
    pub(in crate::embedded) lanes: Lanes,
    pub(in crate::embedded) voters: VoterTable,
    /// Whether its rows are only on disk: it is closed, and they do not change.
    pub(in crate::embedded) cold: bool,
    /// The file with its rows, if archived.
    pub(in crate::embedded) archive: Option<Arc<ArchiveFile>>,
    /// Voters with at least one chosen item.
    pub(in crate::embedded) voting: u64,
    /// Digest of the voters' rows.
    pub(in crate::embedded) digest: Digest,
    /// Hash of its own row, computed on demand.
    own: OnceCell<RowHash>,
    /// Its share in the slice's sum.
    pub(super) share: SumShare,
    /// The last group that changed it.
    pub(in crate::embedded) changed_in: u64,
    /// The last group that recorded a change of its counts.
    pub(in crate::embedded) counted_in: u64,
    items: HashMap<ItemId, u16, BuildHasherDefault<IdHasher>>,
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
            voters: VoterTable::new(poll.created_at),
            cold: false,
            archive: None,
            voting: 0,
            digest: Digest::default(),
            own: OnceCell::new(),
            share: SumShare::default(),
            changed_in: 0,
            counted_in: 0,
            items,
            poll,
        };
        state.import_counts(row.carried);
        state.archive(row.archived);
        state
    }

    /// Changes the poll. Returns rows that are no longer needed.
    pub(super) fn change(&mut self, row: PollRow) -> Option<VoterTable> {
        self.own = OnceCell::new();
        self.lanes.spread_over(row.poll.spec.options.lanes);
        self.poll = Arc::new(row.poll);
        self.version = row.version;
        self.imports = row.imports;
        self.import_counts(row.carried);
        self.archive(row.archived)
    }

    /// Replaces the rows by a file. The digest no longer covers them, since the
    /// poll's own row names the file. The counts stay.
    fn archive(&mut self, archived: Option<Box<ArchivedRows>>) -> Option<VoterTable> {
        let ArchivedRows {
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
        Some(self.take_rows())
    }

    /// The file and the counts, if archived.
    pub(in crate::embedded) fn archived(&self) -> Option<Box<ArchivedRows>> {
        let archived = self.archive.as_deref().map(|file| ArchivedRows {
            file: file.clone(),
            voting: self.voting,
            lanes: self.lanes.by_item(),
        });
        archived.map(Box::new)
    }

    fn import_counts(&mut self, carried: Vec<u64>) {
        for (item, votes) in carried.into_iter().enumerate().take(self.carried.len()) {
            let more = votes.saturating_sub(self.carried[item]);
            self.lanes.add_sum(item, more);
            self.carried[item] += more;
        }
    }

    /// Returns an item's index.
    pub(in crate::embedded) fn item(&self, id: ItemId) -> Option<u16> {
        self.items.get(&id).copied()
    }

    pub(in crate::embedded) fn voter_view(&self, print: &VoterPrint) -> Option<VoterView<'_>> {
        self.voters.get(print)
    }

    /// Counts a voter's first vote.
    pub(in crate::embedded) fn first_vote(&mut self, print: VoterPrint, vote: &VoteRecord<'_>) {
        let version = RowVersion {
            epoch: vote.epoch,
            revision: 1,
        };
        self.voting += 1;
        self.lanes.add(vote.item, print);
        let hash = self
            .key
            .hash_row(self.poll.poll_id, print, &[vote.item], version);
        self.digest.add(hash);
        self.voters
            .insert_first(print, vote.item, vote.request, vote.epoch, vote.at);
    }

    /// Inserts or replaces a voter's row.
    pub(in crate::embedded) fn replace(&mut self, print: VoterPrint, row: RowData) {
        let poll_id = self.poll.poll_id;
        if let Some(old) = self.voters.get(&print) {
            self.voting -= u64::from(!old.items().is_empty());
            for item in old.items() {
                self.lanes.subtract(*item, print);
            }
            let hash = self
                .key
                .hash_row(poll_id, print, old.items(), old.version());
            self.digest.subtract(hash);
        }
        let items = row.items.as_slice();
        self.voting += u64::from(!items.is_empty());
        for item in items {
            self.lanes.add(*item, print);
        }
        let hash = self.key.hash_row(poll_id, print, items, row.version);
        self.digest.add(hash);
        self.voters.insert_row(print, row);
    }

    /// Planted fault: forgets who voted, but keeps the counts.
    pub(in crate::embedded) fn forget_voters(&mut self) {
        self.voters = VoterTable::new(self.poll.created_at);
    }

    /// Removes the rows from memory; the caller frees them.
    pub(super) fn take_rows(&mut self) -> VoterTable {
        self.cold = true;
        let none = VoterTable::new(self.poll.created_at);
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
        // An archived poll's own row contains its counts.
        self.own = OnceCell::new();
        self.voting = counters.voting;
        self.digest = counters.digest;
        self.lanes = Lanes::from_saved(self.poll.spec.options.lanes, &counters.lanes);
    }

    /// Returns a cheap handle, to copy the poll outside of the lock.
    pub(in crate::embedded) fn handle(&self) -> PollHandle {
        PollHandle {
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

    /// Digest of the poll and its rows.
    pub(in crate::embedded) fn full_digest(&self) -> Digest {
        let own = self.own.get_or_init(|| self.key.hash_poll(&self.row()));
        let mut digest = self.digest;
        digest.add(*own);
        digest
    }

    /// Its expiry, if it is open.
    pub(in crate::embedded) fn expires(&self) -> Option<Timestamp> {
        let open = self.poll.closed_at.is_none();
        open.then_some(self.poll.spec.expiration_time)
    }
}

/// A poll at some moment, not copied yet.
pub(in crate::embedded) struct PollHandle {
    pub(in crate::embedded) number: PollNo,
    poll: Arc<Poll>,
    version: RowVersion,
    carried: Vec<u64>,
    imports: Vec<RequestId>,
    archived: Option<Box<ArchivedRows>>,
}

impl From<PollHandle> for PollRow {
    fn from(shared: PollHandle) -> Self {
        Self {
            poll: Poll::clone(&shared.poll),
            version: shared.version,
            carried: shared.carried,
            imports: shared.imports,
            archived: shared.archived,
        }
    }
}

/// Hasher for ids that are already uniform.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::embedded) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    /// Sequential numbers: spread over all bits.
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
