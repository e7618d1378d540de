//! Polls whose rows are in files: what a shard cannot tell is read there.
//!
//! A file that cannot be read becomes the refusal
//! [`Archived`](Refusal::Archived), which a client is told as
//! `archive-unavailable`, and an error in the log that names the file. It is
//! not waited for: a file does not come back within a request.

use ballast_domain::poll::{Ballot, Refusal, Verdict};
use ballast_domain::{PollId, ShardId, VoterId};
use ballast_vote_shard::ShardResult;
use ballast_vote_shard::archive::{ArchiveResult, Reader, judge};
use ballast_vote_shard::shard::{SliceKey, VoterPrint, VoterRow};

use crate::State;
use crate::deliver::Place;

/// A file that is open.
#[derive(Clone)]
pub(crate) struct File {
    shard_id: ShardId,
    reader: Reader,
    key: SliceKey,
}

impl State {
    /// The file that holds a poll's rows, `None` if the shard does. One that is
    /// open is taken if it is still the one.
    pub(crate) async fn file(
        &self,
        place: &Place,
        poll: PollId,
        open: Option<&File>,
    ) -> ShardResult<Option<File>> {
        let slice = &place.at.slice;
        let shard = place.read().await?;
        let Some(file) = shard.archive(slice, poll).await? else {
            return Ok(None);
        };
        let same = |open: &&File| open.shard_id == place.shard_id && *open.reader.file() == file;
        if let Some(open) = open.filter(same) {
            return Ok(Some(open.clone()));
        }
        let key = shard.slice_key(slice).await?;
        let archive = self.parts.archives.archive(&place.shard_id)?;
        let reader = read(Reader::open(&archive, &file, poll).await)?;
        Ok(Some(File {
            shard_id: place.shard_id.clone(),
            reader,
            key,
        }))
    }

    /// A voter's row, wherever it is.
    pub(crate) async fn row(
        &self,
        place: &Place,
        poll: PollId,
        voter: &VoterId,
    ) -> ShardResult<Option<VoterRow>> {
        let slice = &place.at.slice;
        match place.read().await?.voter(slice, poll, voter).await {
            Err(error) if error.is_archived() => match self.file(place, poll, None).await? {
                Some(file) => file.find(voter).await,
                None => Err(error),
            },
            row => row,
        }
    }

    /// Judges the ballots that the shard could not, because the voters' rows
    /// are in files. Where one cannot be read, its ballots stay refused.
    pub(crate) async fn settle(
        &self,
        place: &Place,
        ballots: &[Ballot],
        mut verdicts: Vec<Verdict>,
    ) -> ShardResult<Vec<Verdict>> {
        let is_late = |verdict: &Verdict| *verdict == Verdict::Refused(Refusal::Archived);
        let mut late: Vec<usize> = (0..verdicts.len().min(ballots.len()))
            .filter(|place| is_late(&verdicts[*place]))
            .collect();
        late.sort_by_key(|place| ballots[*place].poll);
        for late in late.chunk_by(|one, two| ballots[*one].poll == ballots[*two].poll) {
            let Some(poll) = late.first().map(|place| ballots[*place].poll) else {
                continue;
            };
            let own: Vec<&Ballot> = late.iter().map(|place| &ballots[*place]).collect();
            match self.judged(place, poll, &own).await {
                Ok(judged) => {
                    for (place, verdict) in late.iter().zip(judged) {
                        verdicts[*place] = verdict;
                    }
                }
                Err(error) if error.is_archived() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(verdicts)
    }

    async fn judged(
        &self,
        place: &Place,
        poll: PollId,
        ballots: &[&Ballot],
    ) -> ShardResult<Vec<Verdict>> {
        let Some(file) = self.file(place, poll, None).await? else {
            return Err(Refusal::Archived.into());
        };
        let poll = place.shard.poll(&place.at.slice, poll).await?;
        let voters = ballots.iter().map(|ballot| &ballot.voter);
        let prints: Vec<VoterPrint> = voters.map(|voter| file.key.print(voter.as_str())).collect();
        let rows = read(file.reader.find_all(&prints, &file.key).await)?;
        let judged = ballots.iter().zip(rows);
        Ok(judged
            .map(|(ballot, row)| judge(&poll, row.as_ref(), ballot))
            .collect())
    }
}

impl File {
    async fn find(&self, voter: &VoterId) -> ShardResult<Option<VoterRow>> {
        let print = self.key.print(voter.as_str());
        read(self.reader.find(print, &self.key).await)
    }

    /// The rows after a voter's, and whose the last is; none when there are no
    /// more.
    pub(crate) async fn after(
        &self,
        after: Option<VoterPrint>,
    ) -> ShardResult<Option<(VoterPrint, Vec<VoterRow>)>> {
        read(self.reader.after(after, &self.key).await)
    }
}

/// What was read, or that it could not be.
fn read<T>(read: ArchiveResult<T>) -> ShardResult<T> {
    read.map_err(|error| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "an archived poll cannot be read"
        );
        Refusal::Archived.into()
    })
}

#[cfg(test)]
mod tests {
    use ballast_domain::poll::{Ballot, Choice, RequestId};
    use ballast_domain::tenant::{Epoch, SliceId};
    use ballast_domain::{ItemId, PollId, Timestamp, VoterId};
    use ballast_vote_shard::archive::{Archives as _, FullSpeed, backfill};
    use ballast_vote_shard::{At, VoteShard as _};

    use futures::StreamExt as _;
    use tower::ServiceExt as _;

    use crate::router;
    use crate::testing::{Answered, House};

    fn at() -> At {
        At {
            slice: SliceId {
                tenant_id: "acme".parse().unwrap(),
                slice: 0,
            },
            epoch: Epoch::FIRST,
        }
    }

    impl House {
        /// A closed poll with three voters: where it is, and a vote's path.
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
            let report = backfill(shard, &archive.unwrap(), &at(), 1, &mut FullSpeed).await;
            assert_eq!(report.unwrap().polls, 1);
        }

        /// Everything that can be asked of the poll.
        async fn all(&self, poll: &str, vote: &str) -> Vec<Answered> {
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
        let house = House::new(|_| {});
        let (poll, vote) = house.closed().await;
        let before = house.all(&poll, &vote).await;
        let lines = before[0].body.as_str().unwrap().lines();
        assert_eq!(lines.count(), 3);
        assert_eq!(before[5].body["outcome"], "already");
        assert_eq!(before[6].body["code"], "poll-closed");
        assert_eq!((before[1].status, before[2].status), (200, 404));
        house.archive().await;
        assert_eq!(house.all(&poll, &vote).await, before);
    }

    #[tokio::test]
    async fn votes_in_a_stream_are_judged_by_the_file_too() {
        let house = House::new(|_| {});
        let (poll, vote) = house.closed().await;
        let item = vote.rsplit('/').next().unwrap();
        let id = poll.rsplit('/').next().unwrap();
        let lines: Vec<String> = ["ada", "dan", "cyd"]
            .map(|voter| format!(r#"{{"pollID":"{id}","itemID":"{item}","voterID":"{voter}"}}"#))
            .into();
        let lines = lines.join("\n");
        let before = house.ask("POST", "/votes", &lines).await;
        house.archive().await;
        let after = house.ask("POST", "/votes", &lines).await;
        assert_eq!(before.body.as_str().unwrap().lines().count(), 3);
        assert_eq!(after.body, before.body);
    }

    /// A vote for the first item of a poll.
    fn ballot(poll: PollId, n: u64) -> Ballot {
        Ballot {
            poll,
            item: ItemId::of(poll, 0),
            voter: VoterId::new(&format!("voter-{n}")).unwrap(),
            choice: Choice::For,
            request: RequestId(n),
            arrived_at: Timestamp::from_unix_ms(1_000_000),
            if_revision: None,
        }
    }

    #[tokio::test]
    async fn an_export_goes_on_when_its_poll_is_archived_meanwhile() {
        let house = House::new(|_| {});
        let (poll, _) = house.poll().await;
        let id: PollId = poll.rsplit('/').next().unwrap().parse().unwrap();
        let ballots: Vec<Ballot> = (0..6_000).map(|n| ballot(id, n)).collect();
        for ballots in ballots.chunks(500) {
            house.shards.shard.cast(&at(), ballots).await.unwrap();
        }
        house.ask("POST", &format!("{poll}/close"), "").await;
        let path = format!("{poll}/export");
        let whole = house.ask("GET", &path, "").await;
        let whole = whole.body.as_str().unwrap();
        assert_eq!(whole.lines().count(), 6_000);
        let request = house.request("GET", &path, "");
        let answer = router(house.state.clone()).oneshot(request).await.unwrap();
        let mut body = answer.into_body().into_data_stream();
        let mut read = body.next().await.unwrap().unwrap().to_vec();
        assert!(read.len() < whole.len() / 2, "the rest is still to come");
        house.archive().await;
        while let Some(more) = body.next().await {
            read.extend_from_slice(&more.unwrap());
        }
        assert!(read == whole.as_bytes(), "lines are missing or doubled");
    }

    #[tokio::test]
    async fn a_file_that_is_away_or_damaged_is_told_and_results_still_work() {
        let house = House::new(|_| {});
        let (poll, vote) = house.closed().await;
        let results = house.ask("GET", &format!("{poll}/votes"), "").await;
        house.archive().await;
        let file = house.archive_file().await;
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
                let refused = house.ask(method, &path, body).await;
                assert_eq!(refused.status, 503, "{path}: {refused:?}");
                assert_eq!(refused.body["code"], "archive-unavailable");
            }
            let still = house.ask("GET", &format!("{poll}/votes"), "").await;
            assert_eq!(still.body, results.body);
        }
        std::fs::write(&file, whole).unwrap();
        let back = house.ask("PATCH", &vote, r#"{"voterID":"bob"}"#).await;
        assert_eq!(back.body["outcome"], "already");
    }

    impl House {
        /// Where the poll's file is.
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
