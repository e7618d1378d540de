//! The bare handler: axum reads the body and answers with as many bytes as Ballast does.
//! Runs as a process of its own: `ballast-bench --bare`.

use axum::Router;
use axum::body::Bytes;
use axum::routing::any;

/// Ballast's answer to a vote, with other letters.
const ANSWER: &str = r#"{"pollID":"poll-01m7hncq898xb9n21b6jdr77ys","itemID":"item-b5js98a2my21v","voterID":"voter-000000001","outcome":"counted"}"#;

/// Serves until it is killed, and prints its address on stdout.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let json = [("content-type", "application/json")];
    let app = Router::new()
        .route("/vote", any(async move |_: Bytes| (json, ANSWER)))
        .route("/resolve", any(async move || (json, ANSWER)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
