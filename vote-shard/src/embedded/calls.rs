//! What others may ask of an embedded shard.

use async_trait::async_trait;
use ballast_domain::poll::{Ballot, Poll, Refusal, RequestId, Verdict};
use ballast_domain::slicing::HashRange;
use ballast_domain::tenant::SliceId;
use ballast_domain::{PollId, TenantId, VoterId};

use super::core::{Core, Found};
use super::engine::{EmbeddedShard, whole};
use super::export;
use crate::shard::{
    ArchiveFile, At, Change, Cursor, Cut, Digest, Fence, Order, Page, PollRow, ShardResult,
    SliceDigest, SliceKey, Tally, Usage, VoteShard, VoterRow,
};

/// Rows that are imported under one lock, by one of the few threads that answer
/// voters: each is decided, hashed and counted, about a microsecond and a half.
const IMPORTED_AT_ONCE: usize = 256;

/// Polls that are brought into a slice's digest under one lock: after a start
/// there may be very many, and votes wait for the lock.
const SUMMED_AT_ONCE: usize = 512;

/// Before all polls.
const FIRST: PollId = PollId::from_number(0);

#[async_trait]
impl VoteShard for EmbeddedShard {
    async fn create_poll(&self, at: &At, poll: Poll) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.create_poll(at, poll, now)).await
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

    async fn awaited(&self, least: u64, most: usize) -> ShardResult<Vec<(SliceId, Poll)>> {
        self.read(|core| core.awaited(least, most)).await
    }

    async fn close_poll(&self, at: &At, poll: PollId) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.close_poll(at, poll, now)).await
    }

    async fn widen_lanes(&self, at: &At, poll: PollId, lanes: u16) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.widen_lanes(at, poll, lanes, now))
            .await
    }

    async fn narrow_lanes(&self, at: &At, poll: PollId, lanes: u16) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.narrow_lanes(at, poll, lanes, now))
            .await
    }

    async fn carry(
        &self,
        at: &At,
        poll: PollId,
        request: RequestId,
        votes: &[u64],
    ) -> ShardResult<Tally> {
        let now = self.now();
        self.decide(|core| core.carry(at, poll, request, votes, now))
            .await
    }

    async fn archive_poll(&self, at: &At, poll: PollId, file: ArchiveFile) -> ShardResult<Poll> {
        let now = self.now();
        self.decide(|core| core.archive_poll(at, poll, file, now))
            .await
    }

    async fn archive(&self, slice: &SliceId, poll: PollId) -> ShardResult<Option<ArchiveFile>> {
        self.read(|core| core.archive(slice, poll)).await
    }

    async fn archive_of(
        &self,
        tenant: &TenantId,
        poll: PollId,
    ) -> ShardResult<Option<ArchiveFile>> {
        self.read(|core| core.archive_of(tenant, poll)).await
    }

    async fn archives(&self, slice: &SliceId) -> ShardResult<Vec<PollRow>> {
        self.read(|core| core.archives(slice)).await
    }

    async fn cast(&self, at: &At, ballots: &[Ballot]) -> ShardResult<Vec<Verdict>> {
        let now = self.now();
        self.shared.manners.voted();
        let cast = self.decide(|core| core.cast(at, ballots, now)).await?;
        if cast.stored.is_empty() {
            return Ok(cast.verdicts);
        }
        self.judged(at, ballots, cast).await
    }

    async fn tally(&self, slice: &SliceId, poll: PollId) -> ShardResult<Tally> {
        let (number, tally) = self.read(|core| core.numbered_tally(slice, poll)).await?;
        // What was read may be half of a group that is gathered; what is
        // published is whole groups, and as new by now.
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
            Found::Here(row) => Ok(row),
            Found::Stored(key) => {
                let store = self.shared.store();
                let row = self.stored(move || store.runs().get(key)).await?;
                if row.is_none() && self.is_archived(slice, poll).await? {
                    return Err(Refusal::Archived.into());
                }
                Ok(row.map(|row| export::of_stored(poll, row)))
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

    async fn usage(&self) -> Usage {
        let store = self.shared.store();
        let disk_bytes = self.page(move || Ok(store.disk_bytes())).await;
        let core = self.shared.lock();
        let files = core.state.polls.values();
        let files = files.filter_map(|poll| poll.archive.as_deref());
        let (polls_archived, archive_bytes) = files.fold((0, 0), |(files, bytes), file| {
            (files + 1, bytes + file.bytes)
        });
        Usage {
            trouble: core.trouble.clone(),
            slices: core.state.owned(),
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

    async fn serves(&self, at: &At) -> ShardResult<()> {
        self.read(|core| core.serves(at)).await
    }

    async fn found(&self, at: &At) -> ShardResult<()> {
        let (now, key) = (self.now(), SliceKey::random(&*self.entropy));
        self.decide(|core| core.found(at, key, now)).await
    }

    async fn fence(&self, slice: &SliceId) -> ShardResult<Option<Fence>> {
        self.read(|core| core.fence(slice)).await
    }

    async fn prepare(
        &self,
        at: &At,
        order: &Order,
        key: SliceKey,
        range: HashRange,
    ) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.prepare(at, order, (key, range), now))
            .await
    }

    async fn seal(&self, at: &At, order: &Order) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.step(Fence::seal, at, order, now))
            .await
    }

    async fn unseal(&self, at: &At, order: &Order) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.step(Fence::unseal, at, order, now))
            .await
    }

    async fn ready(&self, at: &At, order: &Order) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.step(Fence::ready, at, order, now))
            .await
    }

    async fn activate(&self, at: &At, order: &Order) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.step(Fence::activate, at, order, now))
            .await
    }

    async fn retire(&self, at: &At, order: &Order) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.step(Fence::retire, at, order, now))
            .await
    }

    async fn purge(&self, at: &At, order: &Order, most: usize) -> ShardResult<usize> {
        let (now, key) = (self.now(), SliceKey::random(&*self.entropy));
        self.decide(|core| core.purge(at, order, most, key, now))
            .await
    }

    async fn recut(&self, order: &Order, cut: &Cut) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.recut(order, cut, now)).await
    }

    async fn slice_key(&self, slice: &SliceId) -> ShardResult<SliceKey> {
        self.read(|core| core.slice_key(slice)).await
    }

    async fn slice_range(&self, slice: &SliceId) -> ShardResult<HashRange> {
        self.read(|core| core.slice_range(slice)).await
    }

    async fn export(&self, slice: &SliceId, cursor: &Cursor, bytes: usize) -> ShardResult<Page> {
        let position = match cursor {
            Cursor::Start => self.export_position().await?,
            Cursor::Snapshot { position, .. } | Cursor::Changes { position } => *position,
        };
        let store = self.shared.store();
        // In this order: every poll up to here is known to the subject.
        let until = store.log.durable();
        let subject = self.read(|core| core.subject(slice)).await?;
        match cursor.clone() {
            Cursor::Start => {
                let polls = self.polls_from(slice, FIRST, usize::MAX).await?.polls;
                let polls = polls.into_iter().map(|(_, row)| Change::Poll(row));
                Ok(Page {
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
                    let polite = shared.manners.polite();
                    export::rows(&subject, &polls, &store, position, after, bytes, polite)
                };
                self.page(page).await
            }
            Cursor::Changes { .. } => {
                let page = move || export::changes(&subject, &store, position, until, bytes);
                self.page(page).await
            }
        }
    }

    async fn import(&self, slice: &SliceId, order: &Order, changes: &[Change]) -> ShardResult<()> {
        // In portions: votes of others wait for the lock, and for the disk.
        let mut polite = self.shared.manners.polite();
        let mut portions = changes.chunks(IMPORTED_AT_ONCE);
        let mut answers = Vec::new();
        let mut portion = portions.next().unwrap_or_default();
        loop {
            let now = self.now();
            let import = |core: &mut Core| core.import(slice, order, portion, now);
            answers.push(self.decided(import).await);
            match portions.next() {
                Some(next) => portion = next,
                None => break,
            }
            polite.rest_aside().await;
        }
        for answer in answers {
            answer.durable().await??;
        }
        Ok(())
    }

    async fn discard(&self, at: &At, order: &Order, poll: PollId) -> ShardResult<()> {
        let now = self.now();
        self.decide(|core| core.discard(at, order, poll, now)).await
    }

    async fn digests(&self, slice: &SliceId) -> ShardResult<Vec<(PollId, Digest)>> {
        self.read(|core| core.digests(slice)).await
    }

    async fn digest(&self, slice: &SliceId) -> ShardResult<SliceDigest> {
        loop {
            let answer = {
                let mut core = self.shared.lock();
                let answer = core.digest(slice, SUMMED_AT_ONCE);
                whole(&core, answer)
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
        let scrub = move || export::scrub(&subject, &store.runs(), &polls, shared.manners.polite());
        self.page(scrub).await
    }
}
