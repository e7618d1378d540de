//! Archived polls: their voters' rows are in files, and are read there.
//!
//! A file that cannot be read becomes the refusal `Archived`, which clients get as
//! `archive-unavailable`, and an error in the log that names the file. The request
//! is not held for it: a file does not come back within a request.

use ballast_domain::poll::{Ballot, BallotOutcome, BallotRefusal};
use ballast_domain::{PollId, ShardId, VoterId};
use ballast_vote_shard::ShardResult;
use ballast_vote_shard::archive::{ArchiveReader, ArchiveResult, judge_archived_ballot};
use ballast_vote_shard::shard::{SliceKey, VoterPrint, VoterRow};

use crate::RouterState;
use crate::deliver::ShardTarget;

/// The open archive file of a poll.
#[derive(Clone)]
pub(crate) struct ArchivedPoll {
    shard_id: ShardId,
    reader: ArchiveReader,
    key: SliceKey,
}

impl RouterState {
    /// Opens the file that holds a poll's rows; `None` if the shard holds them.
    /// `open` is reused if it is still the poll's file.
    pub(crate) async fn open_archive(
        &self,
        target: &ShardTarget,
        poll: PollId,
        open: Option<&ArchivedPoll>,
    ) -> ShardResult<Option<ArchivedPoll>> {
        let slice = &target.fenced.slice;
        let shard = target.consistent_reader().await?;
        let Some(file) = shard.archive(slice, poll).await? else {
            return Ok(None);
        };
        let same =
            |open: &&ArchivedPoll| open.shard_id == target.shard_id && *open.reader.file() == file;
        if let Some(open) = open.filter(same) {
            return Ok(Some(open.clone()));
        }
        let key = shard.slice_key(slice).await?;
        let archive = self.parts.archives.archive(&target.shard_id)?;
        let reader = read(ArchiveReader::open(&archive, &file, poll).await)?;
        Ok(Some(ArchivedPoll {
            shard_id: target.shard_id.clone(),
            reader,
            key,
        }))
    }

    /// Reads a voter's row from the owner, or from the poll's archive file.
    pub(crate) async fn owner_row(
        &self,
        target: &ShardTarget,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>> {
        let slice = &target.fenced.slice;
        match target
            .consistent_reader()
            .await?
            .voter(slice, poll, voter)
            .await
        {
            Err(error) if error.is_archived() => match self.open_archive(target, poll, None).await?
            {
                Some(file) => file.find(voter).await,
                None => Err(error),
            },
            row => row,
        }
    }

    /// Judges the ballots that the shard could not judge because the voters' rows
    /// are archived. If a file cannot be read, its ballots stay refused.
    pub(crate) async fn judge_archived(
        &self,
        target: &ShardTarget,
        ballots: &[Ballot],
        mut verdicts: Vec<BallotOutcome>,
    ) -> ShardResult<Vec<BallotOutcome>> {
        let is_archived_refusal =
            |verdict: &BallotOutcome| *verdict == BallotOutcome::Refused(BallotRefusal::Archived);
        let mut archived: Vec<usize> = (0..verdicts.len().min(ballots.len()))
            .filter(|index| is_archived_refusal(&verdicts[*index]))
            .collect();
        archived.sort_by_key(|index| ballots[*index].poll);
        for archived in archived.chunk_by(|one, two| ballots[*one].poll == ballots[*two].poll) {
            let Some(poll) = archived.first().map(|index| ballots[*index].poll) else {
                continue;
            };
            let own: Vec<&Ballot> = archived.iter().map(|index| &ballots[*index]).collect();
            match self.judge_from_archive(target, poll, &own).await {
                Ok(judged) => {
                    for (index, verdict) in archived.iter().zip(judged) {
                        verdicts[*index] = verdict;
                    }
                }
                Err(error) if error.is_archived() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(verdicts)
    }

    async fn judge_from_archive(
        &self,
        target: &ShardTarget,
        poll: PollId,
        ballots: &[&Ballot],
    ) -> ShardResult<Vec<BallotOutcome>> {
        let Some(file) = self.open_archive(target, poll, None).await? else {
            return Err(BallotRefusal::Archived.into());
        };
        let poll = target.shard.poll(&target.fenced.slice, poll).await?;
        let voters = ballots.iter().map(|ballot| &ballot.voter);
        let prints: Vec<VoterPrint> = voters
            .map(|voter| file.key.voter_print(voter.as_str()))
            .collect();
        let rows = read(file.reader.find_all(&prints, &file.key).await)?;
        let judged = ballots.iter().zip(rows);
        Ok(judged
            .map(|(ballot, row)| judge_archived_ballot(&poll, row.as_ref(), ballot))
            .collect())
    }
}

impl ArchivedPoll {
    async fn find(&self, voter: &VoterId) -> ShardResult<Option<VoterRow>> {
        let print = self.key.voter_print(voter.as_str());
        read(self.reader.find(print, &self.key).await)
    }

    /// The rows after a voter's, with the last one's voter; `None` at the end.
    pub(crate) async fn rows_after(
        &self,
        after: Option<VoterPrint>,
    ) -> ShardResult<Option<(VoterPrint, Vec<VoterRow>)>> {
        read(self.reader.rows_after(after, &self.key).await)
    }
}

/// Logs an archive error and turns it into a refusal.
fn read<T>(read: ArchiveResult<T>) -> ShardResult<T> {
    read.map_err(|error| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "cannot read an archived poll"
        );
        BallotRefusal::Archived.into()
    })
}

#[cfg(test)]
mod tests {
    use ballast_domain::poll::{Ballot, RequestId, VoteChoice};
    use ballast_domain::tenant::{Epoch, SliceId};
    use ballast_domain::{ItemId, PollId, Timestamp, VoterId};
    use ballast_vote_shard::archive::{ArchiveDirectory as _, Unthrottled, backfill};
    use ballast_vote_shard::{FencedSlice, VoteShard as _};

    use futures::StreamExt as _;
    use tower::ServiceExt as _;

    use crate::router;
    use crate::testing::{TestResponse, TestRouter};

    fn at() -> FencedSlice {
        FencedSlice {
            slice: SliceId {
                tenant_id: "acme".parse().unwrap(),
                slice: 0,
            },
            epoch: Epoch::FIRST,
        }
    }

    impl TestRouter {
        /// Creates a closed poll with three voters: its path, and a vote's path.
        async fn closed(&self) -> (String, String) {
            let (poll, vote) = self.poll().await;
            for voter in ["ada", "bob", "cyd"] {
                let body = format!(r#"{{"voterID":"{voter}"}}"#);
                let counted = self.ask("PATCH", &vote, &body).await;
                assert_eq!(counted.body["outcome"], "counted");
            }
            let closed = self.ask("POST", &format!("{poll}/close"), "").await;
            assert_eq!(closed.status, 200, "{closed:?}");
            (poll, vote)
        }

        async fn archive(&self) {
            let archive = self.archives.archive(&"shard-1".parse().unwrap());
            let shard = &*self.shards.shard;
            let report = backfill(shard, &archive.unwrap(), &at(), 1, &mut Unthrottled).await;
            assert_eq!(report.unwrap().polls, 1);
        }

        /// The answers to every kind of request about the poll.
        async fn all(&self, poll: &str, vote: &str) -> Vec<TestResponse> {
            let mut answers = Vec::new();
            for (method, path, body) in [
                ("GET", format!("{poll}/export"), ""),
                ("GET", format!("{poll}/voters/ada"), ""),
                ("GET", format!("{poll}/voters/nobody"), ""),
                ("GET", format!("{poll}/votes"), ""),
                ("GET", poll.to_owned(), ""),
                ("PATCH", vote.to_owned(), r#"{"voterID":"bob"}"#),
                ("PATCH", vote.to_owned(), r#"{"voterID":"dan"}"#),
            ] {
                let mut answer = self.ask(method, &path, body).await;
                answer.headers.clear();
                answers.push(answer);
            }
            answers
        }
    }

    #[tokio::test]
    async fn an_archived_poll_is_answered_as_before() {
        let server = TestRouter::new(|_| {});
        let (poll, vote) = server.closed().await;
        let before = server.all(&poll, &vote).await;
        let lines = before[0].body.as_str().unwrap().lines();
        assert_eq!(lines.count(), 3);
        assert_eq!(before[5].body["outcome"], "already");
        assert_eq!(before[6].body["code"], "poll-closed");
        assert_eq!((before[1].status, before[2].status), (200, 404));
        server.archive().await;
        assert_eq!(server.all(&poll, &vote).await, before);
    }

    #[tokio::test]
    async fn votes_in_a_stream_are_judged_by_the_file_too() {
        let server = TestRouter::new(|_| {});
        let (poll, vote) = server.closed().await;
        let item = vote.rsplit('/').next().unwrap();
        let id = poll.rsplit('/').next().unwrap();
        let lines: Vec<String> = ["ada", "dan", "cyd"]
            .map(|voter| format!(r#"{{"pollID":"{id}","itemID":"{item}","voterID":"{voter}"}}"#))
            .into();
        let lines = lines.join("\n");
        let before = server.ask("POST", "/votes", &lines).await;
        server.archive().await;
        let after = server.ask("POST", "/votes", &lines).await;
        assert_eq!(before.body.as_str().unwrap().lines().count(), 3);
        assert_eq!(after.body, before.body);
    }

    /// A vote for the first item of a poll.
    fn ballot(poll: PollId, n: u64) -> Ballot {
        Ballot {
            poll,
            item: ItemId::from_position(poll, 0),
            voter: VoterId::new(&format!("voter-{n}")).unwrap(),
            choice: VoteChoice::For,
            request: RequestId(n),
            arrived_at: Timestamp::from_unix_ms(1_000_000),
            if_revision: None,
        }
    }

    #[tokio::test]
    async fn an_export_goes_on_when_its_poll_is_archived_meanwhile() {
        let server = TestRouter::new(|_| {});
        let (poll, _) = server.poll().await;
        let id: PollId = poll.rsplit('/').next().unwrap().parse().unwrap();
        let ballots: Vec<Ballot> = (0..6_000).map(|n| ballot(id, n)).collect();
        for ballots in ballots.chunks(500) {
            server.shards.shard.cast(&at(), ballots).await.unwrap();
        }
        server.ask("POST", &format!("{poll}/close"), "").await;
        let path = format!("{poll}/export");
        let whole = server.ask("GET", &path, "").await;
        let whole = whole.body.as_str().unwrap();
        assert_eq!(whole.lines().count(), 6_000);
        let request = server.request("GET", &path, "");
        let answer = router(server.state.clone()).oneshot(request).await.unwrap();
        let mut body = answer.into_body().into_data_stream();
        let mut read = body.next().await.unwrap().unwrap().to_vec();
        assert!(read.len() < whole.len() / 2, "the rest is still to come");
        server.archive().await;
        while let Some(more) = body.next().await {
            read.extend_from_slice(&more.unwrap());
        }
        assert!(read == whole.as_bytes(), "lines are missing or doubled");
    }

    #[tokio::test]
    async fn a_missing_or_damaged_file_is_reported_and_results_still_work() {
        let server = TestRouter::new(|_| {});
        let (poll, vote) = server.closed().await;
        let results = server.ask("GET", &format!("{poll}/votes"), "").await;
        server.archive().await;
        let file = server.archive_file().await;
        let whole = std::fs::read(&file).unwrap();
        let mut rotten = whole.clone();
        rotten[40] ^= 1;
        for damage in [Some(rotten), None] {
            match damage {
                Some(bytes) => std::fs::write(&file, bytes).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            for (method, path, body) in [
                ("GET", format!("{poll}/export"), ""),
                ("GET", format!("{poll}/voters/ada"), ""),
                ("PATCH", vote.clone(), r#"{"voterID":"bob"}"#),
            ] {
                let refused = server.ask(method, &path, body).await;
                assert_eq!(refused.status, 503, "{path}: {refused:?}");
                assert_eq!(refused.body["code"], "archive-unavailable");
            }
            let still = server.ask("GET", &format!("{poll}/votes"), "").await;
            assert_eq!(still.body, results.body);
        }
        std::fs::write(&file, whole).unwrap();
        let back = server.ask("PATCH", &vote, r#"{"voterID":"bob"}"#).await;
        assert_eq!(back.body["outcome"], "already");
    }

    impl TestRouter {
        /// The path of the poll's file.
        async fn archive_file(&self) -> std::path::PathBuf {
            let archives = self.shards.shard.archives(&at().slice).await.unwrap();
            let archived = archives[0].archived.as_ref().unwrap();
            self.directory
                .path()
                .join("shard-1")
                .join(&archived.file.path)
        }
    }
}
