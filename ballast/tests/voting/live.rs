//! Journey: results are read and watched, before and after kill -9.

use crate::support::polls::{Application, TestPoll, Watcher};
use crate::support::{Instance, InstanceOptions, eventually, in_ms, run_concurrently, text};
use serde_json::json;

#[tokio::test]
async fn results_are_fresh_and_known_ones_are_not_sent_again() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let read = || app.call("GET", &poll.path("/votes"));
    let empty = read().send().await;
    assert_eq!(empty.header("cache-control"), "public, max-age=1");
    assert_eq!(empty.header("vary"), "x-api-key, authorization");
    assert_eq!(empty.header("ballast-tenant"), "acme");
    assert_eq!(empty.body["total"], 0);
    let tag = empty.header("etag").to_owned();
    let known = read().header("if-none-match", &tag).send().await;
    assert_eq!((known.status, &*known.text), (304, ""));
    assert_eq!(known.header("etag"), tag);
    app.vote(&poll, 0, "ada").await.expect(200);
    assert_eq!(app.newest(&poll).await["total"], 1);
    let now = read().header("if-none-match", &tag).send().await;
    assert_eq!(now.expect(200)["total"], 1, "what was read through is kept");
    app.vote(&poll, 0, "bob").await.expect(200);
    eventually("the live view", async || {
        let results = read().send().await.expect(200);
        (results["total"] == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn hidden_results_show_when_the_poll_has_closed() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({ "resultsHiddenUntilClosed": true })).await;
    app.vote(&poll, 0, "ada").await.expect(200);
    for path in ["/votes", "/votes/live"] {
        let refused = app.call("GET", &poll.path(path)).send().await;
        refused.expect_error(403, "results-hidden");
    }
    close(&app, &poll).await;
    let shown = app.get(&poll.path("/votes")).await;
    assert_eq!(
        (&shown["total"], &shown["state"]),
        (&json!(1), &json!("closed"))
    );
}

async fn close(app: &Application, poll: &TestPoll) {
    app.call("POST", &poll.path("/close"))
        .send()
        .await
        .expect(200);
}

#[tokio::test]
async fn watchers_see_results_change_in_order_until_the_end() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let mut watcher = app.watch(&poll, None).await;
    let first = watcher.event().await.unwrap();
    assert_eq!((&*first.name, &first.data["total"]), ("results", &json!(0)));
    let votes = 40;
    for number in 0..votes {
        app.vote(&poll, 1, &format!("v{number}")).await.expect(200);
    }
    let mut last: u128 = first.id.parse().unwrap();
    let (mut total, mut events) = (0, 0);
    while total < votes {
        let event = watcher.event().await.unwrap();
        let id = event.id.parse().unwrap();
        let now = event.data["total"].as_u64().unwrap();
        assert!(id > last && now > total, "{event:?} after {last}, {total}");
        assert_eq!(event.data["items"][0]["itemID"], poll.items[1]);
        (last, total, events) = (id, now, events + 1);
    }
    assert!(events < votes, "they are gathered, not sent one by one");
    close(&app, &poll).await;
    let end = watcher.event().await.unwrap();
    assert_eq!(
        (&*end.name, &end.data["state"]),
        ("results", &json!("closed"))
    );
    let closed = watcher.event().await.unwrap();
    assert_eq!(closed.name, "closed");
    assert_eq!(closed.data["pollID"], poll.id);
    assert!(closed.data["closedAt"].is_string());
    assert!(watcher.event().await.is_none(), "that was the last event");
    // A late viewer gets both events at once; one that has seen the end is answered with "do not reconnect".
    let mut late = app.watch(&poll, None).await;
    let names = [
        late.event().await.unwrap().name,
        late.event().await.unwrap().name,
    ];
    assert_eq!(names, ["results", "closed"]);
    assert!(late.event().await.is_none());
    assert_eq!(app.watch(&poll, Some(&closed.id)).await.status, 204);
    let mut almost = app.watch(&poll, Some(&end.id)).await;
    assert_eq!(almost.event().await.unwrap().name, "closed");
}

#[tokio::test]
async fn watchers_resume_after_the_last_event() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    app.vote(&poll, 0, "ada").await.expect(200);
    let seen = app.watch(&poll, None).await.total(1).await;
    // The same results may be sent once more with their final id.
    let mut again = app.watch(&poll, Some(&seen.id)).await;
    app.vote(&poll, 0, "bob").await.expect(200);
    let next = again.total(2).await;
    assert!(next.id.parse::<u128>().unwrap() > seen.id.parse().unwrap());
    let mut known = app.watch(&poll, Some(&next.id)).await;
    assert_eq!(
        known.next().await.unwrap().name,
        "",
        "nothing new: a comment"
    );
    let mut behind = app.watch(&poll, Some(&seen.id)).await;
    assert_eq!(behind.event().await.unwrap().data["total"], 2);
    let mut nonsense = app.watch(&poll, Some("nonsense")).await;
    assert_eq!(nonsense.event().await.unwrap().data["total"], 2);
}

#[tokio::test]
async fn watchers_see_a_poll_open_and_expire() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let times = json!({ "openingTime": in_ms(800), "expirationTime": in_ms(2_000) });
    let poll = app.poll(times).await;
    let mut watcher = app.watch(&poll, None).await;
    let mut last = 0_u128;
    for state in ["scheduled", "open", "closed"] {
        let event = watcher.event().await.unwrap();
        assert_eq!(
            (&*event.name, &event.data["state"]),
            ("results", &json!(state))
        );
        let id = event.id.parse().unwrap();
        assert!(id > last, "{id} after {last}");
        last = id;
    }
}

#[tokio::test]
async fn the_number_of_viewers_is_limited() {
    let config = "[router]\nviewers_max = 3\nviewers_per_tenant_max = 2\n";
    let options = InstanceOptions {
        config: Some(config.to_owned()),
        ..InstanceOptions::default()
    };
    let it = Instance::with(options).await;
    let (app, other) = (
        Application::create(&it, "acme").await,
        Application::create(&it, "beta").await,
    );
    let (poll, theirs) = (app.poll(json!({})).await, other.poll(json!({})).await);
    let live = poll.path("/votes/live");
    let mut watching: Vec<Watcher> = Vec::new();
    for _ in 0..2 {
        watching.push(app.watch(&poll, None).await);
    }
    let refused = app.call("GET", &live).send().await;
    assert!(!refused.header("retry-after").is_empty());
    refused.expect_error(503, "busy");
    watching.push(other.watch(&theirs, None).await);
    let refused = other.call("GET", &theirs.path("/votes/live")).send().await;
    refused.expect_error(503, "busy");
    assert!(watching.iter().all(|watcher| watcher.status == 200));
    watching.clear();
    eventually("a free viewer slot", async || {
        (app.watch(&poll, None).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn revoking_a_key_disconnects_its_viewers() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let (id, key) = it.key("acme").await;
    let viewer = Application {
        http: app.http.clone(),
        router: app.router.clone(),
        key,
    };
    let mut watcher = viewer.watch(&poll, None).await;
    assert_eq!(watcher.event().await.unwrap().name, "results");
    it.act(&format!("/keys/{id}/revoke")).await;
    while watcher.next().await.is_some() {}
}

#[tokio::test]
async fn watchers_do_not_delay_a_stop() {
    let mut it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let mut watcher = app.watch(&poll, None).await;
    assert_eq!(watcher.event().await.unwrap().name, "results");
    it.process().signal("TERM");
    while watcher.next().await.is_some() {}
    let ended = it.process().wait_for_end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_votes_are_shown_after_kill_9() {
    let mut it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let mut floor = 0;
    for round in 0..3 {
        let calls: Vec<_> = (0..300)
            .map(|number| {
                let call = app.call("PATCH", &poll.vote(number % 2));
                let call = call.header("voter-id", &format!("r{round}-{number}"));
                std::sync::Mutex::new(Some(call))
            })
            .collect();
        let calls = std::sync::Arc::new(calls);
        let sending = tokio::spawn(run_concurrently(16, calls.len(), {
            let calls = calls.clone();
            move |number| {
                let call = calls[number].lock().unwrap().take().unwrap();
                async move { call.try_send().await }
            }
        }));
        let mut watcher = app.watch(&poll, None).await;
        // Some votes are counted and shown, others are in flight.
        let shown = eventually("votes are counted", async || {
            let event = watcher.event().await.unwrap();
            let total = event.data["total"].as_u64().unwrap();
            (total > floor).then_some(total)
        })
        .await;
        it.kill9();
        let answers = sending.await.unwrap();
        let acknowledged = answers
            .iter()
            .flatten()
            .filter(|answer| answer.body["outcome"] == "counted")
            .count() as u64;
        it = it.restart().await;
        // Even the first answer lacks nothing.
        let first = eventually("results are answered", async || {
            let answer = app.call("GET", &poll.path("/votes")).send().await;
            assert!([200, 503].contains(&answer.status), "{}", answer.text);
            (answer.status == 200).then_some(answer.body)
        })
        .await;
        let total = first["total"].as_u64().unwrap();
        assert!(
            total >= floor + acknowledged,
            "{total} < {floor} + {acknowledged}"
        );
        assert!(total >= shown, "{total} was {shown} before");
        assert_eq!(app.newest(&poll).await["total"], total);
        floor = total;
    }
    let items = app.newest(&poll).await["items"].clone();
    assert!(
        items
            .as_array()
            .unwrap()
            .iter()
            .all(|item| !text(&item["itemName"]).is_empty())
    );
}

#[tokio::test]
async fn a_total_never_falls_while_many_vote_and_many_read() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let voting = async {
        for round in 0..20 {
            let lines: String = (0..500)
                .map(|number| poll.line(number % 2, &format!("r{round}-{number}")))
                .collect();
            app.send_lines(lines).await;
        }
    };
    let reading = async {
        let (mut last, mut newest) = (0, false);
        while last < 10_000 {
            newest = !newest;
            let control = if newest { "no-cache" } else { "max-age=0" };
            let call = app.call("GET", &poll.path("/votes"));
            let results = call.header("cache-control", control).send().await;
            let total = results.expect(200)["total"].as_u64().unwrap();
            assert!(total >= last, "{total} after {last}");
            last = total;
        }
    };
    let watching = async {
        let mut watcher = app.watch(&poll, None).await;
        let (mut last, mut total) = (0_u128, 0);
        while total < 10_000 {
            let event = watcher.event().await.unwrap();
            let (id, now) = (event.id.parse().unwrap(), event.data["total"].as_u64());
            assert!(id > last && now >= Some(total), "{event:?}");
            (last, total) = (id, now.unwrap());
        }
    };
    tokio::join!(voting, reading, watching);
}
