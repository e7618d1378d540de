//! Actions on the console: they have the same effect as the admin API, and are in the audit log.

use crate::support::pages::{Browser, secret};
use crate::support::polls::Application;
use crate::support::{Instance, InstanceOptions, eventually, text};
use serde_json::{Value, json};

#[tokio::test]
async fn every_action_is_audited_with_actor_and_reason() {
    let it = Instance::start().await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let tenant = [
        ("id", "acme"),
        ("name", "Acme & Söhne"),
        ("reason", "a customer"),
    ];
    browser
        .submit("/console/tenants", "/console/tenants", &tenant)
        .await
        .expect(303);
    let newest = it.get("/events?limit=1").await["items"][0].clone();
    assert_eq!(newest["action"], "tenant.create");
    assert_eq!(newest["reason"], "a customer");
    assert_eq!(newest["actor"]["name"], "first-admin");
    assert_eq!(newest["actor"]["address"], "127.0.0.1");
    assert_eq!(newest["after"]["name"], "Acme & Söhne");
    let page = browser.get("/console/tenants/acme").await.expect(200);
    assert!(page.text.contains("Acme &amp; Söhne"));

    // A new key is shown once, works, and is rotated.
    let page = browser
        .submit_and_follow("/console/tenants/acme", "/console/tenants/acme/keys", &[])
        .await;
    let secret = secret(&page);
    assert_eq!(it.resolve(&secret).await.status, 200);
    // Loading the page again does not show the key, and creates no other.
    let again = browser.get("/console/tenants/acme").await;
    assert!(!again.text.contains(&secret));
    let keys = it.all("/keys?tenant=acme").await;
    assert_eq!(keys.len(), 1);
    let id = keys[0]["keyID"].as_str().unwrap().to_owned();
    let path = format!("/console/tenants/acme/keys/{id}/rotate");
    let page = browser
        .submit_and_follow("/console/tenants/acme", &path, &[("overlap", "0")])
        .await;
    let successor = self::secret(&page);
    assert_eq!(it.resolve(&successor).await.status, 200);
    eventually("the end of the old key", async || {
        (it.resolve(&secret).await.status == 401).then_some(())
    })
    .await;

    // A form with an old version is refused.
    let stale = [("version", "1"), ("votes", "7")];
    let limits = "/console/tenants/acme/limits";
    browser
        .submit("/console/tenants/acme", limits, &[("votes", "5")])
        .await
        .expect(303);
    browser
        .submit("/console/tenants/acme", limits, &stale)
        .await
        .expect(412);
    let page = browser
        .submit("/console/tenants/acme", limits, &[("votes", "many")])
        .await
        .expect(422);
    assert!(page.text.contains("votes"));
    assert_eq!(it.get("/tenants/acme").await["limits"]["votesPerSecond"], 5);
}

#[tokio::test]
async fn a_tenant_moves_and_comes_back() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({ "title": "Tabs?" })).await;
    for voter in 0..20 {
        assert_eq!(
            app.vote(&poll, voter % 2, &format!("v{voter}"))
                .await
                .status,
            200
        );
    }
    // A bar shows the share of all votes, not of the leader's.
    let page = Browser::logged_in(&it, &it.token)
        .await
        .get(&format!("/console/polls/acme/{}", poll.id))
        .await;
    assert_eq!(
        page.text.matches("class=\"fill\" width=\"50.00\"").count(),
        2
    );
    let from = it.get("/tenants/acme/placement").await["shardID"]
        .as_str()
        .unwrap()
        .to_owned();
    let to = if from == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let plan = browser
        .get(&format!("/console/tenants/acme/move?to={to}&window=3600"))
        .await
        .expect(200);
    for said in [
        "WaitForSync",
        "Start migration",
        "20 rows in 1 poll,",
        "about 20 ms",
    ] {
        assert!(plan.text.contains(said), "{said}");
    }
    let events = it.newest_event().await;
    let fields = [
        ("from", from.as_str()),
        ("to", to),
        ("slice", "0"),
        ("window", "3600"),
        ("reason", "relief"),
    ];
    let begun = browser
        .submit("/console", "/console/tenants/acme/move", &fields)
        .await
        .expect(303);
    assert!(it.newest_event().await > events);
    let page = begun.header("location").to_owned();
    let id = page.rsplit('/').next().unwrap().to_owned();
    wait_for(&it, &id, |body| body["phase"] == "MonitorDualRead").await;
    let shown = browser.get(&page).await.expect(200);
    for said in [
        "class=\"current\"",
        "MonitorDualRead",
        "Reverse",
        "Complete",
        "relief",
        "step ",
        "min left",
    ] {
        assert!(shown.text.contains(said), "{said}");
    }
    assert!(
        !shown.text.contains(&format!("{page}/cancel")),
        "it is too late for that"
    );
    browser
        .get(&format!("{page}/certificate"))
        .await
        .expect(404);
    browser
        .submit(&page, &format!("{page}/cancel"), &[])
        .await
        .expect(409);
    browser
        .submit(&page, &format!("{page}/reverse"), &[("reason", "not yet")])
        .await
        .expect(303);
    wait_for(&it, &id, |body| body["status"] == "reversed").await;
    let shown = browser.get(&page).await.expect(200);
    for said in ["Acknowledged", "On the way back", "equal", "not yet"] {
        assert!(shown.text.contains(said), "{said}");
    }
    let file = browser
        .get(&format!("{page}/certificate"))
        .await
        .expect(200);
    let signed: Value = serde_json::from_str(&file.text).unwrap();
    assert_eq!(signed["status"], "reversed");
    assert!(file.header("content-disposition").contains("attachment"));
    assert_eq!(
        app.newest(&poll).await["total"],
        20,
        "{:?}",
        app.newest(&poll).await
    );
}

async fn wait_for(it: &Instance, id: &str, is: impl Fn(&Value) -> bool) {
    eventually("the move", async || {
        let body = it.get(&format!("/migrations/{id}")).await;
        is(&body).then_some(())
    })
    .await;
}

#[tokio::test]
async fn live_updates_continue_after_a_migration() {
    let home = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let file = home.path().join("story.json");
    let tell = |words: &str, verdict: Value| {
        let chapter = json!({ "title": "People vote", "told": words, "state": "now" });
        let story = json!({ "chapters": [chapter], "verdict": verdict });
        std::fs::write(&file, story.to_string()).unwrap();
    };
    tell("it begins", Value::Null);
    let options = InstanceOptions {
        args: vec!["--story-file".to_owned(), file.to_str().unwrap().to_owned()],
        ..InstanceOptions::default()
    };
    let it = Instance::within(home.clone(), options).await;
    it.tenant("acme").await;
    let from = it.get("/tenants/acme/placement").await["shardID"].clone();
    let to = if from == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let body = json!({ "toShardID": to, "windowMs": 0 });
    let begun = it.call("POST", "/tenants/acme/move?reason=relief");
    let begun = begun.json(&body).send().await.expect(202);
    let id = text(&begun["migrationID"]);
    wait_for(&it, &id, |body| body["status"] == "completed").await;

    let browser = Browser::logged_in(&it, &it.token).await;
    let mut watched = browser.watch(&format!("/console/live/moves/{id}")).await;
    watched.until("it begins").await;
    tell("it goes on", Value::Null);
    watched.until("it goes on").await;
    let verdict = json!({ "kept": true, "words": "No vote was lost." });
    tell("it is over", verdict);
    let last = watched.wait_for_end().await;
    assert!(
        last.contains("No vote was lost.") && last.contains("event: end"),
        "{last}"
    );
}

#[tokio::test]
async fn a_share_link_shows_results_and_nothing_else() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({ "title": "Lunch" })).await;
    let hidden = app
        .poll(json!({ "title": "Later", "resultsHiddenUntilClosed": true }))
        .await;
    for voter in 0..3 {
        app.vote(&poll, 0, &format!("v{voter}")).await;
        app.vote(&hidden, 0, &format!("v{voter}")).await;
    }
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let mut anyone = Browser::new(&it);
    let path = format!("/console/polls/acme/{}/share", poll.id);
    browser
        .submit("/console", &path, &[("days", "0")])
        .await
        .expect(422);
    let made = browser
        .submit_and_follow("/console", &path, &[("days", "1")])
        .await;
    let link = secret(&made).replace(&it.router, "");
    let page = anyone.get(&link).await.expect(200);
    assert!(page.text.contains("Lunch") && page.text.contains("3 votes by 3 voters"));
    assert!(!page.text.contains("acme") && !page.text.contains("csrf"));
    anyone
        .get(&format!("{}x", &link[..link.len() - 1]))
        .await
        .expect(404);
    assert_eq!(
        anyone
            .get(&format!("/console/polls/acme/{}", poll.id))
            .await
            .status,
        303
    );
    // The link can be removed, and the audit log says who did it.
    let poll_page = format!("/console/polls/acme/{}", poll.id);
    let shown = browser.get(&poll_page).await.expect(200).text;
    let (_, rest) = shown.split_once(&format!("{path}/")).unwrap();
    let share = rest.split('/').next().unwrap();
    let remove = format!("{path}/{share}/remove");
    let other = format!("/console/polls/acme/{}/share/{share}/remove", hidden.id);
    browser.submit("/console", &other, &[]).await.expect(404);
    anyone.get(&link).await.expect(200);
    let mut watched = anyone.watch(&format!("{link}/live")).await;
    watched.until("3 votes by 3 voters").await;
    app.vote(&poll, 0, "v3").await;
    watched.until("4 votes by 4 voters").await;
    let why = [("reason", "the show is over")];
    browser.submit("/console", &remove, &why).await.expect(303);
    let gone = anyone.get(&link).await.expect(404);
    assert!(gone.text.contains("was removed"), "{}", gone.text);
    // An open page gets no more updates either, however many votes arrive.
    let voting = async {
        for voter in 4.. {
            app.vote(&poll, 0, &format!("v{voter}")).await;
        }
    };
    let last = tokio::select! {
        last = watched.wait_for_end() => last,
        () = voting => String::new(),
    };
    assert!(last.contains("event: over"), "{last}");
    let shown = browser.get(&poll_page).await.expect(200).text;
    assert!(!shown.contains("/remove"), "{shown}");
    let events = it.all("/events?kind=share").await;
    let reply: Vec<_> = events.iter().map(|event| text(&event["action"])).collect();
    assert_eq!(reply, ["share.remove", "share.create"]);
    assert_eq!(events[0]["reason"], "the show is over");
    assert_eq!(events[1]["after"]["pollID"], poll.id.as_str());
    let path = format!("/console/polls/acme/{}/share", hidden.id);
    let made = browser
        .submit_and_follow("/console", &path, &[("days", "1")])
        .await;
    let page = anyone
        .get(&secret(&made).replace(&it.router, ""))
        .await
        .expect(200);
    assert!(page.text.contains("when the poll has closed") && !page.text.contains("3 votes"));
}

#[tokio::test]
async fn events_are_filtered_and_downloaded() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    it.tenant("other").await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let page = browser
        .get("/console/events?kind=tenant&id=acme")
        .await
        .expect(200);
    assert!(page.text.contains("tenant.create") && !page.text.contains(">other<"));
    let csv = browser
        .get("/console/events.csv?kind=tenant")
        .await
        .expect(200);
    assert_eq!(csv.text.lines().count(), 3, "{}", csv.text);
    assert!(csv.header("content-disposition").contains("events.csv"));
    let lines = browser.get("/console/events.ndjson").await.expect(200);
    let all = it.all("/events").await;
    assert_eq!(lines.text.lines().count(), all.len());
    for line in lines.text.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    browser
        .get("/console/events?kind=nonsense")
        .await
        .expect(422);
    browser
        .get("/console/events?since=yesterday")
        .await
        .expect(422);
}

#[tokio::test]
async fn shards_are_added_weighed_drained_and_removed() {
    let it = Instance::start().await;
    for number in 0..12 {
        it.tenant(&format!("t{number}")).await;
    }
    let mut browser = Browser::logged_in(&it, &it.token).await;
    browser
        .submit(
            "/console/shards",
            "/console/shards",
            &[("id", "shard-9"), ("weight", "2")],
        )
        .await
        .expect(303);
    browser
        .submit(
            "/console/shards",
            "/console/shards/shard-9",
            &[("weight", "0.5"), ("zones", "")],
        )
        .await
        .expect(303);
    assert_eq!(it.get("/shards/shard-9").await["weight"], 0.5);
    browser
        .submit(
            "/console/shards",
            "/console/shards/shard-9",
            &[("weight", "-1")],
        )
        .await
        .expect(422);
    let plan = browser.get("/console/shards/shard-1").await.expect(200);
    assert!(plan.text.contains("Show the drain plan"));
    let fields = [
        ("window", "0"),
        ("concurrency", "4"),
        ("sync", "on"),
        ("reason", "old disk"),
    ];
    browser
        .submit(
            "/console/shards/shard-1",
            "/console/shards/shard-1/drain",
            &fields,
        )
        .await
        .expect(303);
    eventually("an empty shard", async || {
        let page = browser.get("/console/shards/shard-1").await.expect(200);
        page.text.contains(">empty<").then_some(())
    })
    .await;
    let moves = it.get("/migrations?from=shard-1").await;
    let moves = moves["items"].as_array().unwrap();
    assert!(!moves.is_empty(), "twelve tenants are on every shard");
    for one in moves {
        assert_eq!(one["terms"]["sync"], true, "as it was ticked: {one}");
    }
    browser
        .submit(
            "/console/shards/shard-1",
            "/console/shards/shard-1/remove",
            &[],
        )
        .await
        .expect(303);
    browser.get("/console/shards/shard-1").await.expect(404);
}

#[tokio::test]
async fn settings_are_shown_checked_and_reloaded() {
    let config = "[keys]\nrotate_overlap = \"3h\"\n".to_owned();
    let it = Instance::with(InstanceOptions {
        config: Some(config),
        ..InstanceOptions::default()
    })
    .await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let page = browser.get("/console/settings").await.expect(200);
    assert!(
        page.text.contains("rotate_overlap = &quot;3h&quot;"),
        "{}",
        page.text
    );
    let check = "/console/settings/check";
    let good = browser
        .submit(
            "/console",
            check,
            &[("text", "[keys]\nrotate_overlap = \"1h\"\n")],
        )
        .await
        .expect(200);
    assert!(good.text.contains("is valid"));
    let bad = browser
        .submit(
            "/console",
            check,
            &[("text", "[keys]\nrotate_overlp = \"1h\"\n")],
        )
        .await
        .expect(200);
    assert!(bad.text.contains("did you mean"), "{}", bad.text);
    std::fs::write(
        it.home().join("ballast.toml"),
        "[keys]\nrotate_overlap = \"5h\"\n",
    )
    .unwrap();
    browser
        .submit(
            "/console",
            "/console/settings/reload",
            &[("reason", "longer")],
        )
        .await
        .expect(303);
    let events = it.all("/events?kind=settings").await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["action"], "settings.reload");
    assert_eq!(events[0]["reason"], "longer");
    assert_eq!(events[0]["after"]["keys"]["rotate_overlap"], "5h");
    let page = browser.get("/console/settings").await.expect(200);
    assert!(page.text.contains("rotate_overlap = &quot;5h&quot;"));
    std::fs::write(it.home().join("ballast.toml"), "nonsense").unwrap();
    let refused = browser
        .submit("/console", "/console/settings/reload", &[])
        .await
        .expect(200);
    assert!(refused.text.contains("Nothing was changed"));
    assert_eq!(it.all("/events?kind=settings").await.len(), 1);
}

/// In its window a slice has left: it is no slice that is left on its old shard, and it is not
/// moving to the shard that it is on.
#[tokio::test]
async fn a_slice_in_its_window_has_left() {
    let it = Instance::start().await;
    for number in 0..8 {
        it.tenant(&format!("t{number}")).await;
    }
    let tenant = it.get("/tenants/t0").await;
    let shard = text(&tenant["slices"][0]["shardID"]);
    let held = it.get(&format!("/shards/{shard}")).await["slices"].clone();
    let held = held.as_u64().unwrap();
    let drain = format!("/shards/{shard}/drain");
    let call = it
        .call("POST", &drain)
        .json(&json!({"windowMs": 7_200_000}));
    call.send().await.expect(202);
    let open = format!("/migrations?open=true&from={shard}");
    eventually("every slice is in its window", async || {
        let open = it.all(&open).await;
        let windows = open.iter().filter(|one| one["phase"] == "MonitorDualRead");
        (windows.count() as u64 == held).then_some(())
    })
    .await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let tenants = browser.get("/console/tenants").await.expect(200);
    assert!(!tenants.text.contains("moving to"), "{}", tenants.text);
    assert!(
        tenants.text.contains("reversible until"),
        "{}",
        tenants.text
    );
    let page = browser.get(&format!("/console/shards/{shard}")).await;
    let page = page.expect(200).text;
    let all = format!("{held} of {held} tenants moved");
    assert!(page.contains(&all), "{page}");
    assert!(page.contains("in 1 h 59 min"), "{page}");
    let shown = it.get(&drain).await;
    assert_eq!(shown["slicesLeft"], 0, "{shown}");
    assert_eq!(shown["slicesAtStart"], held, "{shown}");
    assert_eq!(shown["copies"], held, "{shown}");
}
