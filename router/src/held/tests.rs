//! Tests of held requests while their slice moves.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ballast_domain::VoterId;
use ballast_domain::tenant::Epoch;
use ballast_vote_shard::shard::FenceError;
use ballast_vote_shard::{ShardError, VoteShard};
use futures::future::{join_all, poll_immediate};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::PendingRequest;
use crate::deliver::RouteKey;
use crate::testing::{TestFleet, TestRouter, TwoShards, slice};
use crate::{HeldDuration, RouterState};

fn voter(name: &str) -> String {
    format!(r#"{{"voterID":"{name}"}}"#)
}

/// Waits until this many requests are held.
async fn wait_until_held(state: &RouterState, wanted: usize) {
    while state.parts.held_slots.in_use() != wanted {
        tokio::task::yield_now().await;
    }
}

/// The id of the poll at a path.
fn poll_id(path: &str) -> ballast_domain::PollId {
    path.trim_start_matches("/polls/").parse().unwrap()
}

#[tokio::test]
async fn held_requests_resume_together_after_a_move() {
    let fleet = TestFleet::new(|_| {});
    let (poll, vote) = fleet.near.poll().await;
    fleet.begin("shard-2").await;
    fleet.seal().await;
    let names: Vec<String> = (0..50).map(|number| format!("v-{number}")).collect();
    let votes = names.iter().map(|name| {
        let (server, vote) = (&fleet.near, &vote);
        async move { server.ask("PATCH", vote, &voter(name)).await }
    });
    let moving = async {
        wait_until_held(&fleet.near.state, 50).await;
        fleet.commit();
        // All requests resume, and find a target that is not activated yet.
        fleet.near.invalidate_route();
        let asked = fleet.shards.calls();
        fleet.shards.wait_for_calls(asked + 10).await;
        assert_eq!(fleet.near.state.parts.held_slots.in_use(), 50);
        fleet.activate().await;
    };
    let (answers, ()) = tokio::join!(join_all(votes), moving);
    for counted in answers {
        assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
        assert_eq!(counted.header("ballast-epoch"), "3");
        assert_eq!(counted.header("ballast-shard"), "shard-2");
    }
    let tally = fleet.shard("shard-2").tally(&slice(), poll_id(&poll)).await;
    assert_eq!(tally.unwrap().voters, 50);
    wait_until_held(&fleet.near.state, 0).await;
    let held = fleet.near.state.held_counts();
    assert_eq!((held.answered, held.gave_up, held.refused), (50, 0, 0));
}

/// One second of votes of a busy tenant, with the default limits on held requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_second_of_votes_of_a_busy_tenant_can_be_held() {
    let fleet = Arc::new(TestFleet::new(|settings| {
        (settings.held_max, settings.held_per_tenant_max) = (20_000, 10_000);
        settings.held_bytes_max = 128 << 20;
        settings.held_bytes_per_tenant_max = 64 << 20;
    }));
    let (poll, vote) = fleet.near.poll().await;
    fleet.begin("shard-2").await;
    fleet.seal().await;
    // Each in its own task, like connections.
    let mut votes = tokio::task::JoinSet::new();
    for number in 0..5_000 {
        let (fleet, vote) = (fleet.clone(), vote.clone());
        let body = voter(&format!("v-{number}"));
        votes.spawn(async move { fleet.near.ask_directly("PATCH", &vote, &body).await });
    }
    wait_until_held(&fleet.near.state, 5_000).await;
    fleet.commit();
    fleet.activate().await;
    fleet.near.invalidate_route();
    let answers = votes.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    let tally = fleet.shard("shard-2").tally(&slice(), poll_id(&poll)).await;
    assert_eq!(tally.unwrap().voters, 5_000);
    let held = fleet.near.state.held_counts();
    assert_eq!((held.answered, held.gave_up, held.refused), (5_000, 0, 0));
}

#[tokio::test]
async fn a_router_without_notifications_finds_the_new_route() {
    let fleet = TestFleet::new(|_| {});
    let (_, vote) = fleet.far.poll().await;
    fleet.begin("shard-2").await;
    fleet.seal().await;
    let moving = async {
        wait_until_held(&fleet.far.state, 1).await;
        fleet.commit();
        fleet.activate().await;
    };
    let body = voter("ada");
    let (counted, ()) = tokio::join!(fleet.far.ask("PATCH", &vote, &body), moving);
    assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
    assert_eq!(counted.header("ballast-epoch"), "3");
}

#[tokio::test]
async fn held_requests_resume_at_the_source_after_an_abort() {
    let fleet = TestFleet::new(|_| {});
    let (_, vote) = fleet.near.poll().await;
    fleet.begin("shard-2").await;
    fleet.seal().await;
    let calling_off = async {
        wait_until_held(&fleet.near.state, 1).await;
        fleet.abort().await;
        fleet.near.invalidate_route();
    };
    let body = voter("ada");
    let (counted, ()) = tokio::join!(fleet.near.ask("PATCH", &vote, &body), calling_off);
    assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
    assert_eq!(counted.header("ballast-shard"), "shard-1");
    assert_eq!(counted.header("ballast-epoch"), "4");
}

#[tokio::test]
async fn concurrent_reads_of_a_route_are_shared() {
    let server = TestRouter::new(|_| {});
    server.poll().await;
    let now = server.state.parts.clock.now();
    let stale = {
        let id = "acme".parse().unwrap();
        server.state.parts.routes.tenant(&id, now).await.unwrap()
    };
    let before = server.source.routes_read();
    let refreshing = (0..25).map(|_| server.state.parts.routes.refresh(&stale, now));
    join_all(refreshing).await;
    // The first read has begun when the others ask, so it may be too old for them.
    assert_eq!(server.source.routes_read(), before + 2);
    // If nothing is cached, the first read is good for all.
    server.invalidate_route();
    let id = "acme".parse().unwrap();
    let reading = (0..25).map(|_| server.state.parts.routes.tenant(&id, now));
    for route in join_all(reading).await {
        assert_eq!(route.unwrap().tenant_id, id);
    }
    assert_eq!(server.source.routes_read(), before + 3);
}

#[tokio::test]
async fn only_the_scout_reads_the_route() {
    let fleet = TestFleet::new(|_| {});
    let (poll, _) = fleet.near.poll().await;
    let state = &fleet.near.state;
    let key = crate::read_key(&fleet.near.key).unwrap();
    let access = crate::admit::authenticate(state, key).await.unwrap();
    let route_key = RouteKey::Poll(poll_id(&poll));
    let held = || PendingRequest::new(state, &access.tenant.tenant_id, &route_key, 1);
    let away = || ShardError::unavailable("away");
    let route = state.route(&access.tenant.tenant_id).await.unwrap();
    let (mut first, mut second, mut third) = (held(), held(), held());
    first.wait(&route, away()).await.unwrap();
    assert!(first.wait_state.as_ref().unwrap().scout.is_some());
    {
        let reads = fleet.source.routes_read();
        let sealed = ShardError::Fenced(FenceError::Sealed { epoch: Epoch(2) });
        let mut waiting = pin!(second.wait(&route, sealed));
        assert!(poll_immediate(&mut waiting).await.is_none());
        assert_eq!(fleet.source.routes_read(), reads, "the scout reads for all");
        fleet.near.invalidate_route();
        let news = poll_immediate(&mut waiting).await;
        assert!(news.is_none(), "the route has not changed");
        first.answered();
        assert!(poll_immediate(&mut waiting).await.is_some());
    }
    assert!(second.wait_state.as_ref().unwrap().scout.is_none());
    {
        let mut waiting = pin!(third.wait(&route, away()));
        assert!(poll_immediate(&mut waiting).await.is_none());
        fleet.source.set_epoch("acme", Epoch(9));
        fleet.near.invalidate_route();
        waiting.await.unwrap();
    }
    assert_eq!(third.attempt, 0, "attempts restart on a new route");
}

#[tokio::test]
async fn a_timeout_names_the_route_that_was_tried() {
    let fleet = TestFleet::new(|settings| settings.hold_max = Duration::from_millis(20));
    let (_, vote) = fleet.near.poll().await;
    fleet.move_to("shard-2").await;
    fleet.shards.set_away("shard-2", true);
    let refused = fleet.near.ask("PATCH", &vote, &voter("ada")).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.header("ballast-epoch"), "3");
    assert_eq!(refused.header("ballast-shard"), "shard-2");
    assert_eq!(fleet.near.state.held_counts().gave_up, 1);
}

/// As if the registry had been replaced by an older copy.
#[tokio::test]
async fn a_registry_that_is_older_than_its_shards_is_noticed() {
    let fleet = TestFleet::new(|settings| settings.hold_max = Duration::from_millis(20));
    let (_, vote) = fleet.far.poll().await;
    let asked = async |router: &TestRouter<TwoShards>| {
        let answer = router.ask("PATCH", &vote, &voter("ada")).await;
        (answer.status, router.state.stale_registry_count())
    };
    fleet.move_to("shard-2").await;
    fleet.source.set_epoch("acme", Epoch::FIRST);
    fleet.near.invalidate_route();
    assert_eq!(asked(&fleet.near).await, (503, 1));
    // The check runs from time to time, not for every request.
    assert_eq!(asked(&fleet.near).await, (503, 1));
    // A router with a stale route that cannot read the registry reports nothing.
    fleet.source.go_away();
    assert_eq!(asked(&fleet.far).await, (503, 0));
}

#[tokio::test]
async fn held_bytes_are_bounded() {
    let fleet = TestFleet::new(|settings| settings.held_bytes_per_tenant_max = 30_000);
    let (_, vote) = fleet.near.poll().await;
    let mut names = vote.split('/').skip(2).step_by(2);
    let (poll, item) = (names.next().unwrap(), names.next().unwrap());
    let line = |number| {
        format!("{{\"pollID\":\"{poll}\",\"itemID\":\"{item}\",\"voterID\":\"v-{number}\"}}\n")
    };
    let lines: String = (0..400).map(line).collect();
    fleet.begin("shard-2").await;
    fleet.seal().await;
    let second = async {
        wait_until_held(&fleet.near.state, 1).await;
        let refused = fleet.near.ask("PATCH", &vote, &voter("ada")).await;
        fleet.commit();
        fleet.activate().await;
        refused
    };
    let (stream, refused) = tokio::join!(fleet.near.ask_for_text("POST", "/votes", &lines), second);
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (503, &"busy".into())
    );
    let held = fleet.near.state.held_counts();
    assert_eq!((held.answered, held.gone, held.refused), (1, 0, 1));
    let counted = stream.lines().filter(|line| line.contains("\"counted\""));
    assert_eq!(counted.count(), 400, "{stream}");
}

#[tokio::test]
async fn held_time_is_reported_separately() {
    let fleet = TestFleet::new(|_| {});
    let (_, vote) = fleet.near.poll().await;
    fleet.begin("shard-2").await;
    fleet.seal().await;
    let moving = async {
        wait_until_held(&fleet.near.state, 1).await;
        fleet.clock.advance(40);
        fleet.commit();
        fleet.activate().await;
        fleet.near.invalidate_route();
    };
    let body = voter("ada");
    let (response, ()) = tokio::join!(fleet.near.ask_raw("PATCH", &vote, &body), moving);
    assert_eq!(response.status(), 200);
    let own = HeldDuration::without(&response, Duration::from_millis(45));
    assert_eq!(own, Duration::from_millis(5));
    assert_eq!(fleet.near.state.held_counts().ms, 40);
    // One that did not wait.
    let response = fleet.near.ask_raw("PATCH", &vote, &body).await;
    let elapsed = Duration::from_millis(45);
    assert_eq!(HeldDuration::without(&response, elapsed), elapsed);
}

/// Lines of votes for two polls, one on each side of the middle.
async fn two_polls(fleet: &TestFleet) -> (Vec<String>, String) {
    let middle = 1_u64 << 63;
    let mut found: [Option<String>; 2] = [None, None];
    while found.iter().any(Option::is_none) {
        let (path, vote) = fleet.near.poll().await;
        let side = usize::from(poll_id(&path).hash() >= middle);
        found[side] = Some(vote);
    }
    let votes: Vec<String> = found.into_iter().flatten().collect();
    let line = |number: usize| {
        let mut names = votes[number % 2].split('/').skip(2).step_by(2);
        let (poll, item) = (names.next().unwrap(), names.next().unwrap());
        format!("{{\"pollID\":\"{poll}\",\"itemID\":\"{item}\",\"voterID\":\"v-{number}\"}}\n")
    };
    let lines = (0..100).map(line).collect();
    (votes, lines)
}

#[tokio::test]
async fn a_held_batch_is_divided_when_its_slice_is_split() {
    let fleet = TestFleet::new(|settings| settings.hold_max = Duration::from_millis(500));
    let (_, lines) = two_polls(&fleet).await;
    fleet.begin("shard-2").await;
    fleet.seal().await;
    let dividing = async {
        wait_until_held(&fleet.near.state, 1).await;
        fleet.commit();
        // The upper half becomes a separate slice at the same shard. The shard does not
        // know that slice, so its votes are refused, and the others must not wait for them.
        fleet.near.change_route(|route| {
            let mut upper = route.slices[0].clone();
            upper.slice = 1;
            upper.hash_from = 1 << 63;
            upper.moving = None;
            route.slices.push(upper);
        });
        fleet.activate().await;
    };
    let asking = fleet.near.ask_for_text("POST", "/votes", &lines);
    let (stream, ()) = tokio::join!(asking, dividing);
    let outcomes: Vec<_> = stream.lines().collect();
    assert_eq!(outcomes.len(), 100, "{stream}");
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let expected = match number % 2 {
            0 => "\"outcome\":\"counted\"",
            _ => "\"code\":\"unavailable\"",
        };
        assert!(outcome.contains(expected), "{number}: {outcome}");
    }
}

/// Uses a real connection, because the server decides what happens when it closes.
#[tokio::test]
async fn a_vote_whose_client_has_gone_is_never_cast() {
    let fleet = TestFleet::new(|_| {});
    let (poll, vote) = fleet.near.poll().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let paths = crate::router(fleet.near.state.clone());
    let serving = tokio::spawn(async move { axum::serve(listener, paths).await });
    fleet.begin("shard-2").await;
    fleet.seal().await;
    let send = async |name: &str| {
        let (key, body) = (&fleet.near.key, voter(name));
        let length = body.len();
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "PATCH {vote} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        client.write_all(request.as_bytes()).await.unwrap();
        client
    };
    let gone = send("ada").await;
    wait_until_held(&fleet.near.state, 1).await;
    let stays = send("bob").await;
    wait_until_held(&fleet.near.state, 2).await;
    drop(gone);
    wait_until_held(&fleet.near.state, 1).await;
    fleet.commit();
    fleet.activate().await;
    fleet.near.invalidate_route();
    wait_until_held(&fleet.near.state, 0).await;
    // The vote of the client that stayed was counted. By then the other one would have been
    // counted, too.
    stays.readable().await.unwrap();
    let route_key = fleet.shard("shard-2");
    let row = async |name| {
        let voter = VoterId::new(name).unwrap();
        route_key
            .voter(&slice(), poll_id(&poll), &voter)
            .await
            .unwrap()
    };
    let held = fleet.near.state.held_counts();
    assert_eq!((held.answered, held.gone, held.gave_up), (1, 1, 0));
    assert!(row("bob").await.is_some());
    assert!(row("ada").await.is_none());
    serving.abort();
}

/// Votes through a router until it is stopped; every vote must be answered.
async fn keep_voting(
    server: &TestRouter<TwoShards>,
    name: &str,
    vote: &str,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> BTreeSet<String> {
    let mut counted = BTreeSet::new();
    let mut epoch = 0;
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let voter_id = format!("{name}-{number}");
        let answer = server.ask("PATCH", vote, &voter(&voter_id)).await;
        assert_eq!(answer.body["outcome"], "counted", "{answer:?}");
        let at: u64 = answer.header("ballast-epoch").parse().unwrap();
        assert!(at >= epoch, "{at} after {epoch}");
        epoch = at;
        counted.insert(voter_id);
        done.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    counted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_router_is_harmless() {
    let fleet = Arc::new(TestFleet::new(|_| {}));
    let (poll, vote) = fleet.near.poll().await;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let more = async |votes: u64| {
        let wanted = done.load(Ordering::SeqCst) + votes;
        while done.load(Ordering::SeqCst) < wanted {
            tokio::task::yield_now().await;
        }
    };
    let voting = async {
        let crew = (0..4).map(|number| {
            let server = if number % 2 == 0 {
                &fleet.near
            } else {
                &fleet.far
            };
            let (vote, stop, done) = (&vote, &stop, &done);
            async move { keep_voting(server, &format!("v{number}"), vote, stop, done).await }
        });
        let counted = join_all(crew).await;
        counted.into_iter().flatten().collect::<BTreeSet<_>>()
    };
    let moving = async {
        // There, back and there again: an old epoch never becomes valid again.
        for to in ["shard-2", "shard-1", "shard-2"] {
            more(40).await;
            fleet.move_to(to).await;
            more(20).await;
            fleet.finish();
        }
        stop.store(true, Ordering::SeqCst);
    };
    let (counted, ()) = tokio::join!(voting, moving);
    let (poll, owner) = (poll_id(&poll), fleet.shard("shard-2"));
    let tally = owner.tally(&slice(), poll).await.unwrap();
    assert_eq!(
        (tally.voters, tally.total()),
        (counted.len() as u64, counted.len() as u64)
    );
    for name in &counted {
        let voter = VoterId::new(name).unwrap();
        let row = owner.voter(&slice(), poll, &voter).await.unwrap();
        assert!(
            row.is_some_and(|row| row.version.revision == 1),
            "{name} is lost or doubled"
        );
    }
}

/// The target has taken a vote, and the migration worker has stopped before retiring the source,
/// which is still sealed. A router with the old route reads the acknowledged vote even so.
#[tokio::test]
async fn reads_of_a_sealed_slice_are_confirmed() {
    let fleet = Arc::new(TestFleet::new(|_| {}));
    let (poll, vote) = fleet.near.poll().await;
    let voter = format!("{poll}/voters/ada");
    let unknown = fleet.far.ask("GET", &voter, "").await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
    fleet.begin("shard-2").await;
    fleet.seal().await;
    // Before the cutover the sealed source is read without waiting.
    assert_eq!(fleet.far.ask("GET", &voter, "").await.status, 404);
    fleet.commit();
    fleet.activate_target().await;
    fleet.near.invalidate_route();
    let counted = fleet.near.ask("PATCH", &vote, r#"{"voterID":"ada"}"#).await;
    assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
    let read = fleet.far.ask("GET", &voter, "").await;
    assert_eq!(read.status, 200, "{read:?}");
}
