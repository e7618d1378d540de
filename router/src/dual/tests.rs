//! Both sides of a real move, read while its window is open.

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
use crate::testing::{Town, slice};

fn poll_of(path: &str) -> PollId {
    path.trim_start_matches("/polls/").parse().unwrap()
}

async fn vote(town: &Town, path: &str, name: &str) {
    let body = format!(r#"{{"voterID":"{name}"}}"#);
    let counted = town.near.ask("PATCH", path, &body).await;
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

async fn access(town: &Town) -> Access {
    let key = read_key(&town.near.key).unwrap();
    authenticate(&town.near.state, key).await.unwrap()
}

async fn target(town: &Town, poll: PollId) -> ShardTarget {
    let route_key = RouteKey::Poll(poll);
    let mut access = access(town).await;
    let state = &town.near.state;
    let target = state.deliver(&mut access, &route_key, async |target| Ok(target));
    target.await.unwrap()
}

/// A poll with two votes, moved; the old side follows.
async fn moved(town: &Town) -> (String, String) {
    let (poll, path) = town.near.poll().await;
    for name in ["ada", "bob"] {
        vote(town, &path, name).await;
    }
    town.move_to("shard-2").await;
    town.stream_back().await;
    town.near.hears_of_route();
    (poll, path)
}

async fn look(town: &Town, poll: &str, name: &str) -> crate::testing::Answered {
    let path = format!("{poll}/voters/{name}");
    town.near.ask("GET", &path, "").await
}

async fn exported(town: &Town, poll: &str) -> BTreeSet<String> {
    let path = format!("{poll}/export");
    let text = town.near.ask_for_text("GET", &path, "").await;
    let name = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["voterID"].as_str().unwrap().to_owned()
    };
    text.lines().map(name).collect()
}

#[tokio::test]
async fn nothing_is_found_where_nothing_is_wrong() {
    let town = Town::new(|_| {});
    let (poll, path) = moved(&town).await;
    // The old side does not have it yet.
    vote(&town, &path, "eve").await;
    for name in ["ada", "bob", "eve"] {
        let found = look(&town, &poll, name).await;
        assert_eq!(found.status, 200, "{name}");
    }
    let nobody = look(&town, &poll, "nobody").await;
    assert_eq!(nobody.status, 404);
    let names = exported(&town, &poll).await;
    assert_eq!(names, ["ada", "bob", "eve"].map(str::to_owned).into());
    // A poll that the old side has never heard of.
    let (_, other) = town.near.poll().await;
    vote(&town, &other, "ada").await;
    let counts = town.near.state.dual_read_counts(&slice());
    assert_eq!((counts.compared, counts.unread), (5, 0), "{counts:?}");
    assert_eq!((counts.stragglers, counts.differences), (0, 0));
    assert_eq!(town.near.state.dual_read_totals(), counts);
    // When the window is over, the owner alone is read.
    town.finish();
    exported(&town, &poll).await;
    assert_eq!(town.near.state.dual_read_counts(&slice()), counts);
    town.near.state.forget_window(&slice());
    let forgotten = town.near.state.dual_read_counts(&slice());
    assert_eq!(forgotten.compared, 0);
}

#[tokio::test]
async fn a_straggler_is_in_the_answer_and_is_counted() {
    let town = Town::new(|_| {});
    let (path, _) = moved(&town).await;
    let poll = poll_of(&path);
    let stragglers = [row(poll, "ghost", 0, (1, 1)), row(poll, "bob", 1, (9, 2))];
    let changes = stragglers.map(ExportedRow::Voter);
    town.plant(&changes).await;
    let ghost = look(&town, &path, "ghost").await;
    assert_eq!(ghost.status, 200);
    assert_eq!(town.near.state.dual_read_counts(&slice()).stragglers, 1);
    let bob = town
        .near
        .ask("GET", &format!("{path}/voters/bob"), "")
        .await;
    assert_eq!(bob.header("etag"), "\"2\"", "{bob:?}");
    assert_eq!(town.near.state.dual_read_counts(&slice()).stragglers, 2);
    let names = exported(&town, &path).await;
    assert_eq!(names, ["ada", "bob", "ghost"].map(str::to_owned).into());
    assert_eq!(town.near.state.dual_read_counts(&slice()).stragglers, 4);
    // Results show the counts of the owner only; those of the other side are not added.
    let results = town.near.ask("GET", &format!("{path}/votes"), "").await;
    assert_eq!(results.body["total"], 2);
}

#[tokio::test]
async fn what_came_to_both_sides_between_two_reads_is_no_straggler() {
    let town = Town::new(|_| {});
    let (path, _) = moved(&town).await;
    let target = target(&town, poll_of(&path)).await;
    let voter = VoterId::new("ada").unwrap();
    let owner = town.shard("shard-2");
    let own = owner.voter(&slice(), poll_of(&path), &voter).await.unwrap();
    let own = own.unwrap();
    let settled = town
        .near
        .state
        .resolve_unconfirmed(&target, own.clone())
        .await
        .unwrap();
    assert_eq!(settled, own);
    // Also by its print alone, as after its name was erased.
    let mut erased = own.clone();
    let print = voter_print(&target, &own).await.unwrap();
    erased.voter = VoterName::Erased(print);
    assert_eq!(reread_owner_row(&target, &erased).await.unwrap(), Some(own));
    erased.voter = VoterName::Erased(super::rows::previous_print(print).unwrap());
    assert_eq!(reread_owner_row(&target, &erased).await.unwrap(), None);
    assert_eq!(town.near.state.dual_read_counts(&slice()).stragglers, 0);
}

#[tokio::test]
async fn a_previous_shard_that_is_away_fails_no_read() {
    let town = Town::new(|_| {});
    let (poll, _) = moved(&town).await;
    town.shards.set_away("shard-1", true);
    let found = look(&town, &poll, "ada").await;
    assert_eq!(found.status, 200);
    assert_eq!(exported(&town, &poll).await.len(), 2);
    let results = town.near.ask("GET", &format!("{poll}/votes"), "").await;
    assert_eq!(results.body["total"], 2);
    let target = target(&town, poll_of(&poll)).await;
    let state = &town.near.state;
    let comparing = state.compare_counts(&target, poll_of(&poll), Duration::ZERO);
    comparing.await;
    let counts = state.dual_read_counts(&slice());
    assert!(counts.unread >= 3, "{counts:?}");
    assert_eq!((counts.compared, counts.stragglers), (0, 0));
}

#[tokio::test]
async fn a_previous_shard_that_is_slow_is_not_waited_for() {
    let town = Town::new(|settings| settings.hold_max = Duration::from_millis(2));
    let (poll, _) = moved(&town).await;
    let (state, target) = (&town.near.state, target(&town, poll_of(&poll)).await);
    let (beside, window) = state.previous_shard(&target).unwrap();
    let never = |_| std::future::pending::<ShardResult<()>>();
    assert_eq!(state.read_previous(beside, &window, never).await, None);
    assert_eq!(town.near.state.dual_read_counts(&slice()).unread, 1);
    // And is left alone for a while.
    let asked = town.shards.asked();
    let found = look(&town, &poll, "ada").await;
    assert_eq!(found.status, 200);
    assert_eq!(town.shards.asked(), asked + 1, "the owner alone");
    assert_eq!(town.near.state.dual_read_counts(&slice()).unread, 2);
}

#[tokio::test]
async fn counts_are_compared_by_sample_and_differences_are_counted() {
    let town = Town::new(|_| {});
    let (path, _) = moved(&town).await;
    let poll = poll_of(&path);
    let results = town.near.ask("GET", &format!("{path}/votes"), "").await;
    assert_eq!(results.body["total"], 2);
    let state = &town.near.state;
    while state.dual_read_counts(&slice()).compared == 0 {
        tokio::task::yield_now().await;
    }
    let target = target(&town, poll).await;
    town.plant(&[ExportedRow::Voter(row(poll, "ghost", 0, (1, 1)))])
        .await;
    state.compare_counts(&target, poll, Duration::ZERO).await;
    let counts = state.dual_read_counts(&slice());
    assert_eq!((counts.compared, counts.differences), (2, 1), "{counts:?}");
    let results = town.near.ask("GET", &format!("{path}/votes"), "").await;
    assert_eq!(results.body["total"], 2, "the owner's");
}

/// More rows than a page takes.
const MANY: usize = 6_000;

async fn many_votes(town: &Town) -> PollId {
    let (poll, path) = town.near.poll().await;
    let mut names = path.split('/').skip(2).step_by(2);
    let (id, item) = (names.next().unwrap(), names.next().unwrap());
    let line = |number: usize| {
        format!("{{\"pollID\":\"{id}\",\"itemID\":\"{item}\",\"voterID\":\"v-{number}\"}}\n")
    };
    let lines: String = (0..MANY).map(line).collect();
    let text = town.near.ask_for_text("POST", "/votes", &lines).await;
    assert_eq!(text.matches("\"counted\"").count(), MANY);
    poll_of(&poll)
}

fn name(row: &VoterRow) -> String {
    match &row.voter {
        VoterName::Named(voter) => voter.as_str().to_owned(),
        VoterName::Erased(_) => panic!("nobody was erased"),
    }
}

#[tokio::test]
async fn an_export_goes_on_when_the_slice_moves_meanwhile() {
    let town = Town::new(|_| {});
    let poll = many_votes(&town).await;
    // Positions mean nothing at another shard.
    town.let_grow("shard-2").await;
    let (state, mut access) = (&town.near.state, access(&town).await);
    let mut rows = PollRows::new(poll);
    let (first, more) = rows.next(state, &mut access).await.unwrap();
    assert!(more && first.len() < MANY);
    town.move_to("shard-2").await;
    let (second, more) = rows.next(state, &mut access).await.unwrap();
    assert!(more);
    town.stream_back().await;
    town.near.hears_of_route();
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
    let town = Town::new(|_| {});
    let poll = many_votes(&town).await;
    town.move_to("shard-2").await;
    town.stream_back().await;
    let ghost = |number| ExportedRow::Voter(row(poll, &format!("ghost-{number}"), 0, (1, 1)));
    let ghosts: Vec<ExportedRow> = (0..50).map(ghost).collect();
    town.plant(&ghosts).await;
    town.near.hears_of_route();
    let (state, mut access) = (&town.near.state, access(&town).await);
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
