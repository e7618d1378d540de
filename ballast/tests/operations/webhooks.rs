//! Journey: webhooks are signed, and retried until the receiver accepts them.

use std::sync::{Arc, Mutex};

use crate::support::{Instance, InstanceOptions, eventually, text};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use ring::hmac;
use serde_json::{Value, json};

const SECRET: &str = "a secret that is long enough";

/// The accepted and the refused webhooks.
struct HookReceiver {
    reply: Vec<(String, Value)>,
    refused: usize,
    /// How many webhooks are accepted before all are refused.
    takes: usize,
    /// Accepts all webhooks from now on.
    takes_all: bool,
}

impl HookReceiver {
    fn taking(takes: usize) -> SharedReceiver {
        let (reply, refused, takes_all) = (Vec::new(), 0, false);
        Arc::new(Mutex::new(Self {
            reply,
            refused,
            takes,
            takes_all,
        }))
    }
}

type SharedReceiver = Arc<Mutex<HookReceiver>>;

async fn receive_hook(
    State(heard): State<SharedReceiver>,
    headers: HeaderMap,
    body: String,
) -> StatusCode {
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
    if heard.reply.len() >= heard.takes && !heard.takes_all {
        heard.refused += 1;
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    let number = header("ballast-event");
    heard
        .reply
        .push((number, serde_json::from_str(&body).unwrap()));
    StatusCode::OK
}

/// Starts an instance that sends webhooks about migrations to this receiver.
async fn start_with_webhook(heard: &SharedReceiver) -> Instance {
    let app = Router::new()
        .route("/hook", post(receive_hook))
        .with_state(heard.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let config = format!(
        "[moves]\nwindow = \"0s\"\n[[webhooks]]\nurl = \"{url}\"\nsecret = \"env:HOOK_SECRET\"\nevents = [\"move\"]\n"
    );
    let it = Instance::with(InstanceOptions {
        config: Some(config),
        env: vec![("HOOK_SECRET".to_owned(), SECRET.to_owned())],
        ..InstanceOptions::default()
    })
    .await;
    // Webhooks are sent for events after the start.
    let cursors = it.home().join("data/webhooks");
    eventually("the hook listens", async || {
        std::fs::read_dir(&cursors).ok()?.next().map(drop)
    })
    .await;
    it
}

/// Moves a tenant to another shard; returns source and target.
async fn moved(it: &Instance, tenant: &str) -> [String; 2] {
    let shown = it.get(&format!("/tenants/{tenant}")).await;
    let from = text(&shown["slices"][0]["shardID"]);
    let to = ["shard-1", "shard-2"].into_iter().find(|to| *to != from);
    let to = to.unwrap().to_owned();
    it.call("POST", &format!("/tenants/{tenant}/move"))
        .json(&json!({ "toShardID": to }))
        .send()
        .await
        .expect(202);
    [from, to]
}

fn received_hooks(heard: &SharedReceiver) -> Vec<(String, Value)> {
    heard.lock().unwrap().reply.clone()
}

#[tokio::test]
async fn webhooks_are_retried_until_accepted() {
    let heard = HookReceiver::taking(0);
    let mut it = start_with_webhook(&heard).await;
    it.tenant("acme").await;
    moved(&it, "acme").await;
    eventually("it is refused", async || {
        (heard.lock().unwrap().refused > 0).then_some(())
    })
    .await;
    heard.lock().unwrap().takes_all = true;
    let first = eventually("the first webhook", async || {
        received_hooks(&heard).first().cloned()
    })
    .await;
    assert_eq!(first.1["event"], "move.completed", "{first:?}");
    assert_eq!(first.1["record"]["tenantID"], "acme");
    assert_eq!(first.0, first.1["eventID"].to_string());
    // After a kill, webhooks continue without gaps.
    it.kill9();
    let it = it.restart().await;
    let [_, to] = moved(&it, "acme").await;
    eventually("the second webhook", async || {
        let reply = received_hooks(&heard);
        let last = reply.last()?;
        (last.1["record"]["toShardID"] == to.as_str()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn accepted_webhooks_are_not_repeated_after_a_kill() {
    // All three events are in one page of the feed; the first is accepted, then none.
    let heard = HookReceiver::taking(1);
    let mut it = start_with_webhook(&heard).await;
    let tenants = ["acme", "globex", "initech"];
    for tenant in tenants {
        it.tenant(tenant).await;
    }
    for tenant in tenants {
        moved(&it, tenant).await;
    }
    eventually("the second is refused, and all are over", async || {
        let open = it.get("/migrations?open=true").await;
        let is_over = open["items"].as_array()?.is_empty();
        (is_over && heard.lock().unwrap().refused > 0).then_some(())
    })
    .await;
    it.kill9();
    heard.lock().unwrap().takes_all = true;
    let _it = it.restart().await;
    let reply = eventually("all webhooks", async || {
        Some(received_hooks(&heard)).filter(|reply| reply.len() >= tenants.len())
    })
    .await;
    let mut names: Vec<_> = reply
        .iter()
        .map(|(_, it)| text(&it["record"]["tenantID"]))
        .collect();
    names.sort();
    assert_eq!(names, tenants, "each once: {reply:?}");
}
