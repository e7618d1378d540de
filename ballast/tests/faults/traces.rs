//! Traces reach a collector and contain no key. In builds with `otlp`.

use std::sync::{Arc, Mutex};

use crate::support::{Instance, InstanceOptions, eventually};
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_request_is_traced_without_its_key() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = received.clone();
    let collector = Router::new().route(
        "/v1/traces",
        post(async move |body: Bytes| sink.lock().unwrap().extend_from_slice(&body)),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, collector).await });

    let instance = Instance::with(InstanceOptions {
        config: Some(format!("[traces]\notlp_endpoint = \"{endpoint}\"\n")),
        ..InstanceOptions::default()
    })
    .await;
    instance.tenant("acme").await;
    let (_, secret) = instance.key("acme").await;
    let asked = format!("{}/resolve?api_key={secret}", instance.router);
    assert_eq!(reqwest::get(asked).await.unwrap().status(), 200);

    eventually("the trace of the request", async || {
        holds(&received.lock().unwrap(), "/resolve").then_some(())
    })
    .await;
    let all = received.lock().unwrap().clone();
    assert!(holds(&all, "ballast"), "the service is named");
    assert!(!holds(&all, &secret[12..]), "a key is in a trace");
}
