//! Journey: who is awake is told of plans and hotspots, signed, and again until it
//! is taken.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use ring::hmac;
use serde_json::{Value, json};
use support::{Instance, Options, eventually, text};

const SECRET: &str = "a secret that is long enough";

/// What was told, and how often it was refused before.
#[derive(Default)]
struct Heard {
    told: Vec<(String, Value)>,
    refused: usize,
}

type Shared = Arc<Mutex<Heard>>;

async fn hear(State(heard): State<Shared>, headers: HeaderMap, body: String) -> StatusCode {
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    let signature = header("ballast-signature");
    let (time, hex) = signature
        .strip_prefix("t=")
        .unwrap()
        .split_once(",v1=")
        .unwrap();
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    hmac::verify(&key, format!("{time}.{body}").as_bytes(), &bytes).unwrap();
    let mut heard = heard.lock().unwrap();
    // The first is refused: it is told again.
    if heard.refused == 0 {
        heard.refused += 1;
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    let number = header("ballast-event");
    heard
        .told
        .push((number, serde_json::from_str(&body).unwrap()));
    StatusCode::OK
}

#[tokio::test]
async fn a_move_that_ended_and_a_plan_are_told_again_until_taken() {
    let heard = Shared::default();
    let app = Router::new()
        .route("/hook", post(hear))
        .with_state(heard.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let config = format!(
        "[moves]\nwindow = \"0s\"\n[[webhooks]]\nurl = \"{url}\"\nsecret = \"env:HOOK_SECRET\"\nevents = [\"move\"]\n"
    );
    let mut it = Instance::with(Options {
        config: Some(config),
        env: vec![("HOOK_SECRET".to_owned(), SECRET.to_owned())],
        ..Options::default()
    })
    .await;
    // It hears from when it begins to listen.
    let cursors = it.home().join("data/webhooks");
    eventually("the hook listens", async || {
        std::fs::read_dir(&cursors).ok()?.next().map(drop)
    })
    .await;
    it.tenant("acme").await;
    let from = text(&it.get("/tenants/acme").await["slices"][0]["shardID"]);
    let to = if from == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let body = json!({ "toShardID": to });
    it.call("POST", "/tenants/acme/move")
        .json(&body)
        .send()
        .await
        .expect(202);
    let told = |heard: &Shared| heard.lock().unwrap().told.clone();
    let first = eventually("the move is told", async || told(&heard).first().cloned()).await;
    assert_eq!(first.1["event"], "move.completed", "{first:?}");
    assert_eq!(first.1["record"]["tenantID"], "acme");
    assert_eq!(first.0, first.1["eventID"].to_string());
    assert_eq!(heard.lock().unwrap().refused, 1);
    // After a kill it goes on, and leaves nothing out.
    it.kill9();
    let it = it.restart().await;
    let body = json!({ "toShardID": from });
    it.call("POST", "/tenants/acme/move")
        .json(&body)
        .send()
        .await
        .expect(202);
    eventually("the second move is told", async || {
        let told = told(&heard);
        let last = told.last()?;
        (last.1["record"]["toShardID"] == from.as_str()).then_some(())
    })
    .await;
}
