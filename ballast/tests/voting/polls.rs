//! Journey: polls are created, listed, closed and exported.

use crate::support::polls::{Application, TestPoll};
use crate::support::problem::assert_problem;
use crate::support::{Instance, in_ms, text};
use serde_json::{Value, json};

#[tokio::test]
async fn a_poll_is_created_read_and_closed() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let body = json!({
        "title": "Indentation", "items": ["Tabs", { "itemName": "Spaces", "description": "4" }],
        "expirationTime": "9999-12-31T23:59:59Z", "lanes": 4,
    });
    let made = app.call("POST", "/polls").json(&body).send().await;
    let location = made.header("location").to_owned();
    let made = made.expect(201);
    assert_eq!(location, format!("/polls/{}", text(&made["pollID"])));
    for (field, value) in [
        ("title", json!("Indentation")),
        ("expirationTime", json!("9999-12-31T23:59:59.000Z")),
        ("voteChangeable", json!(false)),
        ("choicesMax", json!(1)),
        ("resultsHiddenUntilClosed", json!(false)),
        ("lanes", json!(4)),
        ("state", json!("open")),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert_eq!(made["items"][1]["description"], "4");
    assert_eq!(app.get(&location).await, made);
    let wider = app.call("PATCH", &location).json(&json!({ "lanes": 9 }));
    assert_eq!(wider.send().await.expect(200)["lanes"], 9);
    let fewer = app.call("PATCH", &location).json(&json!({ "lanes": 5 }));
    assert_eq!(fewer.send().await.expect(422)["code"], "invalid-field");
    let poll = TestPoll::from_json(&made);
    assert_eq!(app.vote(&poll, 0, "ada").await.status, 200);
    let closed = app.call("POST", &poll.path("/close")).send().await;
    let closed = closed.expect(200);
    assert_eq!(closed["state"], "closed");
    let again = app.call("POST", &poll.path("/close")).send().await;
    assert_eq!(again.expect(200)["closedAt"], closed["closedAt"]);
    app.vote(&poll, 0, "bob")
        .await
        .expect_error(409, "poll-closed");
    // A repeated vote gets its first answer even after the end.
    let repeated = app.vote(&poll, 0, "ada").await.expect(200);
    assert_eq!(repeated["outcome"], "already");
    let results = app.newest(&poll).await;
    assert_eq!(
        (&results["total"], &results["state"]),
        (&json!(1), &json!("closed"))
    );
}

#[tokio::test]
async fn the_same_create_makes_one_poll() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let end = in_ms(3_600_000);
    let create = |items: Value, key: &str| {
        let body = json!({ "items": items, "expirationTime": end });
        let call = app.call("POST", "/polls").header("idempotency-key", key);
        call.json(&body).send()
    };
    let first = create(json!(["a"]), "one").await.expect(201);
    let again = create(json!(["a"]), "one").await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.expect(201), first);
    let other = create(json!(["b"]), "one").await;
    other.expect_error(422, "idempotency-mismatch");
    assert_ne!(
        create(json!(["a"]), "two").await.expect(201)["pollID"],
        first["pollID"]
    );
    assert_eq!(
        app.get("/polls").await["items"].as_array().unwrap().len(),
        2
    );
}

#[tokio::test]
async fn polls_are_listed_page_by_page() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(app.poll(json!({})).await.id);
    }
    made.sort();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = app.get(&format!("/polls?limit=2{cursor}")).await;
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        seen.extend(items.iter().map(|poll| text(&poll["pollID"])));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, made);
    for bad in ["limit=0", "limit=1001", "limit=x", "cursor=x"] {
        let answer = app.call("GET", &format!("/polls?{bad}")).send().await;
        assert_problem(bad, answer, "invalid-field");
    }
}

#[tokio::test]
async fn invalid_polls_are_refused_with_a_pointer() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let end = in_ms(3_600_000);
    let with = |name: &str, value: Value| {
        let mut body = json!({ "items": ["a", "b"], "expirationTime": end });
        body[name] = value;
        body
    };
    for (body, pointer) in [
        (json!([]), ""),
        (json!({}), ""),
        (json!({ "items": ["a"] }), ""),
        (with("items", json!([])), "/items"),
        (with("items", json!("a")), "/items"),
        (with("items", json!(vec!["a"; 1_001])), "/items"),
        (with("items", json!(["a", "a"])), "/items/1"),
        (with("items", json!(["a", ""])), "/items/1"),
        (with("items", json!([["a", null]])), "/items/0"),
        (with("items", json!([{ "name": "a" }])), "/items/0/name"),
        (
            with("expirationTime", json!("2020-01-01T00:00:00Z")),
            "/expirationTime",
        ),
        (
            with("expirationTime", json!("10000-01-01T00:00:00Z")),
            "/expirationTime",
        ),
        (with("expirationTime", json!(5)), "/expirationTime"),
        (with("openingTime", json!(end)), "/openingTime"),
        (with("choicesMax", json!(3)), "/choicesMax"),
        (with("choicesMax", json!(-1)), "/choicesMax"),
        (with("lanes", json!(0)), "/lanes"),
        (with("lanes", json!(70_000)), "/lanes"),
        (with("voteChangeable", json!("yes")), "/voteChangeable"),
        (with("title", json!("a\u{0}")), "/title"),
        (with("colour", json!("blue")), "/colour"),
    ] {
        let answer = app.call("POST", "/polls").json(&body).send().await;
        let problem = answer.expect_error(422, "invalid-field");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body} {problem}");
    }
    let raw = |kind: &'static str, body: &'static str| app.call("POST", "/polls").raw(kind, body);
    let send = async |call: crate::support::Call| call.send().await;
    let json = "application/json";
    send(raw(json, "{"))
        .await
        .expect_error(400, "malformed-request");
    send(raw(json, ""))
        .await
        .expect_error(400, "malformed-request");
    send(raw(json, "{} {}"))
        .await
        .expect_error(422, "invalid-field");
    send(raw("text/plain", "{}"))
        .await
        .expect_error(415, "unsupported-media-type");
    let large = app.call("POST", "/polls").raw(json, vec![b' '; 1_100_000]);
    large.send().await.expect_error(413, "body-too-large");
    let wrong = app.call("PUT", "/polls").send().await;
    wrong.expect_error(405, "method-not-allowed");
    assert_eq!(app.get("/polls").await["items"], json!([]));
}

#[tokio::test]
async fn an_export_is_complete_and_contains_no_other_poll() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let polls = [
        app.poll(json!({ "voteChangeable": true })).await,
        app.poll(json!({ "voteChangeable": true })).await,
        app.poll(json!({ "voteChangeable": true })).await,
    ];
    for (place, poll) in polls.iter().enumerate() {
        let lines: String = (0..5_000)
            .map(|number| poll.line(number % 2, &format!("p{place}-{number}")))
            .collect();
        app.send_lines(lines).await;
        let gone = app
            .call("DELETE", &poll.vote(0))
            .header("voter-id", &format!("p{place}-0"));
        gone.send().await.expect(200);
    }
    for (place, poll) in polls.iter().enumerate() {
        let answer = app.call("GET", &poll.path("/export")).send().await;
        assert_eq!(answer.header("content-type"), "application/x-ndjson");
        assert_eq!(answer.status, 200, "{}", answer.text);
        let mut voters = std::collections::BTreeSet::new();
        for line in answer.text.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let voter = text(&row["voterID"]);
            let number: usize = voter.rsplit('-').next().unwrap().parse().unwrap();
            assert!(voter.starts_with(&format!("p{place}-")), "{row}");
            assert_eq!(row["itemIDs"], json!([poll.items[number % 2]]));
            assert_eq!(row["revision"], 1);
            assert!(row["votedAt"].is_string());
            assert!(voters.insert(voter), "twice: {row}");
        }
        assert_eq!(voters.len(), 4_999);
    }
    let unknown = app.call("GET", "/polls/poll-x/export").send().await;
    unknown.expect_error(404, "poll-not-found");
}
