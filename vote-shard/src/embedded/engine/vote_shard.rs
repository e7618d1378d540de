//! [`VoteShard`] for the embedded engine.

use async_trait::async_trait;
use ballast_domain::poll::{Ballot, BallotOutcome, BallotRefusal, Poll, RequestId};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, TenantId, VoterId};

use crate::embedded::core::{Core, VoterLookup};
use crate::embedded::engine::{EmbeddedShard, wrap_refusal};
use crate::embedded::export;
use crate::shard::{
    ArchiveFile, Cursor, Digest, ExportPage, ExportedRow, Fence, FencedSlice, MigrationToken,
    PollRow, RecutSpec, ShardResult, ShardUsage, SliceDigest, SliceKey, Tally, VoteShard, VoterRow,
};

/// Rows imported under one lock. Each is decided, hashed and counted on a
/// worker thread that also serves voters: about 1.5 µs.
const IMPORT_BATCH_ROWS: usize = 256;

/// Polls added to a slice's digest under one lock. After a start there can be
/// very many, and votes wait for the lock.
const DIGEST_BATCH_POLLS: usize = 512;

/// Sorts before all polls.
const FIRST: PollId = PollId::from_number(0);

#[async_trait]
impl VoteShard for EmbeddedShard {
    async fn create_poll(&self, fenced: &FencedSlice, poll: Poll) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.create_poll(fenced, poll, now))
            .await
    }

    async fn poll(&self, slice: &SliceId, poll: PollId) -> ShardResult<Poll> {
        self.read(|core| core.poll(slice, poll)).await
    }

    async fn polls(
        &self,
        slice: &SliceId,
        after: Option<PollId>,
        most: usize,
    ) -> ShardResult<Vec<Poll>> {
        self.read(|core| core.polls(slice, after, most)).await
    }

    async fn awaited_polls(&self, least: u64, most: usize) -> ShardResult<Vec<(SliceId, Poll)>> {
        self.read(|core| core.awaited_polls(least, most)).await
    }

    async fn close_poll(&self, fenced: &FencedSlice, poll: PollId) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.close_poll(fenced, poll, now)).await
    }

    async fn widen_lanes(
        &self,
        fenced: &FencedSlice,
        poll: PollId,
        lanes: u16,
    ) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.widen_lanes(fenced, poll, lanes, now))
            .await
    }

    async fn narrow_lanes(
        &self,
        fenced: &FencedSlice,
        poll: PollId,
        lanes: u16,
    ) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.narrow_lanes(fenced, poll, lanes, now))
            .await
    }

    async fn import_counts(
        &self,
        fenced: &FencedSlice,
        poll: PollId,
        request: RequestId,
        votes: &[u64],
    ) -> ShardResult<Tally> {
        let now = self.now();
        self.decide(|core| core.import_counts(fenced, poll, request, votes, now))
            .await
    }

    async fn archive_poll(
        &self,
        fenced: &FencedSlice,
        poll: PollId,
        file: ArchiveFile,
    ) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.archive_poll(fenced, poll, file, now))
            .await
    }

    async fn archive(&self, slice: &SliceId, poll: PollId) -> ShardResult<Option<ArchiveFile>> {
        self.read(|core| core.archive(slice, poll)).await
    }

    async fn find_archive(
        &self,
        tenant: &TenantId,
        poll: PollId,
    ) -> ShardResult<Option<ArchiveFile>> {
        self.read(|core| core.find_archive(tenant, poll)).await
    }

    async fn archives(&self, slice: &SliceId) -> ShardResult<Vec<PollRow>> {
        self.read(|core| core.archives(slice)).await
    }

    async fn cast(
        &self,
        fenced: &FencedSlice,
        ballots: &[Ballot],
    ) -> ShardResult<Vec<BallotOutcome>> {
        let now = self.now();
        self.shared.throttle.record_vote_call();
        let cast = self.decide(|core| core.cast(fenced, ballots, now)).await?;
        if cast.cold_ballots.is_empty() {
            return Ok(cast.outcomes);
        }
        self.judge_cold_ballots(fenced, ballots, cast).await
    }

    async fn tally(&self, slice: &SliceId, poll: PollId) -> ShardResult<Tally> {
        let (number, tally) = self.read(|core| core.numbered_tally(slice, poll)).await?;
        // The read count may include a part of the open group. The published
        // count consists of whole groups and is at least as new as any
        // acknowledged one.
        Ok(self.shared.published.get(number).unwrap_or(tally))
    }

    async fn lanes(&self, slice: &SliceId, poll: PollId) -> ShardResult<Vec<Vec<u64>>> {
        self.read(|core| core.lanes(slice, poll)).await
    }

    async fn voter(
        &self,
        slice: &SliceId,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>> {
        match self.read(|core| core.voter(slice, poll, voter)).await? {
            VoterLookup::InMemory(row) => Ok(row),
            VoterLookup::OnDisk(key) => {
                let store = self.shared.store();
                let row = self.read_stored(move || store.runs().get(key)).await?;
                if row.is_none() && self.is_archived(slice, poll).await? {
                    return Err(BallotRefusal::Archived.into());
                }
                Ok(row.map(|row| export::row_from_stored(poll, row)))
            }
        }
    }

    async fn tallies_since(&self, seen: u64) -> ShardResult<(u64, Vec<Tally>)> {
        self.shared.lock().check()?;
        Ok(self.shared.published.since(seen).await)
    }

    fn commit_micros(&self) -> Option<u64> {
        self.shared.commit_micros()
    }

    async fn usage(&self) -> ShardUsage {
        let store = self.shared.store();
        let disk_bytes = self.run_blocking(move || Ok(store.disk_bytes())).await;
        let core = self.shared.lock();
        let files = core.state.polls.values();
        let files = files.filter_map(|poll| poll.archive.as_deref());
        let (polls_archived, archive_bytes) = files.fold((0, 0), |(files, bytes), file| {
            (files + 1, bytes + file.bytes)
        });
        ShardUsage {
            trouble: core.trouble.clone(),
            slices: core.state.owned_slices(),
            polls: core.state.polls.len() as u64,
            polls_archived,
            archive_bytes,
            voters_in_memory: core.state.voters,
            voters_in_memory_max: core.limits.voters_max,
            disk_bytes: disk_bytes.unwrap_or(0),
            commit_micros: self.shared.commit_micros(),
            stalls: self.shared.stalls(),
        }
    }

    async fn serves(&self, fenced: &FencedSlice) -> ShardResult<()> {
        self.read(|core| core.serves(fenced)).await
    }

    async fn adopt(&self, fenced: &FencedSlice) -> ShardResult<()> {
        let (now, key) = (self.now(), SliceKey::random(&*self.entropy));
        self.decide(|core| core.adopt(fenced, key, now)).await
    }

    async fn fence(&self, slice: &SliceId) -> ShardResult<Option<Fence>> {
        self.read(|core| core.fence(slice)).await
    }

    async fn prepare(
        &self,
        fenced: &FencedSlice,
        token: &MigrationToken,
        key: SliceKey,
        range: HashRange,
    ) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.prepare(fenced, token, (key, range), now))
            .await
    }

    async fn seal(&self, fenced: &FencedSlice, token: &MigrationToken) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.change_fence(Fence::seal, fenced, token, now))
            .await
    }

    async fn unseal(&self, fenced: &FencedSlice, token: &MigrationToken) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.change_fence(Fence::unseal, fenced, token, now))
            .await
    }

    async fn mark_ready(&self, fenced: &FencedSlice, token: &MigrationToken) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.change_fence(Fence::mark_ready, fenced, token, now))
            .await
    }

    async fn activate(&self, fenced: &FencedSlice, token: &MigrationToken) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.change_fence(Fence::activate, fenced, token, now))
            .await
    }

    async fn retire(&self, fenced: &FencedSlice, token: &MigrationToken) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.change_fence(Fence::retire, fenced, token, now))
            .await
    }

    async fn purge(
        &self,
        fenced: &FencedSlice,
        token: &MigrationToken,
        most: usize,
    ) -> ShardResult<usize> {
        let (now, key) = (self.now(), SliceKey::random(&*self.entropy));
        self.decide(|core| core.purge(fenced, token, most, key, now))
            .await
    }

    async fn recut(&self, token: &MigrationToken, cut: &RecutSpec) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.recut(token, cut, now)).await
    }

    async fn slice_key(&self, slice: &SliceId) -> ShardResult<SliceKey> {
        self.read(|core| core.slice_key(slice)).await
    }

    async fn slice_range(&self, slice: &SliceId) -> ShardResult<HashRange> {
        self.read(|core| core.slice_range(slice)).await
    }

    async fn export(
        &self,
        slice: &SliceId,
        cursor: &Cursor,
        bytes: usize,
    ) -> ShardResult<ExportPage> {
        let position = match cursor {
            Cursor::Start => self.export_position().await?,
            Cursor::Snapshot { position, .. } | Cursor::Changes { position } => *position,
        };
        let store = self.shared.store();
        // Read the position first: then the slice's list includes every poll up
        // to it.
        let until = store.log.durable();
        let subject = self.read(|core| core.subject(slice)).await?;
        match cursor.clone() {
            Cursor::Start => {
                let polls = self.polls_from(slice, FIRST, usize::MAX).await?.polls;
                let polls = polls.into_iter().map(|(_, row)| ExportedRow::Poll(row));
                Ok(ExportPage {
                    changes: polls.collect(),
                    next: Cursor::Snapshot {
                        position,
                        after: None,
                    },
                    caught_up: false,
                })
            }
            Cursor::Snapshot { after, .. } => {
                let first = after.map_or(FIRST, |(poll, _)| poll);
                let polls = self.polls_from(slice, first, export::POLLS_MAX).await?;
                let shared = self.shared.clone();
                let page = move || {
                    let task = shared.throttle.start_task();
                    export::rows_page(&subject, &polls, &store, position, after, bytes, task)
                };
                self.run_blocking(page).await
            }
            Cursor::Changes { .. } => {
                let page = move || export::changes_page(&subject, &store, position, until, bytes);
                self.run_blocking(page).await
            }
        }
    }

    async fn import(
        &self,
        slice: &SliceId,
        token: &MigrationToken,
        changes: &[ExportedRow],
    ) -> ShardResult<()> {
        // In batches: other votes wait for the lock and the disk.
        let mut task = self.shared.throttle.start_task();
        let mut portions = changes.chunks(IMPORT_BATCH_ROWS);
        let mut answers = Vec::new();
        let mut portion = portions.next().unwrap_or_default();
        loop {
            let now = self.now();
            let import = |core: &mut Core| core.import(slice, token, portion, now);
            answers.push(self.decide_without_waiting(import).await);
            match portions.next() {
                Some(next) => portion = next,
                None => break,
            }
            task.yield_if_busy().await;
        }
        for answer in answers {
            answer.durable().await??;
        }
        Ok(())
    }

    async fn discard_poll(
        &self,
        fenced: &FencedSlice,
        token: &MigrationToken,
        poll: PollId,
    ) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.discard_poll(fenced, token, poll, now))
            .await
    }

    async fn digests(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>> {
        self.read(|core| core.digests(slice)).await
    }

    async fn digest(&self, slice: &SliceId) -> ShardResult<SliceDigest> {
        loop {
            let answer = {
                let mut core = self.shared.lock();
                let answer = core.digest(slice, DIGEST_BATCH_POLLS);
                wrap_refusal(&core, answer)
            };
            match answer.durable().await?? {
                Some(digest) => return Ok(digest),
                None => tokio::task::yield_now().await,
            }
        }
    }

    async fn scrub(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>> {
        self.checkpoint().await?;
        let store = self.shared.store();
        let subject = self.read(|core| core.subject(slice)).await?;
        let polls = self.polls_from(slice, FIRST, usize::MAX).await?.polls;
        let polls: Vec<PollRow> = polls.into_iter().map(|(_, row)| row).collect();
        let shared = self.shared.clone();
        let scrub = move || {
            export::scrub(
                &subject,
                &store.runs(),
                &polls,
                shared.throttle.start_task(),
            )
        };
        self.run_blocking(scrub).await
    }
}
