//! Closed polls move as files; what rots among them is told, mended, or brings
//! the slice back.

use std::path::Path;

use ballast_control_plane::migrations::ask::Ask;
use ballast_control_plane::migrations::begin::NewMove;
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_domain::migration::{Stage, Status};
use ballast_domain::moving::MoveId;
use ballast_domain::{PollId, ShardId, VoterId};
use ballast_migration_engine::ports::ReadCounts;
use ballast_vote_shard::VoteShard as _;
use ballast_vote_shard::shard::{Change, Order, VoterName, VoterRow};

use crate::house::{House, poll_id, slice};

/// Begins a move whose window stays open.
async fn begun(house: &House, to: &ShardId, max_pause_ms: Option<u64>) -> MoveId {
    let new = NewMove {
        window_ms: Some(3_600_000),
        max_pause_ms,
        ..House::to(to)
    };
    let begun = house.begin(&new).await.unwrap();
    begun.migration.value.migration_id
}

async fn cut_over(house: &House, id: &MoveId) -> MigrationBody {
    let is = |shown: &MigrationBody| shown.migration.value.stage == Stage::CutOver;
    house.until(id, "cut over", is).await
}

/// Changes a byte of a file.
fn rot(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[40] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

/// What a shard has of an archived poll: its total, and that rows are in a file.
async fn total(house: &House, shard: &ShardId, poll: PollId) -> u64 {
    let shard = house.cellar.embedded(shard);
    assert!(shard.archive(&slice(), poll).await.unwrap().is_some());
    shard.tally(&slice(), poll).await.unwrap().total()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_polls_go_as_files_and_are_certified() {
    let house = House::with(|moves| moves.archive_rows_min = 5).await;
    let voting = house.voting(2);
    voting.more(50).await;
    let mut polls = Vec::new();
    for (number, votes) in [(11, 40), (12, 7), (13, 3)] {
        polls.push(house.closed(number, votes).await);
    }
    let from = house.owner().await;
    let [to, other] = house.others().await;
    let begun = house.begin(&House::to(&to)).await.unwrap();
    let ended = house.ended(&begun.migration.value.migration_id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    let votes = voting.stop().await;
    house.holds(&to, &votes).await;
    assert_eq!(house.files(&to).len(), 2, "three rows are not worth a file");
    assert_eq!(house.files(&from).len(), 0);
    assert_eq!(total(&house, &to, polls[0]).await, 40);
    assert_eq!(total(&house, &to, polls[1]).await, 7);
    let signed = ended.migration.value.certificate.unwrap().certificate;
    let proved = signed.votes.clone().unwrap();
    assert_eq!(proved.acknowledged, proved.present);
    assert!(proved.acknowledged >= 50 + 40 + 7 + 3, "{proved:?}");
    assert_eq!((proved.duplicates, proved.polls), (0, 4));
    assert!(signed.rows_carried >= proved.present, "{signed:?}");
    // On, and all that is archived goes along.
    let begun = house.begin(&House::to(&other)).await.unwrap();
    let ended = house.ended(&begun.migration.value.migration_id).await;
    let record = ended.migration.value;
    assert_eq!(ended.status, Status::Completed, "{record:#?}");
    let all = votes.len() as u64 + 50;
    assert_eq!(record.price.unwrap().rows, all);
    assert_eq!(record.proved.unwrap().present, all);
    assert_eq!(house.files(&other).len(), 2);
    assert_eq!(house.files(&to).len(), 0);
    house.holds(&other, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_called_off_leaves_no_files() {
    let house = House::new().await;
    let poll = house.closed(11, 40).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = begun(&house, &to, Some(1)).await;
    let put_off = |shown: &MigrationBody| shown.migration.value.figures.put_off > 0;
    house.until(&id, "put off", put_off).await;
    assert_eq!(house.files(&to).len(), 1);
    house.ask(&id, Ask::Cancel).await.unwrap();
    assert_eq!(house.ended(&id).await.status, Status::Cancelled);
    assert_eq!(house.files(&to).len(), 0);
    assert_eq!(house.files(&from).len(), 1);
    assert_eq!(total(&house, &from, poll).await, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_rots_on_the_target_is_brought_anew_once() {
    let house = House::new().await;
    let poll = house.closed(11, 40).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = begun(&house, &to, Some(1)).await;
    let put_off = |shown: &MigrationBody| shown.migration.value.figures.put_off > 0;
    house.until(&id, "put off", put_off).await;
    let file = house.files(&to)[0].clone();
    let whole = std::fs::read(&file).unwrap();
    rot(&file);
    let repaired = |shown: &MigrationBody| shown.migration.value.figures.repaired > 0;
    let shown = house.until(&id, "repaired", repaired).await;
    let finding = &shown.migration.value.findings[0];
    assert_eq!((&finding.shard, &*finding.then), (&to, "copied anew"));
    assert!(finding.what.contains(&poll.to_string()), "{finding:?}");
    let again = shown.migration.value.figures.put_off;
    let is_quiet = |shown: &MigrationBody| shown.migration.value.figures.put_off > again;
    house.until(&id, "verified", is_quiet).await;
    assert_eq!(std::fs::read(&file).unwrap(), whole);
    rot(&file);
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::RolledBack, "{ended:#?}");
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(why.contains(".parquet is damaged"), "{why}");
    assert_eq!(house.files(&to).len(), 0);
    assert_eq!(total(&house, &from, poll).await, 40);
}

/// A file of the source that is damaged cannot be moved, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_of_the_source_is_named_and_stays() {
    let house = House::new().await;
    house.closed(11, 40).await;
    let [to, other] = house.others().await;
    let begun = house.begin(&House::to(&to)).await.unwrap();
    house.ended(&begun.migration.value.migration_id).await;
    rot(&house.files(&to)[0]);
    let begun = house.begin(&House::to(&other)).await.unwrap();
    let ended = house.ended(&begun.migration.value.migration_id).await;
    assert_eq!(ended.status, Status::RolledBack, "{ended:#?}");
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(
        why.contains(to.as_str()) && why.contains("damaged"),
        "{why}"
    );
    assert_eq!(house.owner().await, to);
    assert_eq!((house.files(&to).len(), house.files(&other).len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_rots_on_the_owner_in_the_window_brings_the_slice_back() {
    let house = House::new().await;
    let poll = house.closed(11, 40).await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = begun(&house, &to, None).await;
    cut_over(&house, &id).await;
    // It closes in the window and goes back as rows.
    let late = house.closed(12, 9).await;
    assert_eq!((house.files(&from).len(), house.files(&to).len()), (1, 1));
    rot(&house.files(&to)[0]);
    house.ask(&id, Ask::Complete).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Reversed, "{ended:#?}");
    let record = ended.migration.value;
    let why = record.ended.unwrap().why.unwrap();
    assert!(why.contains(&format!("{to} is wrong")), "{why}");
    assert!(why.contains(&poll.to_string()), "{why}");
    assert_eq!(record.findings[0].shard, to);
    assert_eq!((house.files(&from).len(), house.files(&to).len()), (1, 0));
    assert_eq!(total(&house, &from, poll).await, 40);
    let shard = house.cellar.embedded(&from);
    assert_eq!(shard.tally(&slice(), late).await.unwrap().total(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_rots_on_the_source_in_the_window_is_mended() {
    for wish in [Ask::Complete, Ask::Reverse] {
        let house = House::new().await;
        house.closed(11, 40).await;
        let from = house.owner().await;
        let [to, _] = house.others().await;
        let id = begun(&house, &to, None).await;
        cut_over(&house, &id).await;
        let file = house.files(&from)[0].clone();
        let whole = std::fs::read(&file).unwrap();
        rot(&file);
        house.ask(&id, wish).await.unwrap();
        let ended = house.ended(&id).await;
        let record = ended.migration.value;
        assert_eq!(record.findings.len(), 1, "{record:#?}");
        assert_eq!(record.findings[0].shard, from);
        match ended.status {
            Status::Completed => assert_eq!(house.files(&from).len(), 0),
            Status::Reversed => assert_eq!(std::fs::read(&file).unwrap(), whole),
            other => panic!("{other}: {record:#?}"),
        }
    }
}

/// Whoever wants a slice back to where its copy is wrong waits until it is
/// right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_does_not_go_back_to_a_rotten_row() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let votes = voting.stop().await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = begun(&house, &to, None).await;
    cut_over(&house, &id).await;
    let rotten = VoterId::new("v0-2").unwrap();
    let source = house.cellar.embedded(&from);
    source.rot(&slice(), poll_id(), &rotten).await.unwrap();
    house.ask(&id, Ask::Reverse).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Reversed, "{ended:#?}");
    let findings = ended.migration.value.findings;
    assert_eq!(findings[0].shard, from);
    assert!(findings[0].what.contains("v0-2"), "{findings:?}");
    assert_eq!(house.row(&from, "v0-2").await.unwrap().items, [0]);
    house.holds(&from, &votes).await;
}

/// A row that is wrong on both sides: nobody knows better, so nothing is
/// removed and nothing goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_on_both_sides_is_kept_and_told() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    voting.stop().await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = begun(&house, &to, None).await;
    cut_over(&house, &id).await;
    let rotten = VoterId::new("v0-2").unwrap();
    for shard in [&from, &to] {
        let shard = house.cellar.embedded(shard);
        shard.rot(&slice(), poll_id(), &rotten).await.unwrap();
    }
    house.ask(&id, Ask::Complete).await.unwrap();
    let waits = |shown: &MigrationBody| {
        let why = shown.migration.value.waiting_for.as_deref();
        why.is_some_and(|why| why.contains("which is right"))
    };
    let shown = house.until(&id, "waits", waits).await;
    assert_eq!(shown.status, Status::Waiting);
    assert_eq!(house.owner().await, to);
    assert!(house.row(&from, "v0-2").await.is_some());
}

/// A row that only the source has may be a vote that somebody was promised: it
/// is neither removed nor gone back to, until somebody has looked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_only_the_source_has_is_kept_until_somebody_has_looked() {
    let house = House::new().await;
    let voting = house.voting(2);
    voting.more(20).await;
    let votes = voting.stop().await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let id = begun(&house, &to, None).await;
    cut_over(&house, &id).await;
    // Behind everybody's back.
    let source = house.cellar.embedded(&from);
    let fence = source.fence(&slice()).await.unwrap().unwrap();
    let order = Order {
        move_id: id.clone(),
        token: fence.token,
    };
    let row = VoterRow {
        voter: VoterName::Named(VoterId::new("promised").unwrap()),
        ..house.row(&from, "v0-2").await.unwrap()
    };
    let changes = [Change::Voter(row)];
    source.import(&slice(), &order, &changes).await.unwrap();
    house.ask(&id, Ask::Complete).await.unwrap();
    let waits = |shown: &MigrationBody| {
        let why = shown.migration.value.waiting_for.as_deref();
        why.is_some_and(|why| why.contains("which is right"))
    };
    let shown = house.until(&id, "waits", waits).await;
    let what = &shown.migration.value.findings[0].what;
    assert!(what.contains("promised"), "{what}");
    assert!(house.row(&from, "promised").await.is_some());
    assert_eq!(house.owner().await, to);
    // Somebody has looked.
    house.ask(&id, Ask::Complete).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Completed, "{ended:#?}");
    let signed = ended.migration.value.certificate.unwrap().certificate;
    assert!(signed.differences > 0, "{signed:?}");
    house.holds(&to, &votes).await;
}

/// What readers have seen stops the cleanup, and is on the certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_straggler_keeps_the_source() {
    let house = House::new().await;
    let from = house.owner().await;
    let [to, _] = house.others().await;
    let new = NewMove {
        window_ms: Some(600),
        ..House::to(&to)
    };
    let id = house.begun(&new).await;
    let seen = ReadCounts {
        compared: 9,
        differences: 1,
        stragglers: 2,
    };
    house.told.have_seen(seen);
    let waits = |shown: &MigrationBody| {
        let why = shown.migration.value.waiting_for.as_deref();
        why.is_some_and(|why| why.contains("2 times a vote was read"))
    };
    house.until(&id, "waits", waits).await;
    // It is remembered, also when the process that saw it is gone.
    house.told.have_seen(ReadCounts::default());
    house.until(&id, "still waits", waits).await;
    house.ask(&id, Ask::Reverse).await.unwrap();
    let ended = house.ended(&id).await;
    assert_eq!(ended.status, Status::Reversed, "{ended:#?}");
    assert_eq!(house.owner().await, from);
    let signed = ended.migration.value.certificate.unwrap().certificate;
    assert_eq!((signed.differences, signed.stragglers), (3, 2));
    let doubt = signed.doubt().unwrap();
    assert!(doubt.contains("2 times a vote was read"), "{doubt}");
}
