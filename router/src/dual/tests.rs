//! Tests of dual reads in the window of a real migration.

use std::collections::BTreeSet;
use std::time::Duration;

use ballast_domain::tenant::Epoch;
use ballast_domain::{PollId, Timestamp, VoterId};
use ballast_vote_shard::shard::{ExportedRow, RowVersion, VoterName, VoterRow};
use ballast_vote_shard::{ShardResult, VoteShard};

use super::{PollRows, reread_owner_row, voter_print};
use crate::admit::{Access, authenticate};
use crate::deliver::{RouteKey, ShardTarget};
use crate::read_key;
use crate::testing::{TestFleet, slice};

fn poll_id(path: &str) -> PollId {
    path.trim_start_matches("/polls/").parse().unwrap()
}

async fn vote(fleet: &TestFleet, path: &str, name: &str) {
    let body = format!(r#"{{"voterID":"{name}"}}"#);
    let counted = fleet.near.ask("PATCH", path, &body).await;
    assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
}

fn row(poll: PollId, name: &str, item: u16, (epoch, revision): (u64, u32)) -> VoterRow {
    VoterRow {
        poll,
        voter: VoterName::Named(VoterId::new(name).unwrap()),
        items: vec![item],
        version: RowVersion {
            epoch: Epoch(epoch),
            revision,
        },
        requests: Vec::new(),
        voted_at: Timestamp::from_unix_ms(0),
    }
}

async fn access(fleet: &TestFleet) -> Access {
    let key = read_key(&fleet.near.key).unwrap();
    authenticate(&fleet.near.state, key).await.unwrap()
}

async fn target(fleet: &TestFleet, poll: PollId) -> ShardTarget {
    let route_key = RouteKey::Poll(poll);
    let mut access = access(fleet).await;
    let state = &fleet.near.state;
    let target = state.deliver(&mut access, &route_key, async |target| Ok(target));
    target.await.unwrap()
}

/// A poll with two votes that was moved; the previous shard follows.
async fn moved(fleet: &TestFleet) -> (String, String) {
    let (poll, path) = fleet.near.poll().await;
    for name in ["ada", "bob"] {
        vote(fleet, &path, name).await;
    }
    fleet.move_to("shard-2").await;
    fleet.stream_back().await;
    fleet.near.invalidate_route();
    (poll, path)
}

async fn read_voter(fleet: &TestFleet, poll: &str, name: &str) -> crate::testing::TestResponse {
    let path = format!("{poll}/voters/{name}");
    fleet.near.ask("GET", &path, "").await
}

async fn exported(fleet: &TestFleet, poll: &str) -> BTreeSet<String> {
    let path = format!("{poll}/export");
    let text = fleet.near.ask_for_text("GET", &path, "").await;
    let name = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["voterID"].as_str().unwrap().to_owned()
    };
    text.lines().map(name).collect()
}

#[tokio::test]
async fn nothing_is_found_where_nothing_is_wrong() {
    let fleet = TestFleet::new(|_| {});
    let (poll, path) = moved(&fleet).await;
    // The previous shard does not have it yet.
    vote(&fleet, &path, "eve").await;
    for name in ["ada", "bob", "eve"] {
        let found = read_voter(&fleet, &poll, name).await;
        assert_eq!(found.status, 200, "{name}");
    }
    let unknown = read_voter(&fleet, &poll, "nobody").await;
    assert_eq!(unknown.status, 404);
    let names = exported(&fleet, &poll).await;
    assert_eq!(names, ["ada", "bob", "eve"].map(str::to_owned).into());
    // A poll that the previous shard does not know.
    let (_, other) = fleet.near.poll().await;
    vote(&fleet, &other, "ada").await;
    let counts = fleet.near.state.dual_read_counts(&slice());
    assert_eq!((counts.compared, counts.unread), (5, 0), "{counts:?}");
    assert_eq!((counts.stragglers, counts.differences), (0, 0));
    assert_eq!(fleet.near.state.dual_read_totals(), counts);
    // After the window only the owner is read.
    fleet.finish();
    exported(&fleet, &poll).await;
    assert_eq!(fleet.near.state.dual_read_counts(&slice()), counts);
    fleet.near.state.forget_window(&slice());
    let forgotten = fleet.near.state.dual_read_counts(&slice());
    assert_eq!(forgotten.compared, 0);
}

#[tokio::test]
async fn a_straggler_is_in_the_answer_and_is_counted() {
    let fleet = TestFleet::new(|_| {});
    let (path, _) = moved(&fleet).await;
    let poll = poll_id(&path);
    let stragglers = [row(poll, "ghost", 0, (1, 1)), row(poll, "bob", 1, (9, 2))];
    let changes = stragglers.map(ExportedRow::Voter);
    fleet.plant_rows(&changes).await;
    let ghost = read_voter(&fleet, &path, "ghost").await;
    assert_eq!(ghost.status, 200);
    assert_eq!(fleet.near.state.dual_read_counts(&slice()).stragglers, 1);
    let bob = fleet
        .near
        .ask("GET", &format!("{path}/voters/bob"), "")
        .await;
    assert_eq!(bob.header("etag"), "\"2\"", "{bob:?}");
    assert_eq!(fleet.near.state.dual_read_counts(&slice()).stragglers, 2);
    let names = exported(&fleet, &path).await;
    assert_eq!(names, ["ada", "bob", "ghost"].map(str::to_owned).into());
    assert_eq!(fleet.near.state.dual_read_counts(&slice()).stragglers, 4);
    // Results show the counts of the owner only; those of the other side are not added.
    let results = fleet.near.ask("GET", &format!("{path}/votes"), "").await;
    assert_eq!(results.body["total"], 2);
}

#[tokio::test]
async fn a_vote_that_arrives_between_two_reads_is_no_straggler() {
    let fleet = TestFleet::new(|_| {});
    let (path, _) = moved(&fleet).await;
    let target = target(&fleet, poll_id(&path)).await;
    let voter = VoterId::new("ada").unwrap();
    let owner = fleet.shard("shard-2");
    let own = owner.voter(&slice(), poll_id(&path), &voter).await.unwrap();
    let own = own.unwrap();
    let settled = fleet
        .near
        .state
        .resolve_unconfirmed(&target, own.clone())
        .await
        .unwrap();
    assert_eq!(settled, own);
    // Also by its fingerprint alone, as after the name was erased.
    let mut erased = own.clone();
    let print = voter_print(&target, &own).await.unwrap();
    erased.voter = VoterName::Erased(print);
    assert_eq!(reread_owner_row(&target, &erased).await.unwrap(), Some(own));
    erased.voter = VoterName::Erased(super::rows::previous_print(print).unwrap());
    assert_eq!(reread_owner_row(&target, &erased).await.unwrap(), None);
    assert_eq!(fleet.near.state.dual_read_counts(&slice()).stragglers, 0);
}

#[tokio::test]
async fn a_previous_shard_that_is_away_fails_no_read() {
    let fleet = TestFleet::new(|_| {});
    let (poll, _) = moved(&fleet).await;
    fleet.shards.set_away("shard-1", true);
    let found = read_voter(&fleet, &poll, "ada").await;
    assert_eq!(found.status, 200);
    assert_eq!(exported(&fleet, &poll).await.len(), 2);
    let results = fleet.near.ask("GET", &format!("{poll}/votes"), "").await;
    assert_eq!(results.body["total"], 2);
    let target = target(&fleet, poll_id(&poll)).await;
    let state = &fleet.near.state;
    let comparing = state.compare_counts(&target, poll_id(&poll), Duration::ZERO);
    comparing.await;
    let counts = state.dual_read_counts(&slice());
    assert!(counts.unread >= 3, "{counts:?}");
    assert_eq!((counts.compared, counts.stragglers), (0, 0));
}

#[tokio::test]
async fn a_previous_shard_that_is_slow_is_not_waited_for() {
    let fleet = TestFleet::new(|settings| settings.hold_max = Duration::from_millis(2));
    let (poll, _) = moved(&fleet).await;
    let (state, target) = (&fleet.near.state, target(&fleet, poll_id(&poll)).await);
    let (shard_id, window) = state.previous_shard(&target).unwrap();
    let never = |_| std::future::pending::<ShardResult<()>>();
    assert_eq!(state.read_previous(shard_id, &window, never).await, None);
    assert_eq!(fleet.near.state.dual_read_counts(&slice()).unread, 1);
    // It is not read again for a while.
    let asked = fleet.shards.calls();
    let found = read_voter(&fleet, &poll, "ada").await;
    assert_eq!(found.status, 200);
    assert_eq!(fleet.shards.calls(), asked + 1, "the owner alone");
    assert_eq!(fleet.near.state.dual_read_counts(&slice()).unread, 2);
}

#[tokio::test]
async fn counts_are_compared_by_sample_and_differences_are_counted() {
    let fleet = TestFleet::new(|_| {});
    let (path, _) = moved(&fleet).await;
    let poll = poll_id(&path);
    let results = fleet.near.ask("GET", &format!("{path}/votes"), "").await;
    assert_eq!(results.body["total"], 2);
    let state = &fleet.near.state;
    while state.dual_read_counts(&slice()).compared == 0 {
        tokio::task::yield_now().await;
    }
    let target = target(&fleet, poll).await;
    fleet
        .plant_rows(&[ExportedRow::Voter(row(poll, "ghost", 0, (1, 1)))])
        .await;
    state.compare_counts(&target, poll, Duration::ZERO).await;
    let counts = state.dual_read_counts(&slice());
    assert_eq!((counts.compared, counts.differences), (2, 1), "{counts:?}");
    let results = fleet.near.ask("GET", &format!("{path}/votes"), "").await;
    assert_eq!(results.body["total"], 2, "the owner's");
}

/// More rows than a page takes.
const MANY: usize = 6_000;

async fn many_votes(fleet: &TestFleet) -> PollId {
    let (poll, path) = fleet.near.poll().await;
    let mut names = path.split('/').skip(2).step_by(2);
    let (id, item) = (names.next().unwrap(), names.next().unwrap());
    let line = |number: usize| {
        format!("{{\"pollID\":\"{id}\",\"itemID\":\"{item}\",\"voterID\":\"v-{number}\"}}\n")
    };
    let lines: String = (0..MANY).map(line).collect();
    let text = fleet.near.ask_for_text("POST", "/votes", &lines).await;
    assert_eq!(text.matches("\"counted\"").count(), MANY);
    poll_id(&poll)
}

fn name(row: &VoterRow) -> String {
    match &row.voter {
        VoterName::Named(voter) => voter.as_str().to_owned(),
        VoterName::Erased(_) => panic!("no voter was erased"),
    }
}

#[tokio::test]
async fn an_export_goes_on_when_the_slice_moves_meanwhile() {
    let fleet = TestFleet::new(|_| {});
    let poll = many_votes(&fleet).await;
    // Cursors are not valid at another shard.
    fleet.append_unrelated_changes("shard-2").await;
    let (state, mut access) = (&fleet.near.state, access(&fleet).await);
    let mut rows = PollRows::new(poll);
    let (first, more) = rows.next(state, &mut access).await.unwrap();
    assert!(more && first.len() < MANY);
    fleet.move_to("shard-2").await;
    let (second, more) = rows.next(state, &mut access).await.unwrap();
    assert!(more);
    fleet.stream_back().await;
    fleet.near.invalidate_route();
    let mut all: Vec<String> = first.iter().chain(&second).map(name).collect();
    let mut more = true;
    while more {
        let (rows, then) = rows.next(state, &mut access).await.unwrap();
        all.extend(rows.iter().map(name));
        more = then;
    }
    let names: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!((all.len(), names.len()), (MANY, MANY), "each once");
    assert_eq!(state.dual_read_counts(&slice()).stragglers, 0);
}

#[tokio::test]
async fn an_export_merges_both_sides_page_by_page() {
    let fleet = TestFleet::new(|_| {});
    let poll = many_votes(&fleet).await;
    fleet.move_to("shard-2").await;
    fleet.stream_back().await;
    let ghost = |number| ExportedRow::Voter(row(poll, &format!("ghost-{number}"), 0, (1, 1)));
    let ghosts: Vec<ExportedRow> = (0..50).map(ghost).collect();
    fleet.plant_rows(&ghosts).await;
    fleet.near.invalidate_route();
    let (state, mut access) = (&fleet.near.state, access(&fleet).await);
    let (mut rows, mut all, mut more) = (PollRows::new(poll), Vec::new(), true);
    while more {
        let (page, then) = rows.next(state, &mut access).await.unwrap();
        assert!(page.len() <= 2 * 2_731, "bounded");
        all.extend(page.iter().map(name));
        more = then;
    }
    let names: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!((all.len(), names.len()), (MANY + 50, MANY + 50));
    assert_eq!(state.dual_read_counts(&slice()).stragglers, 50);
}
