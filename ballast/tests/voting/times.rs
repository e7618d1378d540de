//! Journey: a poll opens, expires and closes; which votes count at which time.

use crate::support::polls::Application;
use crate::support::{Instance, eventually, in_ms};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

#[tokio::test]
async fn votes_are_accepted_between_opening_and_expiration() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let later = app.poll(json!({ "openingTime": in_ms(600_000) })).await;
    assert_eq!(app.get(&later.path("")).await["state"], "scheduled");
    app.vote(&later, 0, "ada")
        .await
        .expect_error(409, "poll-not-open");
    let short = app.poll(json!({ "expirationTime": in_ms(1_500) })).await;
    assert_eq!(app.vote(&short, 0, "ada").await.status, 200);
    let refused = eventually("the poll expires", async || {
        let answer = app
            .vote(&short, 0, &format!("{}", in_ms(0).unix_ms()))
            .await;
        (answer.status != 200).then_some(answer)
    });
    refused.await.expect_error(409, "poll-closed");
    assert_eq!(app.get(&short.path("")).await["state"], "closed");
    let opening = app.poll(json!({ "openingTime": in_ms(700) })).await;
    eventually("the poll opens", async || {
        let answer = app.vote(&opening, 0, "ada").await;
        (answer.status == 200).then_some(())
    })
    .await;
}

/// A request that starts in time and ends too late is too late. Otherwise a client could wait for
/// the results and then complete its vote.
#[tokio::test]
async fn a_vote_arrives_with_its_last_byte() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({ "expirationTime": in_ms(1_000) })).await;
    let address = it.router.trim_start_matches("http://");
    let mut slow = tokio::net::TcpStream::connect(address).await.unwrap();
    let body = r#"{"voterID":"late"}"#;
    let head = format!(
        "PATCH {} HTTP/1.1\r\nhost: b\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        poll.vote(0),
        app.key,
        body.len()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut number = 0;
    eventually("the poll expires", async || {
        // Another voter each time, because one that has voted always gets `already-voted`.
        number += 1;
        let answer = app.vote(&poll, 0, &format!("probe-{number}")).await;
        (answer.status == 409).then_some(())
    })
    .await;
    slow.write_all(body.as_bytes()).await.unwrap();
    let mut status = String::new();
    BufReader::new(slow).read_line(&mut status).await.unwrap();
    assert!(status.contains(" 409 "), "{status}");
}

/// Votes that arrived in time may still be in flight when a poll expires, so hidden results are
/// shown only when it has closed.
#[tokio::test]
async fn hidden_results_are_shown_only_after_closing() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let hidden = json!({ "expirationTime": in_ms(700), "resultsHiddenUntilClosed": true });
    let poll = app.poll(hidden).await;
    let mut number = 0;
    eventually("the poll expires", async || {
        number += 1;
        let answer = app.vote(&poll, 0, &format!("probe-{number}")).await;
        (answer.status == 409).then_some(())
    })
    .await;
    let results = || app.call("GET", &poll.path("/votes")).send();
    results().await.expect_error(403, "results-hidden");
    eventually("the poll closes", async || {
        let answer = results().await;
        (answer.status == 200).then_some(())
    })
    .await;
    let shown = app.get(&poll.path("")).await;
    assert!(shown["closedAt"].is_string(), "{shown}");
}
