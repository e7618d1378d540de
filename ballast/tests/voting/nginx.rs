//! Journey: a real nginx calls `/resolve` for each request. Its configuration is
//! `docs/examples/nginx.conf`, with other ports.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{
    Call, HttpAnswer, Instance, Process, eventually, text, unknown_secret, within,
};
use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use ballast_domain::credential::Purpose;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A revoked key stops within a second.
const SECOND: Duration = Duration::from_secs(1);
const BALLAST: &str = "127.0.0.1:8080";
const SERVICE: &str = "127.0.0.1:9000";
const LISTEN: &str = "127.0.0.1:8000";

/// nginx between a client and a service that echoes requests.
struct Proxied {
    it: Instance,
    nginx: Process,
    url: String,
    _prefix: TempDir,
}

impl Proxied {
    async fn start() -> Self {
        let it = Instance::start().await;
        let service = echo().await;
        // Another process may take the port before nginx does.
        for _ in 0..5 {
            let prefix = tempfile::tempdir().unwrap();
            let listen = free_address();
            let ballast = it.router.trim_start_matches("http://").parse().unwrap();
            configure(prefix.path(), listen, ballast, service);
            let mut nginx = run(prefix.path());
            let url = format!("http://{listen}");
            if answers(&it, &mut nginx, &url).await {
                return Self {
                    it,
                    nginx,
                    url,
                    _prefix: prefix,
                };
            }
        }
        panic!("no port was free for nginx");
    }

    fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.it.http(), method, &format!("{}{path}", self.url))
    }

    async fn with_key(&self, key: &str) -> HttpAnswer {
        let call = self.call("GET", "/hello");
        call.header("x-api-key", key).send().await
    }
}

/// Writes the example configuration with these addresses.
fn configure(prefix: &Path, listen: SocketAddr, ballast: SocketAddr, service: SocketAddr) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/nginx.conf");
    let mut text = std::fs::read_to_string(example).unwrap();
    for (theirs, ours) in [(LISTEN, listen), (BALLAST, ballast), (SERVICE, service)] {
        assert_eq!(text.matches(theirs).count(), 1, "{theirs} in the example");
        text = text.replace(theirs, &ours.to_string());
    }
    std::fs::write(prefix.join("nginx.conf"), text).unwrap();
}

fn run(prefix: &Path) -> Process {
    let mut command = Command::new(program());
    command.arg("-p").arg(prefix).args(["-c", "nginx.conf"]);
    // One process in the foreground, so that it ends with the test.
    command.args(["-g", "daemon off; master_process off;"]);
    Process::spawn(&mut command)
}

/// Finds nginx. Without it nothing here is tested, so its absence is a failure.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let found = std::env::split_paths(&path)
        .chain(more)
        .map(|directory| directory.join("nginx"))
        .find(|file| file.is_file());
    found.expect(
        "there is no nginx, which this test needs: run scripts/test tools as root, or install \
         it (apt-get install nginx-light)",
    )
}

/// An address that is free now.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Waits until nginx answers; `false` if another process took its port.
async fn answers(it: &Instance, nginx: &mut Process, url: &str) -> bool {
    let up = eventually("an answer of nginx", async || {
        if nginx.stderr().contains("[emerg]") {
            return Some(false);
        }
        let answer = Call::new(it.http(), "GET", url).try_send().await?;
        (answer.status == 401).then_some(true)
    })
    .await;
    if !up {
        let stderr = nginx.wait_for_end().await.stderr;
        assert!(stderr.contains("Address already in use"), "{stderr}");
    }
    up
}

/// A service that answers with the request that it received.
async fn echo() -> SocketAddr {
    async fn echo_request(
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> (StatusCode, Json<Value>) {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| json!([name.as_str(), value.to_str().unwrap()]))
            .collect();
        let status = match uri.path() {
            "/broken" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::OK,
        };
        let reply = json!({
            "method": method.as_str(), "uri": uri.to_string(), "headers": headers,
            "body": String::from_utf8_lossy(&body),
        });
        (status, Json(reply))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = axum::Router::new().fallback(echo_request);
    tokio::spawn(axum::serve(listener, service).into_future());
    address
}

/// All values of a header in the request that the service received.
fn header_values<'a>(reply: &'a Value, name: &str) -> Vec<&'a str> {
    let headers = reply["headers"].as_array().unwrap();
    headers
        .iter()
        .filter(|header| header[0] == name)
        .map(|header| header[1].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_valid_key_passes_with_its_route_and_forged_headers_do_not() {
    let proxied = Proxied::start().await;
    let it = &proxied.it;
    let home = text(&it.tenant("acme").await["slices"][0]["shardID"]);
    let (_, key) = it.key("acme").await;
    let place = [
        ("ballast-tenant", "acme"),
        ("ballast-shard", &home),
        ("ballast-shard-url", &it.router),
        ("ballast-epoch", "1"),
        ("ballast-region", "local"),
    ];
    let header = proxied.call("POST", "/votes?x=1").header("x-api-key", &key);
    let mut header = header.raw("text/plain", "a ballot");
    for (name, _) in place {
        header = header.header(name, "forged");
    }
    // Headers that `/resolve` sends only during a migration cannot be forged at other times.
    header = header.header("ballast-also-on", "forged");
    let bearer = proxied.call("GET", "/votes").token(&key);
    let query = proxied.call("DELETE", &format!("/votes?api_key={key}"));
    let query = query.header("x-forwarded-uri", "/?api_key=forged");
    let calls = [(header, "POST"), (bearer, "GET"), (query, "DELETE")];
    for (call, method) in calls {
        let reply = call.send().await.expect(200);
        assert_eq!(reply["method"], method);
        for (name, value) in place {
            assert_eq!(header_values(&reply, name), [value], "{method} {name}");
        }
        assert!(
            header_values(&reply, "ballast-also-on").is_empty(),
            "{method}"
        );
        let body = if method == "POST" { "a ballot" } else { "" };
        assert_eq!(reply["body"], body);
    }
    let head = proxied.call("HEAD", "/").header("x-api-key", &key);
    assert_eq!(head.send().await.status, 200);
    // The service's own errors pass unchanged.
    let broken = proxied.call("GET", "/broken").header("x-api-key", &key);
    assert_eq!(broken.send().await.expect(500)["uri"], "/broken");
}

#[tokio::test]
async fn invalid_keys_do_not_pass() {
    let proxied = Proxied::start().await;
    let it = &proxied.it;
    it.tenant("acme").await;
    let (id, key) = it.key("acme").await;
    let nothing = proxied.call("GET", "/").send().await;
    assert_eq!(nothing.status, 401);
    assert!(nothing.header("www-authenticate").starts_with("Bearer"));
    for bad in [&unknown_secret(Purpose::LiveKey), &it.token, "hello"] {
        assert_eq!(proxied.with_key(bad).await.status, 401, "{bad}");
    }
    let question = proxied.call("GET", "/ballast").header("x-api-key", &key);
    assert_eq!(question.send().await.status, 404, "it is nginx's to ask");

    assert_eq!(proxied.with_key(&key).await.status, 200);
    it.act(&format!("/keys/{id}/revoke")).await;
    within(SECOND, "the end of the key", async || {
        (proxied.with_key(&key).await.status == 401).then_some(())
    })
    .await;
    let (_, key) = it.key("acme").await;
    it.act("/tenants/acme/suspend").await;
    within(SECOND, "the suspension", async || {
        (proxied.with_key(&key).await.status == 403).then_some(())
    })
    .await;
}

#[tokio::test]
async fn unavailable_shards_are_reported() {
    let mut proxied = Proxied::start().await;
    let it = &proxied.it;
    let home = text(&it.tenant("acme").await["slices"][0]["shardID"]);
    let (_, key) = it.key("acme").await;
    assert_eq!(proxied.with_key(&key).await.status, 200);
    let shard = format!("/shards/{home}");
    it.patch(&shard, &json!({ "state": "down" })).await;
    let down = within(SECOND, "the shard's end", async || {
        let answer = proxied.with_key(&key).await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_eq!(down.header("retry-after"), "5");
    it.patch(&shard, &json!({ "state": "active" })).await;
    within(SECOND, "the shard's return", async || {
        (proxied.with_key(&key).await.status == 200).then_some(())
    })
    .await;
    proxied.it.kill9();
    assert_eq!(proxied.with_key(&key).await.status, 503, "Ballast is away");
}

#[tokio::test]
async fn browsers_are_admitted_by_origin_through_nginx() {
    let proxied = Proxied::start().await;
    let it = &proxied.it;
    let body = json!({ "tenantID": "acme", "corsOrigins": ["https://vote.example"] });
    it.create("/tenants", &body).await;
    let (_, key) = it.key("acme").await;
    let allowed = |answer: &HttpAnswer| answer.header("access-control-allow-origin").to_owned();
    let from = |method: &str, origin: &str| {
        let call = proxied.call(method, "/votes");
        call.header("origin", origin)
    };
    let preflight = from("OPTIONS", "https://vote.example")
        .header("access-control-request-method", "POST")
        .send()
        .await;
    assert_eq!(preflight.status, 204);
    assert_eq!(allowed(&preflight), "https://vote.example");
    // Only a preflight passes without a key, and it does not reach the service.
    assert_eq!(
        from("OPTIONS", "https://vote.example").send().await.status,
        401
    );
    let forged = from("POST", "https://vote.example")
        .header("access-control-request-method", "POST")
        .header("x-original-method", "OPTIONS");
    assert_eq!(forged.send().await.status, 401);

    let ask = async |origin: &str| {
        let call = from("POST", origin).header("x-api-key", &key);
        let answer = call.send().await;
        (answer.status, allowed(&answer))
    };
    let vote = "https://vote.example";
    assert_eq!(ask(vote).await, (200, vote.to_owned()));
    assert_eq!(ask("https://evil.example").await, (403, String::new()));
    // Pages of the proxied origin itself are admitted.
    assert_eq!(ask(&proxied.url).await, (200, String::new()));
}

#[tokio::test]
async fn no_key_is_written_to_the_access_log() {
    let proxied = Proxied::start().await;
    proxied.it.tenant("acme").await;
    let (_, key) = proxied.it.key("acme").await;
    let path = format!("/hello?api_key={key}");
    proxied.call("GET", &path).send().await.expect(200);
    let log = eventually("the line of the request", async || {
        let log = proxied.nginx.stdout();
        log.contains("/hello").then_some(log)
    })
    .await;
    assert!(!log.contains(&key[16..40]), "{log}");
}
