//! Closed polls move as files. Corrupt files are reported and repaired, or bring the
//! slice back.

use std::path::Path;

use ballast_control_plane::migrations::begin::NewMigration;
use ballast_control_plane::migrations::body::MigrationBody;
use ballast_control_plane::migrations::commands::MigrationCommand;
use ballast_domain::migration::{MigrationStage, MigrationStatus};
use ballast_domain::moving::MigrationId;
use ballast_domain::{PollId, ShardId, VoterId};
use ballast_migration_engine::ports::ReadCounts;
use ballast_vote_shard::VoteShard as _;
use ballast_vote_shard::shard::{ExportedRow, MigrationToken, VoterName, VoterRow};

use crate::fixture::{TestFleet, poll_id, slice};

/// Begins a migration whose window stays open.
async fn begun(fleet: &TestFleet, to: &ShardId, max_pause_ms: Option<u64>) -> MigrationId {
    let new = NewMigration {
        window_ms: Some(3_600_000),
        max_pause_ms,
        ..TestFleet::to(to)
    };
    let begun = fleet.begin(&new).await.unwrap();
    begun.migration.value.migration_id
}

async fn cut_over(fleet: &TestFleet, id: &MigrationId) -> MigrationBody {
    let is = |shown: &MigrationBody| shown.migration.value.stage == MigrationStage::CutOver;
    fleet.until(id, "cut over", is).await
}

/// Changes a byte of a file.
fn rot(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[40] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

/// The total of an archived poll on a shard; checks that its rows are in a file.
async fn total(fleet: &TestFleet, shard: &ShardId, poll: PollId) -> u64 {
    let shard = fleet.shards.embedded(shard);
    assert!(shard.archive(&slice(), poll).await.unwrap().is_some());
    shard.tally(&slice(), poll).await.unwrap().total()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_polls_go_as_files_and_are_certified() {
    let fleet = TestFleet::with(|moves| moves.archive_rows_min = 5).await;
    let voting = fleet.voting(2);
    voting.more(50).await;
    let mut polls = Vec::new();
    for (number, votes) in [(11, 40), (12, 7), (13, 3)] {
        polls.push(fleet.closed(number, votes).await);
    }
    let from = fleet.owner().await;
    let [to, other] = fleet.others().await;
    let begun = fleet.begin(&TestFleet::to(&to)).await.unwrap();
    let ended = fleet.ended(&begun.migration.value.migration_id).await;
    assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    let votes = voting.stop().await;
    fleet.holds(&to, &votes).await;
    assert_eq!(fleet.files(&to).len(), 2, "three rows are not worth a file");
    assert_eq!(fleet.files(&from).len(), 0);
    assert_eq!(total(&fleet, &to, polls[0]).await, 40);
    assert_eq!(total(&fleet, &to, polls[1]).await, 7);
    let signed = ended.migration.value.certificate.unwrap().certificate;
    let proved = signed.votes.clone().unwrap();
    assert_eq!(proved.acknowledged, proved.present);
    assert!(proved.acknowledged >= 50 + 40 + 7 + 3, "{proved:?}");
    assert_eq!((proved.duplicates, proved.polls), (0, 4));
    assert!(signed.rows_carried >= proved.present, "{signed:?}");
    // Move on: everything archived goes along.
    let begun = fleet.begin(&TestFleet::to(&other)).await.unwrap();
    let ended = fleet.ended(&begun.migration.value.migration_id).await;
    let record = ended.migration.value;
    assert_eq!(ended.status, MigrationStatus::Completed, "{record:#?}");
    let all = votes.len() as u64 + 50;
    assert_eq!(record.price.unwrap().rows, all);
    assert_eq!(record.proved.unwrap().present, all);
    assert_eq!(fleet.files(&other).len(), 2);
    assert_eq!(fleet.files(&to).len(), 0);
    fleet.holds(&other, &votes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_migration_leaves_no_files() {
    let fleet = TestFleet::new().await;
    let poll = fleet.closed(11, 40).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = begun(&fleet, &to, Some(1)).await;
    let put_off = |shown: &MigrationBody| shown.migration.value.figures.put_off > 0;
    fleet.until(&id, "put off", put_off).await;
    assert_eq!(fleet.files(&to).len(), 1);
    fleet.command(&id, MigrationCommand::Cancel).await.unwrap();
    assert_eq!(fleet.ended(&id).await.status, MigrationStatus::Cancelled);
    assert_eq!(fleet.files(&to).len(), 0);
    assert_eq!(fleet.files(&from).len(), 1);
    assert_eq!(total(&fleet, &from, poll).await, 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_file_on_the_target_is_copied_again_once() {
    let fleet = TestFleet::new().await;
    let poll = fleet.closed(11, 40).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = begun(&fleet, &to, Some(1)).await;
    let put_off = |shown: &MigrationBody| shown.migration.value.figures.put_off > 0;
    fleet.until(&id, "put off", put_off).await;
    let file = fleet.files(&to)[0].clone();
    let whole = std::fs::read(&file).unwrap();
    rot(&file);
    let repaired = |shown: &MigrationBody| shown.migration.value.figures.repaired > 0;
    let shown = fleet.until(&id, "repaired", repaired).await;
    let finding = &shown.migration.value.findings[0];
    assert_eq!((&finding.shard, &*finding.then), (&to, "copied again"));
    assert!(finding.what.contains(&poll.to_string()), "{finding:?}");
    let again = shown.migration.value.figures.put_off;
    let is_quiet = |shown: &MigrationBody| shown.migration.value.figures.put_off > again;
    fleet.until(&id, "verified", is_quiet).await;
    assert_eq!(std::fs::read(&file).unwrap(), whole);
    rot(&file);
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::RolledBack, "{ended:#?}");
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(why.contains(".parquet is damaged"), "{why}");
    assert_eq!(fleet.files(&to).len(), 0);
    assert_eq!(total(&fleet, &from, poll).await, 40);
}

/// A damaged file on the source cannot move, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_on_the_source_is_reported_and_stays() {
    let fleet = TestFleet::new().await;
    fleet.closed(11, 40).await;
    let [to, other] = fleet.others().await;
    let begun = fleet.begin(&TestFleet::to(&to)).await.unwrap();
    fleet.ended(&begun.migration.value.migration_id).await;
    rot(&fleet.files(&to)[0]);
    let begun = fleet.begin(&TestFleet::to(&other)).await.unwrap();
    let ended = fleet.ended(&begun.migration.value.migration_id).await;
    assert_eq!(ended.status, MigrationStatus::RolledBack, "{ended:#?}");
    let why = ended.migration.value.ended.unwrap().why.unwrap();
    assert!(
        why.contains(to.as_str()) && why.contains("damaged"),
        "{why}"
    );
    assert_eq!(fleet.owner().await, to);
    assert_eq!((fleet.files(&to).len(), fleet.files(&other).len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_file_on_the_owner_in_the_window_brings_the_slice_back() {
    let fleet = TestFleet::new().await;
    let poll = fleet.closed(11, 40).await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = begun(&fleet, &to, None).await;
    cut_over(&fleet, &id).await;
    // A poll that closes in the window goes back as rows.
    let late = fleet.closed(12, 9).await;
    assert_eq!((fleet.files(&from).len(), fleet.files(&to).len()), (1, 1));
    rot(&fleet.files(&to)[0]);
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Reversed, "{ended:#?}");
    let record = ended.migration.value;
    let why = record.ended.unwrap().why.unwrap();
    assert!(why.contains(&format!("{to} has wrong data")), "{why}");
    assert!(why.contains(&poll.to_string()), "{why}");
    assert_eq!(record.findings[0].shard, to);
    assert_eq!((fleet.files(&from).len(), fleet.files(&to).len()), (1, 0));
    assert_eq!(total(&fleet, &from, poll).await, 40);
    let shard = fleet.shards.embedded(&from);
    assert_eq!(shard.tally(&slice(), late).await.unwrap().total(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_file_on_the_source_in_the_window_is_repaired() {
    for command in [MigrationCommand::Complete, MigrationCommand::Reverse] {
        let fleet = TestFleet::new().await;
        fleet.closed(11, 40).await;
        let from = fleet.owner().await;
        let [to, _] = fleet.others().await;
        let id = begun(&fleet, &to, None).await;
        cut_over(&fleet, &id).await;
        let file = fleet.files(&from)[0].clone();
        let whole = std::fs::read(&file).unwrap();
        rot(&file);
        fleet.command(&id, command).await.unwrap();
        let ended = fleet.ended(&id).await;
        let record = ended.migration.value;
        assert_eq!(record.findings.len(), 1, "{record:#?}");
        assert_eq!(record.findings[0].shard, from);
        match ended.status {
            MigrationStatus::Completed => assert_eq!(fleet.files(&from).len(), 0),
            MigrationStatus::Reversed => assert_eq!(std::fs::read(&file).unwrap(), whole),
            other => panic!("{other}: {record:#?}"),
        }
    }
}

/// A slice only goes back once its copy there is correct.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slice_does_not_go_back_to_a_corrupt_row() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let votes = voting.stop().await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = begun(&fleet, &to, None).await;
    cut_over(&fleet, &id).await;
    let rotten = VoterId::new("v0-2").unwrap();
    let source = fleet.shards.embedded(&from);
    source
        .corrupt_row(&slice(), poll_id(), &rotten)
        .await
        .unwrap();
    fleet.command(&id, MigrationCommand::Reverse).await.unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Reversed, "{ended:#?}");
    let findings = ended.migration.value.findings;
    assert_eq!(findings[0].shard, from);
    assert!(findings[0].what.contains("v0-2"), "{findings:?}");
    assert_eq!(fleet.row(&from, "v0-2").await.unwrap().items, [0]);
    fleet.holds(&from, &votes).await;
}

/// A row that is wrong on both sides: the checks cannot tell which is right, so nothing
/// is removed and nothing goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_wrong_on_both_sides_is_kept_and_reported() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    voting.stop().await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = begun(&fleet, &to, None).await;
    cut_over(&fleet, &id).await;
    let rotten = VoterId::new("v0-2").unwrap();
    for shard in [&from, &to] {
        let shard = fleet.shards.embedded(shard);
        shard
            .corrupt_row(&slice(), poll_id(), &rotten)
            .await
            .unwrap();
    }
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    let waits = |shown: &MigrationBody| {
        let why = shown.migration.value.waiting_for.as_deref();
        why.is_some_and(|why| why.contains("which is right"))
    };
    let shown = fleet.until(&id, "waits", waits).await;
    assert_eq!(shown.status, MigrationStatus::Waiting);
    assert_eq!(fleet.owner().await, to);
    assert!(fleet.row(&from, "v0-2").await.is_some());
}

/// A row that only the source has may be an acknowledged vote. It is not removed until
/// an operator has looked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_only_the_source_has_is_kept_until_an_operator_decides() {
    let fleet = TestFleet::new().await;
    let voting = fleet.voting(2);
    voting.more(20).await;
    let votes = voting.stop().await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let id = begun(&fleet, &to, None).await;
    cut_over(&fleet, &id).await;
    // Insert a row without the worker's knowledge.
    let source = fleet.shards.embedded(&from);
    let fence = source.fence(&slice()).await.unwrap().unwrap();
    let order = MigrationToken {
        migration_id: id.clone(),
        token: fence.token,
    };
    let row = VoterRow {
        voter: VoterName::Named(VoterId::new("promised").unwrap()),
        ..fleet.row(&from, "v0-2").await.unwrap()
    };
    let changes = [ExportedRow::Voter(row)];
    source.import(&slice(), &order, &changes).await.unwrap();
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    let waits = |shown: &MigrationBody| {
        let why = shown.migration.value.waiting_for.as_deref();
        why.is_some_and(|why| why.contains("which is right"))
    };
    let shown = fleet.until(&id, "waits", waits).await;
    let what = &shown.migration.value.findings[0].what;
    assert!(what.contains("promised"), "{what}");
    assert!(fleet.row(&from, "promised").await.is_some());
    assert_eq!(fleet.owner().await, to);
    // An operator has looked.
    fleet
        .command(&id, MigrationCommand::Complete)
        .await
        .unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Completed, "{ended:#?}");
    let signed = ended.migration.value.certificate.unwrap().certificate;
    assert!(signed.differences > 0, "{signed:?}");
    fleet.holds(&to, &votes).await;
}

/// Differences that readers have seen stop the cleanup and are on the certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_straggler_keeps_the_source() {
    let fleet = TestFleet::new().await;
    let from = fleet.owner().await;
    let [to, _] = fleet.others().await;
    let new = NewMigration {
        window_ms: Some(600),
        ..TestFleet::to(&to)
    };
    let id = fleet.begun(&new).await;
    let seen = ReadCounts {
        compared: 9,
        differences: 1,
        stragglers: 2,
    };
    fleet.readers.set_counts(seen);
    let waits = |shown: &MigrationBody| {
        let why = shown.migration.value.waiting_for.as_deref();
        why.is_some_and(|why| why.contains("2 reads found a vote"))
    };
    fleet.until(&id, "waits", waits).await;
    // They are remembered even if the process that saw them is gone.
    fleet.readers.set_counts(ReadCounts::default());
    fleet.until(&id, "still waits", waits).await;
    fleet.command(&id, MigrationCommand::Reverse).await.unwrap();
    let ended = fleet.ended(&id).await;
    assert_eq!(ended.status, MigrationStatus::Reversed, "{ended:#?}");
    assert_eq!(fleet.owner().await, from);
    let signed = ended.migration.value.certificate.unwrap().certificate;
    assert_eq!((signed.differences, signed.stragglers), (3, 2));
    let doubt = signed.describe_doubt().unwrap();
    assert!(doubt.contains("2 times a vote was read"), "{doubt}");
}
