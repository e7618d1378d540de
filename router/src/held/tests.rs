//! Requests that wait while their slice moves.

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
use crate::testing::{Pair, TestRouter, Town, slice};
use crate::{HeldFor, RouterState};

fn voter(name: &str) -> String {
    format!(r#"{{"voterID":"{name}"}}"#)
}

/// Waits until so many requests wait.
async fn waiting(state: &RouterState, wanted: usize) {
    while state.parts.held.in_use() != wanted {
        tokio::task::yield_now().await;
    }
}

/// A poll's path becomes its id.
fn poll_of(path: &str) -> ballast_domain::PollId {
    path.trim_start_matches("/polls/").parse().unwrap()
}

#[tokio::test]
async fn those_who_wait_go_on_together_when_the_slice_has_moved() {
    let town = Town::new(|_| {});
    let (poll, vote) = town.near.poll().await;
    town.begin("shard-2").await;
    town.seal().await;
    let names: Vec<String> = (0..50).map(|number| format!("v-{number}")).collect();
    let votes = names.iter().map(|name| {
        let (house, vote) = (&town.near, &vote);
        async move { house.ask("PATCH", vote, &voter(name)).await }
    });
    let moving = async {
        waiting(&town.near.state, 50).await;
        town.commit();
        // Everybody goes on, and finds a shard that has not been told yet.
        town.near.hears_of_route();
        let asked = town.shards.asked();
        town.shards.is_asked(asked + 10).await;
        assert_eq!(town.near.state.parts.held.in_use(), 50);
        town.activate().await;
    };
    let (answers, ()) = tokio::join!(join_all(votes), moving);
    for counted in answers {
        assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
        assert_eq!(counted.header("ballast-epoch"), "3");
        assert_eq!(counted.header("ballast-shard"), "shard-2");
    }
    let tally = town.shard("shard-2").tally(&slice(), poll_of(&poll)).await;
    assert_eq!(tally.unwrap().voters, 50);
    waiting(&town.near.state, 0).await;
    let held = town.near.state.held_counts();
    assert_eq!((held.answered, held.gave_up, held.refused), (50, 0, 0));
}

/// A second's votes of a busy tenant, by the caps that come with Ballast.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seconds_votes_of_a_busy_tenant_can_wait() {
    let town = Arc::new(Town::new(|settings| {
        (settings.held_max, settings.held_per_tenant_max) = (20_000, 10_000);
        settings.held_bytes_max = 128 << 20;
        settings.held_bytes_per_tenant_max = 64 << 20;
    }));
    let (poll, vote) = town.near.poll().await;
    town.begin("shard-2").await;
    town.seal().await;
    // Each in a task of its own, as connections are.
    let mut votes = tokio::task::JoinSet::new();
    for number in 0..5_000 {
        let (town, vote) = (town.clone(), vote.clone());
        let body = voter(&format!("v-{number}"));
        votes.spawn(async move { town.near.ask_directly("PATCH", &vote, &body).await });
    }
    waiting(&town.near.state, 5_000).await;
    town.commit();
    town.activate().await;
    town.near.hears_of_route();
    let answers = votes.join_all().await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    let tally = town.shard("shard-2").tally(&slice(), poll_of(&poll)).await;
    assert_eq!(tally.unwrap().voters, 5_000);
    let held = town.near.state.held_counts();
    assert_eq!((held.answered, held.gave_up, held.refused), (5_000, 0, 0));
}

#[tokio::test]
async fn a_router_that_hears_nothing_finds_the_new_route_by_itself() {
    let town = Town::new(|_| {});
    let (_, vote) = town.far.poll().await;
    town.begin("shard-2").await;
    town.seal().await;
    let moving = async {
        waiting(&town.far.state, 1).await;
        town.commit();
        town.activate().await;
    };
    let body = voter("ada");
    let (counted, ()) = tokio::join!(town.far.ask("PATCH", &vote, &body), moving);
    assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
    assert_eq!(counted.header("ballast-epoch"), "3");
}

#[tokio::test]
async fn a_move_that_is_called_off_lets_everybody_go_on_where_they_were() {
    let town = Town::new(|_| {});
    let (_, vote) = town.near.poll().await;
    town.begin("shard-2").await;
    town.seal().await;
    let calling_off = async {
        waiting(&town.near.state, 1).await;
        town.call_off().await;
        town.near.hears_of_route();
    };
    let body = voter("ada");
    let (counted, ()) = tokio::join!(town.near.ask("PATCH", &vote, &body), calling_off);
    assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
    assert_eq!(counted.header("ballast-shard"), "shard-1");
    assert_eq!(counted.header("ballast-epoch"), "4");
}

#[tokio::test]
async fn many_who_ask_for_the_same_route_share_one_reading() {
    let house = TestRouter::new(|_| {});
    house.poll().await;
    let now = house.state.parts.clock.now();
    let stale = {
        let id = "acme".parse().unwrap();
        house.state.parts.routes.tenant(&id, now).await.unwrap()
    };
    let before = house.source.routes_read();
    let refreshing = (0..25).map(|_| house.state.parts.routes.refresh(&stale, now));
    join_all(refreshing).await;
    // The first has begun when the others ask: it may be too old for them.
    assert_eq!(house.source.routes_read(), before + 2);
    // When nothing is kept, the first will do.
    house.hears_of_route();
    let id = "acme".parse().unwrap();
    let reading = (0..25).map(|_| house.state.parts.routes.tenant(&id, now));
    for route in join_all(reading).await {
        assert_eq!(route.unwrap().tenant_id, id);
    }
    assert_eq!(house.source.routes_read(), before + 3);
}

#[tokio::test]
async fn whoever_is_not_the_scout_is_told_and_need_not_ask() {
    let town = Town::new(|_| {});
    let (poll, _) = town.near.poll().await;
    let state = &town.near.state;
    let key = crate::read_key(&town.near.key).unwrap();
    let access = crate::admit::authenticate(state, key).await.unwrap();
    let route_key = RouteKey::Poll(poll_of(&poll));
    let held = || PendingRequest::new(state, &access.tenant.tenant_id, &route_key, 1);
    let away = || ShardError::unavailable("away");
    let route = state.route(&access.tenant.tenant_id).await.unwrap();
    let (mut first, mut second, mut third) = (held(), held(), held());
    first.wait(&route, away()).await.unwrap();
    assert!(first.wait_state.as_ref().unwrap().scout.is_some());
    {
        let reads = town.source.routes_read();
        let sealed = ShardError::Fenced(FenceError::Sealed { epoch: Epoch(2) });
        let mut waiting = pin!(second.wait(&route, sealed));
        assert!(poll_immediate(&mut waiting).await.is_none());
        assert_eq!(town.source.routes_read(), reads, "the scout reads for all");
        town.near.hears_of_route();
        let news = poll_immediate(&mut waiting).await;
        assert!(news.is_none(), "the route leads where it did");
        first.answered();
        assert!(poll_immediate(&mut waiting).await.is_some());
    }
    assert!(second.wait_state.as_ref().unwrap().scout.is_none());
    {
        let mut waiting = pin!(third.wait(&route, away()));
        assert!(poll_immediate(&mut waiting).await.is_none());
        town.source.set_epoch("acme", Epoch(9));
        town.near.hears_of_route();
        waiting.await.unwrap();
    }
    assert_eq!(third.attempt, 0, "it begins anew elsewhere");
}

#[tokio::test]
async fn an_answer_says_which_route_was_tried_in_vain() {
    let town = Town::new(|settings| settings.hold_max = Duration::from_millis(20));
    let (_, vote) = town.near.poll().await;
    town.move_to("shard-2").await;
    town.shards.set_away("shard-2", true);
    let refused = town.near.ask("PATCH", &vote, &voter("ada")).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.header("ballast-epoch"), "3");
    assert_eq!(refused.header("ballast-shard"), "shard-2");
    assert_eq!(town.near.state.held_counts().gave_up, 1);
}

/// As if somebody had put an old copy of the registry in its place.
#[tokio::test]
async fn a_registry_that_is_older_than_its_shards_is_noticed() {
    let town = Town::new(|settings| settings.hold_max = Duration::from_millis(20));
    let (_, vote) = town.far.poll().await;
    let asked = async |router: &TestRouter<Pair>| {
        let answer = router.ask("PATCH", &vote, &voter("ada")).await;
        (answer.status, router.state.stale_registry_count())
    };
    town.move_to("shard-2").await;
    town.source.set_epoch("acme", Epoch::FIRST);
    town.near.hears_of_route();
    assert_eq!(asked(&town.near).await, (503, 1));
    // It is looked into now and then, not for each who waits.
    assert_eq!(asked(&town.near).await, (503, 1));
    // A router that is behind, and cannot ask, knows nothing of the registry.
    town.source.go_away();
    assert_eq!(asked(&town.far).await, (503, 0));
}

#[tokio::test]
async fn only_so_many_bytes_wait() {
    let town = Town::new(|settings| settings.held_bytes_per_tenant_max = 30_000);
    let (_, vote) = town.near.poll().await;
    let mut names = vote.split('/').skip(2).step_by(2);
    let (poll, item) = (names.next().unwrap(), names.next().unwrap());
    let line = |number| {
        format!("{{\"pollID\":\"{poll}\",\"itemID\":\"{item}\",\"voterID\":\"v-{number}\"}}\n")
    };
    let lines: String = (0..400).map(line).collect();
    town.begin("shard-2").await;
    town.seal().await;
    let second = async {
        waiting(&town.near.state, 1).await;
        let refused = town.near.ask("PATCH", &vote, &voter("ada")).await;
        town.commit();
        town.activate().await;
        refused
    };
    let (stream, refused) = tokio::join!(town.near.ask_for_text("POST", "/votes", &lines), second);
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (503, &"busy".into())
    );
    let held = town.near.state.held_counts();
    assert_eq!((held.answered, held.gone, held.refused), (1, 0, 1));
    let counted = stream.lines().filter(|line| line.contains("\"counted\""));
    assert_eq!(counted.count(), 400, "{stream}");
}

#[tokio::test]
async fn the_time_of_a_wait_is_told_apart() {
    let town = Town::new(|_| {});
    let (_, vote) = town.near.poll().await;
    town.begin("shard-2").await;
    town.seal().await;
    let moving = async {
        waiting(&town.near.state, 1).await;
        town.clock.advance(40);
        town.commit();
        town.activate().await;
        town.near.hears_of_route();
    };
    let body = voter("ada");
    let (response, ()) = tokio::join!(town.near.ask_raw("PATCH", &vote, &body), moving);
    assert_eq!(response.status(), 200);
    let own = HeldFor::without(&response, Duration::from_millis(45));
    assert_eq!(own, Duration::from_millis(5));
    assert_eq!(town.near.state.held_counts().ms, 40);
    // One that did not wait.
    let response = town.near.ask_raw("PATCH", &vote, &body).await;
    let elapsed = Duration::from_millis(45);
    assert_eq!(HeldFor::without(&response, elapsed), elapsed);
}

/// Lines of votes for two polls, one on each side of the middle.
async fn two_polls(town: &Town) -> (Vec<String>, String) {
    let middle = 1_u64 << 63;
    let mut found: [Option<String>; 2] = [None, None];
    while found.iter().any(Option::is_none) {
        let (path, vote) = town.near.poll().await;
        let side = usize::from(poll_of(&path).hash() >= middle);
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
async fn a_batch_whose_slice_is_divided_meanwhile_is_divided_too() {
    let town = Town::new(|settings| settings.hold_max = Duration::from_millis(500));
    let (_, lines) = two_polls(&town).await;
    town.begin("shard-2").await;
    town.seal().await;
    let dividing = async {
        waiting(&town.near.state, 1).await;
        town.commit();
        // The upper half becomes a slice of its own, at the same shard. The
        // shard has never heard of it: those of its votes are refused, and the
        // others must not wait for them.
        town.near.change_route(|route| {
            let mut upper = route.slices[0].clone();
            upper.slice = 1;
            upper.hash_from = 1 << 63;
            upper.moving = None;
            route.slices.push(upper);
        });
        town.activate().await;
    };
    let asking = town.near.ask_for_text("POST", "/votes", &lines);
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

/// The connection is real: what happens when it closes is the server's doing.
#[tokio::test]
async fn a_vote_whose_client_has_gone_is_never_cast() {
    let town = Town::new(|_| {});
    let (poll, vote) = town.near.poll().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let paths = crate::router(town.near.state.clone());
    let serving = tokio::spawn(async move { axum::serve(listener, paths).await });
    town.begin("shard-2").await;
    town.seal().await;
    let send = async |name: &str| {
        let (key, body) = (&town.near.key, voter(name));
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
    waiting(&town.near.state, 1).await;
    let stays = send("bob").await;
    waiting(&town.near.state, 2).await;
    drop(gone);
    waiting(&town.near.state, 1).await;
    town.commit();
    town.activate().await;
    town.near.hears_of_route();
    waiting(&town.near.state, 0).await;
    // Whoever stayed was counted; by then the other would have been, too.
    stays.readable().await.unwrap();
    let route_key = town.shard("shard-2");
    let row = async |name| {
        let voter = VoterId::new(name).unwrap();
        route_key
            .voter(&slice(), poll_of(&poll), &voter)
            .await
            .unwrap()
    };
    let held = town.near.state.held_counts();
    assert_eq!((held.answered, held.gone, held.gave_up), (1, 1, 0));
    assert!(row("bob").await.is_some());
    assert!(row("ada").await.is_none());
    serving.abort();
}

/// Votes through a router until it is told to stop; every answer must be one.
async fn keep_voting(
    house: &TestRouter<Pair>,
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
        let answer = house.ask("PATCH", vote, &voter(&voter_id)).await;
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
    let town = Arc::new(Town::new(|_| {}));
    let (poll, vote) = town.near.poll().await;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let more = async |votes: u64| {
        let wanted = done.load(Ordering::SeqCst) + votes;
        while done.load(Ordering::SeqCst) < wanted {
            tokio::task::yield_now().await;
        }
    };
    let voting = async {
        let crew = (0..4).map(|number| {
            let house = if number % 2 == 0 {
                &town.near
            } else {
                &town.far
            };
            let (vote, stop, done) = (&vote, &stop, &done);
            async move { keep_voting(house, &format!("v{number}"), vote, stop, done).await }
        });
        let counted = join_all(crew).await;
        counted.into_iter().flatten().collect::<BTreeSet<_>>()
    };
    let moving = async {
        // There, back and there again: an epoch of before never comes back.
        for to in ["shard-2", "shard-1", "shard-2"] {
            more(40).await;
            town.move_to(to).await;
            more(20).await;
            town.finish();
        }
        stop.store(true, Ordering::SeqCst);
    };
    let (counted, ()) = tokio::join!(voting, moving);
    let (poll, owner) = (poll_of(&poll), town.shard("shard-2"));
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

/// The target has taken a vote, and whoever moves the slice has stopped before
/// the source was told: it is still sealed. A router that has not heard of the
/// cutover reads what was acknowledged even so.
#[tokio::test]
async fn what_is_read_from_a_sealed_slice_is_confirmed() {
    let town = Arc::new(Town::new(|_| {}));
    let (poll, vote) = town.near.poll().await;
    let voter = format!("{poll}/voters/ada");
    let unknown = town.far.ask("GET", &voter, "").await;
    assert_eq!(unknown.status, 404, "{unknown:?}");
    town.begin("shard-2").await;
    town.seal().await;
    // Before it is decided the sealed source is read, and nobody waits.
    assert_eq!(town.far.ask("GET", &voter, "").await.status, 404);
    town.commit();
    town.activate_target().await;
    town.near.hears_of_route();
    let counted = town.near.ask("PATCH", &vote, r#"{"voterID":"ada"}"#).await;
    assert_eq!(counted.body["outcome"], "counted", "{counted:?}");
    let read = town.far.ask("GET", &voter, "").await;
    assert_eq!(read.status, 200, "{read:?}");
}
