//! Journey: voters vote, and every vote counts once.

use crate::support::polls::Application;
use crate::support::{Instance, eventually, text};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::test]
async fn a_vote_counts_once() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
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
        .expect_error(409, "already-voted");
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
    nobody.expect_error(404, "vote-not-found");
    let kept = app.call("DELETE", &poll.vote(0)).header("voter-id", "ada");
    kept.send().await.expect_error(409, "vote-not-changeable");
}

#[tokio::test]
async fn votes_may_be_changed_where_the_poll_says_so() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({ "voteChangeable": true })).await;
    let vote = |item: usize, tag: &str| {
        let call = app.call("PATCH", &poll.vote(item));
        call.header("voter-id", "ada")
            .header("if-match", tag)
            .send()
    };
    vote(0, "\"1\"")
        .await
        .expect_error(412, "changed-meanwhile");
    assert_eq!(vote(0, "\"0\"").await.header("etag"), "\"1\"");
    let changed = vote(1, "\"1\"").await;
    assert_eq!(changed.header("etag"), "\"2\"");
    vote(0, "\"1\"")
        .await
        .expect_error(412, "changed-meanwhile");
    vote(0, "\"other\"")
        .await
        .expect_error(412, "changed-meanwhile");
    vote(0, "*").await.expect_error(400, "malformed-request");
    // The same key for another item is another request.
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
    withdraw(0).await.expect_error(404, "vote-not-found");
    assert_eq!(withdraw(1).await.expect(200)["outcome"], "withdrawn");
    // A repeated request gets its first answer.
    assert_eq!(withdraw(1).await.expect(200)["outcome"], "withdrawn");
    let gone = app.call("GET", &poll.path("/voters/ada")).send().await;
    gone.expect_error(404, "vote-not-found");
    assert_eq!(app.newest(&poll).await["total"], 1, "eve's");
}

#[tokio::test]
async fn several_choices_where_the_poll_says_so() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let fields = json!({ "items": ["a", "b", "c"], "choicesMax": 2 });
    let poll = app.poll(fields).await;
    assert_eq!(app.vote(&poll, 2, "ada").await.header("etag"), "\"1\"");
    assert_eq!(app.vote(&poll, 0, "ada").await.header("etag"), "\"2\"");
    app.vote(&poll, 1, "ada")
        .await
        .expect_error(409, "already-voted");
    let ada = app.get(&poll.path("/voters/ada")).await;
    assert_eq!(ada["itemIDs"], json!([poll.items[0], poll.items[2]]));
    let results = app.newest(&poll).await;
    assert_eq!(
        (&results["total"], &results["voters"]),
        (&json!(2), &json!(1))
    );
    // Items with equal counts stay in the poll's order.
    let names: Vec<_> = (0..3)
        .map(|at| text(&results["items"][at]["itemName"]))
        .collect();
    assert_eq!(names, ["a", "c", "b"]);
}

#[tokio::test]
async fn keys_are_limited_to_their_scopes_and_tenant() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
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
                let problem = answer.expect_error(403, "missing-scope");
                assert!(text(&problem["detail"]).contains(demanded));
            }
        }
    }
    let stranger = Application::create(&it, "beta").await;
    for (method, path, _) in demands
        .iter()
        .filter(|(_, path, _)| path.contains(&poll.id))
    {
        let call = stranger.call(method, path).header("voter-id", "ada");
        let call = match (*method, *path == poll.path("")) {
            ("PATCH", true) => call.json(&json!({ "lanes": 20 })),
            _ => call,
        };
        call.send().await.expect_error(404, "poll-not-found");
    }
    assert_eq!(stranger.get("/polls").await["items"], json!([]));
    let line = stranger.send_lines(poll.line(0, "ada")).await;
    assert_eq!(line[0]["code"], "poll-not-found");
    assert_eq!(app.newest(&poll).await["total"], 0);
    let anonymous = it.route("GET", &poll.path("/votes")).send().await;
    anonymous.expect_error(401, "bad-credential");
}

#[tokio::test]
async fn invalid_votes_are_refused() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
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
        call.send().await.expect_error(status, code);
    }
    let key = app.call("PATCH", &poll.vote(0)).header("voter-id", "a");
    let key = key.header("idempotency-key", &"k".repeat(201)).send().await;
    key.expect_error(422, "invalid-field");
    assert_eq!(app.newest(&poll).await["total"], 0);
}

#[tokio::test]
async fn a_stream_of_votes_has_an_outcome_for_every_line() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
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
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({ "voteChangeable": true })).await;
    let voters = 50;
    let lines: String = (0..20_000)
        .map(|line| {
            // The last line of each voter is for the item at index 1.
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
async fn outcomes_are_streamed_while_votes_are_sent() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
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
        // Send the next vote after this one's outcome.
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
    let app = Application::create(&it, "acme").await;
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
async fn a_tenant_is_limited_to_its_votes_per_second() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
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
    refused.expect_error(429, "rate-limited");
    // A stream is slowed down and none of its votes is refused.
    let lines: String = (0..30)
        .map(|number| poll.line(1, &format!("s{number}")))
        .collect();
    let outcomes = app.send_lines(lines).await;
    assert!(outcomes.iter().all(|line| line["outcome"] == "counted"));
    assert_eq!(outcomes.len(), 30);
    assert_eq!(app.newest(&poll).await["total"], counted + 30);
}
