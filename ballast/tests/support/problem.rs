//! The problem document (RFC 9457), the format of every error.

use ballast_domain::ErrorCode;
use serde_json::json;

use super::{HttpAnswer, Instance, text};

/// Checks a complete error: status, type, code, texts and headers.
#[track_caller]
pub fn assert_problem(name: &str, answer: HttpAnswer, code: &str) {
    let known = ErrorCode::ALL.iter().find(|known| known.name() == code);
    let status = known.expect(code).kind().http_status();
    assert_eq!(
        answer.header("content-type"),
        "application/problem+json",
        "{name}"
    );
    assert_eq!(answer.header("cache-control"), "no-store", "{name}");
    assert_eq!(
        !answer.header("allow").is_empty(),
        status == 405,
        "{name}: Allow"
    );
    let problem = answer.expect_error(status, code);
    assert_eq!(problem["status"], json!(status), "{name}");
    assert_eq!(
        text(&problem["type"]),
        format!("/problems/{code}"),
        "{name}"
    );
    for field in ["title", "detail", "next"] {
        assert!(
            text(&problem[field]).len() > 3,
            "{name}: {field} in {problem}"
        );
    }
    let all = problem.to_string();
    assert!(!all.contains("bl_admin_0"), "{name}: a secret in {all}");
    assert!(all.len() < 4_000, "{name}: {} bytes", all.len());
}

/// Starts an instance with a tenant; returns the number of its newest event, too.
pub async fn start_with_tenant() -> (Instance, u64) {
    let it = Instance::start().await;
    it.tenant("acme").await;
    it.patch("/shards/shard-1", &json!({ "zones": ["ekb"] }))
        .await;
    let newest = it.newest_event().await;
    (it, newest)
}
