//! Journey: polls are made, people vote, and every vote counts once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use support::polls::{Application, Poll};
use support::problem::is_problem;
use support::{Instance, eventually, in_ms, text};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::test]
async fn a_poll_from_its_making_to_its_closing() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
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
    let poll = Poll::of(&made);
    assert_eq!(app.vote(&poll, 0, "ada").await.status, 200);
    let closed = app.call("POST", &poll.path("/close")).send().await;
    let closed = closed.expect(200);
    assert_eq!(closed["state"], "closed");
    let again = app.call("POST", &poll.path("/close")).send().await;
    assert_eq!(again.expect(200)["closedAt"], closed["closedAt"]);
    app.vote(&poll, 0, "bob").await.refused(409, "poll-closed");
    // A repeated vote is told the truth also after the end.
    let repeated = app.vote(&poll, 0, "ada").await.expect(200);
    assert_eq!(repeated["outcome"], "already");
    let results = app.newest(&poll).await;
    assert_eq!(
        (&results["total"], &results["state"]),
        (&json!(1), &json!("closed"))
    );
}

#[tokio::test]
async fn a_vote_counts_once() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let first = app.vote(&poll, 0, "ada").await;
    assert_eq!(first.header("etag"), "\"1\"");
    assert_eq!(first.header("ballast-tenant"), "acme");
    assert!(first.header("ballast-shard").starts_with("shard-"));
    assert_eq!(first.header("ballast-epoch"), "1");
    let expected = json!({
        "pollID": poll.id, "itemID": poll.items[0], "voterID": "ada", "outcome": "counted"
    });
    assert_eq!(first.expect(200), expected);
    assert_eq!(
        app.vote(&poll, 0, "ada").await.expect(200)["outcome"],
        "already"
    );
    app.vote(&poll, 1, "ada")
        .await
        .refused(409, "already-voted");
    let by_body = app
        .call("POST", &poll.vote(1))
        .json(&json!({ "voterID": "bob" }));
    assert_eq!(by_body.send().await.expect(200)["outcome"], "counted");
    let both = app.call("PATCH", &poll.vote(1)).header("voter-id", "Zoë");
    let both = both.json(&json!({ "voterID": "Zoë" })).send().await;
    assert_eq!(both.expect(200)["voterID"], "Zoë");
    let results = app.newest(&poll).await;
    let items = json!([
        { "itemID": poll.items[1], "itemName": "Spaces", "votesCount": 2 },
        { "itemID": poll.items[0], "itemName": "Tabs", "votesCount": 1 },
    ]);
    assert_eq!(results["items"], items);
    assert_eq!(
        (&results["total"], &results["voters"]),
        (&json!(3), &json!(3))
    );
    let ada = app.call("GET", &poll.path("/voters/ada")).send().await;
    assert_eq!(ada.header("etag"), "\"1\"");
    assert_eq!(ada.expect(200)["itemIDs"], json!([poll.items[0]]));
    let nobody = app.call("GET", &poll.path("/voters/nobody")).send().await;
    nobody.refused(404, "vote-not-found");
    let kept = app.call("DELETE", &poll.vote(0)).header("voter-id", "ada");
    kept.send().await.refused(409, "vote-not-changeable");
}

#[tokio::test]
async fn votes_may_be_changed_where_the_poll_says_so() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let poll = app.poll(json!({ "voteChangeable": true })).await;
    let vote = |item: usize, tag: &str| {
        let call = app.call("PATCH", &poll.vote(item));
        call.header("voter-id", "ada")
            .header("if-match", tag)
            .send()
    };
    vote(0, "\"1\"").await.refused(412, "changed-meanwhile");
    assert_eq!(vote(0, "\"0\"").await.header("etag"), "\"1\"");
    let changed = vote(1, "\"1\"").await;
    assert_eq!(changed.header("etag"), "\"2\"");
    vote(0, "\"1\"").await.refused(412, "changed-meanwhile");
    vote(0, "\"other\"").await.refused(412, "changed-meanwhile");
    vote(0, "*").await.refused(400, "malformed-request");
    // The same name for another item is another request.
    for item in [0, 1] {
        let call = app
            .call("PATCH", &poll.vote(item))
            .header("voter-id", "eve");
        let call = call.header("idempotency-key", "same");
        assert_eq!(
            call.send().await.header("etag"),
            format!("\"{}\"", item + 1)
        );
    }
    let eve = app.get(&poll.path("/voters/eve")).await;
    assert_eq!(eve["itemIDs"], json!([poll.items[1]]));
    let withdraw = |item: usize| {
        let call = app.call("DELETE", &poll.vote(item));
        call.header("voter-id", "ada")
            .header("idempotency-key", "w")
            .send()
    };
    withdraw(0).await.refused(404, "vote-not-found");
    assert_eq!(withdraw(1).await.expect(200)["outcome"], "withdrawn");
    // A repeated request gets its first answer.
    assert_eq!(withdraw(1).await.expect(200)["outcome"], "withdrawn");
    let gone = app.call("GET", &poll.path("/voters/ada")).send().await;
    gone.refused(404, "vote-not-found");
    assert_eq!(app.newest(&poll).await["total"], 1, "eve's");
}

#[tokio::test]
async fn several_choices_where_the_poll_says_so() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let fields = json!({ "items": ["a", "b", "c"], "choicesMax": 2 });
    let poll = app.poll(fields).await;
    assert_eq!(app.vote(&poll, 2, "ada").await.header("etag"), "\"1\"");
    assert_eq!(app.vote(&poll, 0, "ada").await.header("etag"), "\"2\"");
    app.vote(&poll, 1, "ada")
        .await
        .refused(409, "already-voted");
    let ada = app.get(&poll.path("/voters/ada")).await;
    assert_eq!(ada["itemIDs"], json!([poll.items[0], poll.items[2]]));
    let results = app.newest(&poll).await;
    assert_eq!(
        (&results["total"], &results["voters"]),
        (&json!(2), &json!(1))
    );
    // Of equals the poll's own order stays.
    let names: Vec<_> = (0..3)
        .map(|at| text(&results["items"][at]["itemName"]))
        .collect();
    assert_eq!(names, ["a", "c", "b"]);
}

#[tokio::test]
async fn the_same_create_makes_one_poll() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
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
    other.refused(422, "idempotency-mismatch");
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
    let app = Application::of(&it, "acme").await;
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
        is_problem(bad, answer, "invalid-field");
    }
}

#[tokio::test]
async fn keys_do_what_their_scopes_say_and_only_for_their_tenant() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let (results, close) = (poll.path("/votes"), poll.path("/close"));
    let (voter, export) = (poll.path("/voters/ada"), poll.path("/export"));
    let (vote, live) = (poll.vote(0), poll.path("/votes/live"));
    let demands = [
        ("GET", "/polls", "read"),
        ("GET", &poll.path(""), "read"),
        ("GET", &results, "read"),
        ("GET", &live, "read"),
        ("GET", &voter, "read"),
        ("PATCH", &vote, "vote"),
        ("POST", &vote, "vote"),
        ("DELETE", &vote, "vote"),
        ("POST", "/votes", "vote"),
        ("POST", "/polls", "polls"),
        ("PATCH", &poll.path(""), "polls"),
        ("POST", &close, "polls"),
        ("GET", &export, "polls"),
    ];
    for scope in ["read", "vote", "polls"] {
        let narrow = Application::with_scopes(&it, "acme", &[scope]).await;
        for (method, path, demanded) in demands {
            if demanded != scope {
                let answer = narrow.call(method, path).send().await;
                let problem = answer.refused(403, "missing-scope");
                assert!(text(&problem["detail"]).contains(demanded));
            }
        }
    }
    let stranger = Application::of(&it, "beta").await;
    for (method, path, _) in demands
        .iter()
        .filter(|(_, path, _)| path.contains(&poll.id))
    {
        let call = stranger.call(method, path).header("voter-id", "ada");
        let call = match (*method, *path == poll.path("")) {
            ("PATCH", true) => call.json(&json!({ "lanes": 20 })),
            _ => call,
        };
        call.send().await.refused(404, "poll-not-found");
    }
    assert_eq!(stranger.get("/polls").await["items"], json!([]));
    let line = stranger.send_lines(poll.line(0, "ada")).await;
    assert_eq!(line[0]["code"], "poll-not-found");
    assert_eq!(app.newest(&poll).await["total"], 0);
    let anonymous = it.route("GET", &poll.path("/votes")).send().await;
    anonymous.refused(401, "bad-credential");
}

#[tokio::test]
async fn polls_that_cannot_be_are_refused_with_the_place() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
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
        let problem = answer.refused(422, "invalid-field");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body} {problem}");
    }
    let raw = |kind: &'static str, body: &'static str| app.call("POST", "/polls").raw(kind, body);
    let send = async |call: support::Call| call.send().await;
    let json = "application/json";
    send(raw(json, "{")).await.refused(400, "malformed-request");
    send(raw(json, "")).await.refused(400, "malformed-request");
    send(raw(json, "{} {}")).await.refused(422, "invalid-field");
    send(raw("text/plain", "{}"))
        .await
        .refused(415, "unsupported-media-type");
    let large = app.call("POST", "/polls").raw(json, vec![b' '; 1_100_000]);
    large.send().await.refused(413, "body-too-large");
    let wrong = app.call("PUT", "/polls").send().await;
    wrong.refused(405, "method-not-allowed");
    assert_eq!(app.get("/polls").await["items"], json!([]));
}

#[tokio::test]
async fn votes_that_cannot_be_are_refused() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let other = app.poll(json!({})).await;
    let no_item = poll.path(&format!("/votes/{}", other.items[0]));
    let no_poll = poll.vote(0).replace("poll-0", "poll-1");
    let long = "x".repeat(129);
    for (path, header, body, status, code) in [
        (poll.vote(0), None, "", 400, "malformed-request"),
        (poll.vote(0), None, "{}", 400, "malformed-request"),
        (
            poll.vote(0),
            Some("a"),
            r#"{"voterID":"b"}"#,
            400,
            "malformed-request",
        ),
        (poll.vote(0), Some("a"), "{", 400, "malformed-request"),
        (
            poll.vote(0),
            None,
            r#"{"voterID":""}"#,
            422,
            "invalid-field",
        ),
        (poll.vote(0), None, r#"{"voterID":5}"#, 422, "invalid-field"),
        (
            poll.vote(0),
            None,
            r#"{"voterId":"a"}"#,
            422,
            "invalid-field",
        ),
        (poll.vote(0), None, r#"["a"]"#, 422, "invalid-field"),
        (poll.vote(0), Some(&*long), "", 422, "invalid-field"),
        (no_item, Some("a"), "", 404, "item-not-found"),
        (no_poll, Some("a"), "", 404, "poll-not-found"),
        (
            "/polls/x/votes/y".to_owned(),
            Some("a"),
            "",
            404,
            "poll-not-found",
        ),
        (poll.path("/votes/y"), Some("a"), "", 404, "item-not-found"),
        (
            poll.path("/votes/%ff"),
            Some("a"),
            "",
            400,
            "malformed-request",
        ),
    ] {
        let call = app.call("PATCH", &path).raw("application/json", body);
        let call = match header {
            Some(voter) => call.header("voter-id", voter),
            None => call,
        };
        call.send().await.refused(status, code);
    }
    let key = app.call("PATCH", &poll.vote(0)).header("voter-id", "a");
    let key = key.header("idempotency-key", &"k".repeat(201)).send().await;
    key.refused(422, "invalid-field");
    assert_eq!(app.newest(&poll).await["total"], 0);
}

#[tokio::test]
async fn a_stream_of_votes_has_an_outcome_for_every_line() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let (poll, closed) = (app.poll(json!({})).await, app.poll(json!({})).await);
    app.call("POST", &closed.path("/close"))
        .send()
        .await
        .expect(200);
    let named = poll.line(0, "cy").replace('}', r#","requestID":"r"}"#);
    let lines = [
        poll.line(0, "ada"),
        "\n".to_owned(),
        poll.line(0, "ada"),
        poll.line(1, "ada"),
        closed.line(0, "ada"),
        "nonsense\n".to_owned(),
        format!("{}\n", "x".repeat(5_000)),
        poll.line(1, &"v".repeat(129)),
        poll.line(0, "bob").replace(&poll.items[0], "item-1"),
        named.clone(),
        named,
        poll.line(1, "dee").trim_end().to_owned(),
    ];
    let outcomes = app.send_lines(lines.concat()).await;
    let shown: Vec<_> = outcomes
        .iter()
        .map(|line| {
            let code = line["code"].as_str().unwrap_or_default();
            let outcome = text(&line["outcome"]);
            assert_eq!(outcome == "refused", line["detail"].is_string());
            (line["line"].as_u64().unwrap(), format!("{outcome} {code}"))
        })
        .collect();
    let expected = [
        (1, "counted "),
        (3, "already "),
        (4, "refused already-voted"),
        (5, "refused poll-closed"),
        (6, "refused malformed-request"),
        (7, "refused malformed-request"),
        (8, "refused invalid-field"),
        (9, "refused item-not-found"),
        (10, "counted "),
        // A repeated request gets its first answer.
        (11, "counted "),
        (12, "counted "),
    ];
    let expected = expected.map(|(line, outcome)| (line, outcome.to_owned()));
    assert_eq!(shown, expected);
    assert_eq!(app.newest(&poll).await["total"], 3);
    assert!(app.send_lines(String::new()).await.is_empty());
}

#[tokio::test]
async fn later_lines_never_overtake_earlier_ones() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let poll = app.poll(json!({ "voteChangeable": true })).await;
    let voters = 50;
    let lines: String = (0..20_000)
        .map(|line| {
            // The last line of each voter is for the item at place 1.
            let item = usize::from(line >= 10_000 + voters);
            poll.line(item, &format!("v{}", line % voters))
        })
        .collect();
    let outcomes = app.send_lines(lines).await;
    assert_eq!(outcomes.len(), 20_000);
    let numbers = outcomes.iter().map(|line| line["line"].as_u64().unwrap());
    assert!(numbers.eq(1..=20_000));
    let results = app.newest(&poll).await;
    assert_eq!(results["items"][0]["itemID"], poll.items[1]);
    assert_eq!(results["items"][0]["votesCount"], voters);
    assert_eq!(results["total"], voters);
}

#[tokio::test]
async fn outcomes_come_while_votes_are_sent() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let address = it.router.strip_prefix("http://").unwrap();
    let (reader, mut writer) = tokio::net::TcpStream::connect(address)
        .await
        .unwrap()
        .into_split();
    let mut answer = BufReader::new(reader).lines();
    let head = format!(
        "POST /votes HTTP/1.1\r\nhost: {address}\r\nx-api-key: {}\r\n\
         transfer-encoding: chunked\r\n\r\n",
        app.key
    );
    writer.write_all(head.as_bytes()).await.unwrap();
    for number in 1..=20 {
        let line = poll.line(0, &format!("v{number}"));
        let chunk = format!("{:x}\r\n{line}\r\n", line.len());
        writer.write_all(chunk.as_bytes()).await.unwrap();
        // The next vote is sent when this one's outcome is there.
        let expected = format!(r#"{{"line":{number},"outcome":"counted"}}"#);
        loop {
            let line = answer.next_line().await.unwrap().unwrap();
            if line == expected {
                break;
            }
            assert!(!line.contains("outcome"), "{line}");
        }
    }
    writer.write_all(b"0\r\n\r\n").await.unwrap();
    eventually("the answer ends", async || {
        (answer.next_line().await.unwrap()? == "0").then_some(())
    })
    .await;
    assert_eq!(app.newest(&poll).await["total"], 20);
}

#[tokio::test]
async fn a_revoked_key_ends_its_stream() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let poll = app.poll(json!({})).await;
    let (id, secret) = it.key("acme").await;
    let short_lived = Application {
        key: secret,
        ..Application::with_scopes(&it, "acme", &["vote"]).await
    };
    assert_eq!(
        short_lived.send_lines(poll.line(0, "a")).await[0]["outcome"],
        "counted"
    );
    it.act(&format!("/keys/{id}/revoke")).await;
    eventually("the key stops", async || {
        let call = short_lived.call("POST", "/votes");
        let answer = call
            .raw("application/x-ndjson", poll.line(0, "b"))
            .send()
            .await;
        (answer.status == 401).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_tenant_is_held_to_its_votes_per_second() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let poll = app.poll(json!({ "lanes": 1 })).await;
    let limits = json!({ "limits": { "votesPerSecond": 20 } });
    it.patch("/tenants/acme", &limits).await;
    let (mut voters, mut counted) = (0, 0);
    let refused = eventually("the limit is reached", async || {
        voters += 1;
        let answer = app.vote(&poll, 0, &format!("v{voters}")).await;
        counted += u64::from(answer.status == 200);
        (answer.status != 200).then_some(answer)
    })
    .await;
    assert!(!refused.header("retry-after").is_empty());
    assert!(refused.header("ratelimit").starts_with("\"votes\""));
    refused.refused(429, "rate-limited");
    // A stream is slowed down, and nothing of it is refused.
    let lines: String = (0..30)
        .map(|number| poll.line(1, &format!("s{number}")))
        .collect();
    let outcomes = app.send_lines(lines).await;
    assert!(outcomes.iter().all(|line| line["outcome"] == "counted"));
    assert_eq!(outcomes.len(), 30);
    assert_eq!(app.newest(&poll).await["total"], counted + 30);
}

#[tokio::test]
async fn a_poll_is_exported_whole_and_by_itself() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
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
    unknown.refused(404, "poll-not-found");
}
