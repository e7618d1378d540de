//! The console over HTTP: who gets in, what a form must carry, what each role
//! may do, and that all of it is in the audit log like everything else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use support::polls::Application;
use support::{Instance, Options, eventually, stranger};

/// A browser without scripts: it keeps cookies and sends forms.
struct Browser {
    http: reqwest::Client,
    base: String,
    cookie: Option<String>,
}

/// A page as it came.
#[derive(Debug)]
struct Page {
    status: u16,
    headers: reqwest::header::HeaderMap,
    text: String,
}

impl Page {
    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    fn csrf(&self) -> String {
        let (_, rest) = self
            .text
            .split_once("name=\"csrf\" value=\"")
            .expect("a form");
        rest.split('"').next().unwrap().to_owned()
    }

    #[track_caller]
    fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

impl Browser {
    fn of(it: &Instance) -> Self {
        Self {
            http: it.http().clone(),
            base: it.router.clone(),
            cookie: None,
        }
    }

    async fn logged_in(it: &Instance, token: &str) -> Self {
        let mut browser = Self::of(it);
        let page = browser.post("/console/login", &[("token", token)]).await;
        assert_eq!(page.status, 303, "{}", page.text);
        browser
    }

    async fn send(&mut self, request: reqwest::RequestBuilder) -> Page {
        let request = match &self.cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        };
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        for set in headers.get_all("set-cookie") {
            let pair = set.to_str().unwrap().split(';').next().unwrap();
            if pair.starts_with("ballast_session=") {
                self.cookie = Some(pair.to_owned());
            }
        }
        let text = answer.text().await.unwrap();
        Page {
            status,
            headers,
            text,
        }
    }

    async fn get(&mut self, path: &str) -> Page {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request).await
    }

    async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let encoded: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", percent(value)))
            .collect();
        let request = self
            .http
            .post(format!("{}{path}", self.base))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(encoded.join("&"));
        self.send(request).await
    }

    /// Sends a form that a page has.
    async fn act(&mut self, page: &str, path: &str, fields: &[(&str, &str)]) -> Page {
        let csrf = self.get(page).await.expect(200).csrf();
        let mut all = vec![("csrf", csrf.as_str())];
        all.extend_from_slice(fields);
        self.post(path, &all).await
    }
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

const PAGES: [&str; 9] = [
    "/console",
    "/console/tenants",
    "/console/tenants/acme",
    "/console/moves",
    "/console/shards",
    "/console/shards/shard-1",
    "/console/polls",
    "/console/events",
    "/console/settings",
];

#[tokio::test]
async fn nobody_gets_in_without_a_token_that_works() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let mut browser = Browser::of(&it);
    for path in PAGES {
        let page = browser.get(path).await;
        assert_eq!(page.status, 303, "{path}");
        assert!(
            page.header("location").starts_with("/console/login?next="),
            "{path}"
        );
        assert!(!page.text.contains("acme"), "{path}");
    }
    let (_, key) = it.key("acme").await;
    let unknown = stranger(ballast_domain::credential::Purpose::AdminToken);
    for bad in ["", "nonsense", key.as_str(), unknown.as_str(), "bl_admin_x"] {
        let page = browser.post("/console/login", &[("token", bad)]).await;
        assert_eq!(page.status, 401, "{bad}");
        assert!(browser.cookie.is_none(), "{bad}");
        assert!(
            bad.is_empty() || !page.text.contains(bad),
            "{bad} is not repeated"
        );
    }
    browser.cookie = Some("ballast_session=AAAA".to_owned());
    assert_eq!(browser.get("/console").await.status, 303);
    assert_eq!(browser.get("/console/live/fleet").await.status, 401);
}

#[tokio::test]
async fn a_session_ends_with_its_token_its_time_or_its_logout() {
    let config = "[console]\nsession = \"2s\"\n".to_owned();
    let it = Instance::with(Options {
        config: Some(config),
        ..Options::default()
    })
    .await;
    let (id, token) = it.new_token("viewer").await;
    let mut revoked = Browser::logged_in(&it, &token).await;
    revoked.get("/console").await.expect(200);
    it.act(&format!("/tokens/{id}/revoke")).await;
    assert_eq!(
        revoked.get("/console").await.status,
        303,
        "the token is revoked"
    );

    let mut left = Browser::logged_in(&it, &it.token).await;
    let kept = left.cookie.clone();
    let page = left.act("/console", "/console/logout", &[]).await;
    assert_eq!(
        (page.status, page.header("location")),
        (303, "/console/login")
    );
    left.cookie = kept;
    assert_eq!(
        left.get("/console").await.status,
        303,
        "a copy of the cookie is worth nothing"
    );

    let mut old = Browser::logged_in(&it, &it.token).await;
    old.get("/console").await.expect(200);
    eventually("the end of the session", async || {
        (old.get("/console").await.status == 303).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_session_survives_a_restart() {
    let it = Instance::start().await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let it = it.restart().await;
    browser.base.clone_from(&it.router);
    browser.get("/console").await.expect(200);
}

#[tokio::test]
async fn failed_logins_make_an_address_wait() {
    let it = Instance::start().await;
    let mut browser = Browser::of(&it);
    for _ in 0..10 {
        browser
            .post("/console/login", &[("token", "wrong")])
            .await
            .expect(401);
    }
    let page = browser
        .post("/console/login", &[("token", &it.token)])
        .await
        .expect(429);
    assert!(page.header("retry-after").parse::<u64>().unwrap() > 0);
    assert!(browser.cookie.is_none());
}

#[tokio::test]
async fn pages_are_dressed_strictly() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let mut browser = Browser::of(&it);
    let login = browser
        .post("/console/login", &[("token", &it.token)])
        .await
        .expect(303);
    let cookie = login.header("set-cookie").to_owned();
    for part in [
        "HttpOnly",
        "SameSite=Strict",
        "Path=/console",
        "Max-Age=28800",
    ] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(&it.token));
    for path in PAGES {
        let page = browser.get(path).await.expect(200);
        let policy = page.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(page.header("cache-control"), "no-store", "{path}");
        assert_eq!(page.header("x-frame-options"), "DENY", "{path}");
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
        for inline in [
            "<style",
            " style=",
            " onclick=",
            "<script>",
            "http://www.",
            "//cdn",
        ] {
            assert!(!page.text.contains(inline), "{path} has {inline}");
        }
    }
    let page = browser.get("/console").await;
    let (_, rest) = page
        .text
        .split_once("href=\"/console/assets/console.")
        .unwrap();
    let name = format!(
        "/console/assets/console.{}",
        rest.split('"').next().unwrap()
    );
    let style = browser.get(&name).await.expect(200);
    assert!(style.header("cache-control").contains("immutable"));
    browser.get("/console/assets/console.css").await.expect(404);
    browser.get("/console/nowhere").await.expect(404);
}

#[tokio::test]
async fn over_https_the_cookie_never_goes_otherwise() {
    let home = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (cert, key) = (home.path().join("cert.pem"), home.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let path = |file: &std::path::Path| file.to_str().unwrap().to_owned();
    let options = Options {
        args: vec![
            "--tls-cert".to_owned(),
            path(&cert),
            "--tls-key".to_owned(),
            path(&key),
        ],
        trust: Some(made.cert.pem()),
        ..Options::default()
    };
    let it = Instance::within(home, options).await;
    let mut browser = Browser::of(&it);
    let login = browser
        .post("/console/login", &[("token", &it.token)])
        .await
        .expect(303);
    assert!(login.header("set-cookie").ends_with("; Secure"));
    browser.get("/console").await.expect(200);
}

#[tokio::test]
async fn a_form_of_another_page_changes_nothing() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let mut other = Browser::logged_in(&it, &it.token).await;
    let csrf = browser.get("/console").await.csrf();
    let foreign = other.get("/console").await.csrf();
    assert_ne!(csrf, foreign);
    let before = it.newest_event().await;
    let path = "/console/tenants/acme/suspend";
    for forged in [None, Some(""), Some("0"), Some(foreign.as_str())] {
        let fields: Vec<_> = forged.map(|forged| ("csrf", forged)).into_iter().collect();
        let page = browser.post(path, &fields).await.expect(403);
        assert!(page.text.contains("forged-form"));
    }
    // The right token, but the browser says that another site sent it.
    let url = format!("{}{path}", it.router);
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let request = it
            .http()
            .post(&url)
            .header(name, value)
            .body(format!("csrf={csrf}"));
        browser.send(request).await.expect(403);
    }
    assert_eq!(it.newest_event().await, before, "nothing happened");
    browser.post(path, &[("csrf", &csrf)]).await.expect(303);
    assert_eq!(it.get("/tenants/acme").await["status"], "suspended");
}

#[tokio::test]
async fn each_role_sees_and_does_its_own() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let (_, viewer) = it.new_token("viewer").await;
    let (_, operator) = it.new_token("operator").await;
    let mut viewer = Browser::logged_in(&it, &viewer).await;
    for path in PAGES {
        let page = viewer.get(path).await.expect(200);
        let acts = page.text.matches("method=\"post\"").count();
        let own = if path == "/console/settings" { 2 } else { 1 };
        assert_eq!(acts, own, "{path}: a viewer logs out, and tries settings");
    }
    let before = it.newest_event().await;
    for (path, fields) in [
        ("/console/tenants", &[("id", "other")][..]),
        ("/console/tenants/acme/keys", &[]),
        ("/console/tenants/acme/close", &[]),
        (
            "/console/tenants/acme/move",
            &[("to", "shard-1"), ("from", "shard-2")],
        ),
        ("/console/tenants/acme/slices", &[("into", "2")]),
        ("/console/tenants/acme/pin", &[("shard", "shard-1")]),
        ("/console/tenants/acme/limits", &[]),
        ("/console/shards", &[("id", "other")]),
        ("/console/shards/shard-1", &[("weight", "2")]),
        ("/console/shards/shard-1/drain", &[]),
        ("/console/shards/shard-1/keep", &[]),
        ("/console/shards/shard-1/remove", &[]),
        ("/console/settings/reload", &[]),
        ("/console/moves/none/cancel", &[]),
    ] {
        let page = viewer.act("/console", path, fields).await.expect(403);
        assert!(page.text.contains("missing-role"), "{path}");
    }
    assert_eq!(it.newest_event().await, before, "nothing happened");
    let mut operator = Browser::logged_in(&it, &operator).await;
    operator
        .act("/console", "/console/settings/reload", &[])
        .await
        .expect(403);
    operator
        .act(
            "/console",
            "/console/tenants/acme/limits",
            &[("votes", "5")],
        )
        .await
        .expect(303);
}

#[tokio::test]
async fn what_is_done_is_in_the_audit_log_with_who_and_why() {
    let it = Instance::start().await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let tenant = [
        ("id", "acme"),
        ("name", "Acme & Söhne"),
        ("reason", "a customer"),
    ];
    browser
        .act("/console/tenants", "/console/tenants", &tenant)
        .await
        .expect(303);
    let newest = it.get("/events?limit=1").await["items"][0].clone();
    assert_eq!(newest["action"], "tenant.create");
    assert_eq!(newest["reason"], "a customer");
    assert_eq!(newest["actor"]["name"], "first-admin");
    assert_eq!(newest["actor"]["address"], "127.0.0.1");
    assert_eq!(newest["after"]["name"], "Acme & Söhne");
    let page = browser.get("/console/tenants/acme").await.expect(200);
    assert!(page.text.contains("Acme &amp; Söhne"));

    // A key is shown once, works, and is rotated.
    let page = browser
        .act("/console/tenants/acme", "/console/tenants/acme/keys", &[])
        .await
        .expect(200);
    let secret = secret(&page);
    assert_eq!(it.resolve(&secret).await.status, 200);
    let again = browser.get("/console/tenants/acme").await;
    assert!(!again.text.contains(&secret));
    let keys = it.all("/keys?tenant=acme").await;
    let id = keys[0]["keyID"].as_str().unwrap().to_owned();
    let path = format!("/console/tenants/acme/keys/{id}/rotate");
    let page = browser
        .act("/console/tenants/acme", &path, &[("overlap", "0")])
        .await
        .expect(200);
    let successor = self::secret(&page);
    assert_eq!(it.resolve(&successor).await.status, 200);
    eventually("the end of the old key", async || {
        (it.resolve(&secret).await.status == 401).then_some(())
    })
    .await;

    // Somebody who looks at an old version is told.
    let stale = [("version", "1"), ("votes", "7")];
    let limits = "/console/tenants/acme/limits";
    browser
        .act("/console/tenants/acme", limits, &[("votes", "5")])
        .await
        .expect(303);
    browser
        .act("/console/tenants/acme", limits, &stale)
        .await
        .expect(412);
    let page = browser
        .act("/console/tenants/acme", limits, &[("votes", "many")])
        .await
        .expect(422);
    assert!(page.text.contains("votes"));
    assert_eq!(it.get("/tenants/acme").await["limits"]["votesPerSecond"], 5);
}

fn secret(page: &Page) -> String {
    let (_, rest) = page.text.split_once("id=\"secret\">").expect("a secret");
    rest.split('<').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_tenant_moves_and_comes_back() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let poll = app.poll(json!({ "title": "Tabs?" })).await;
    for voter in 0..20 {
        assert_eq!(
            app.vote(&poll, voter % 2, &format!("v{voter}"))
                .await
                .status,
            200
        );
    }
    let from = it.get("/tenants/acme/placement").await["shardID"]
        .as_str()
        .unwrap()
        .to_owned();
    let to = if from == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let plan = browser
        .get(&format!("/console/tenants/acme/move?to={to}&window=3600"))
        .await
        .expect(200);
    for said in [
        "WaitForSync",
        "Start the move",
        "20 rows in 1 polls",
        "about 20 ms",
    ] {
        assert!(plan.text.contains(said), "{said}");
    }
    let events = it.newest_event().await;
    let fields = [
        ("from", from.as_str()),
        ("to", to),
        ("slice", "0"),
        ("window", "3600"),
        ("reason", "relief"),
    ];
    let begun = browser
        .act("/console", "/console/tenants/acme/move", &fields)
        .await
        .expect(303);
    assert!(it.newest_event().await > events);
    let page = begun.header("location").to_owned();
    let id = page.rsplit('/').next().unwrap().to_owned();
    wait_for(&it, &id, |body| body["phase"] == "MonitorDualRead").await;
    let shown = browser.get(&page).await.expect(200);
    for said in [
        "class=\"current\"",
        "MonitorDualRead",
        "Reverse",
        "Complete",
        "relief",
    ] {
        assert!(shown.text.contains(said), "{said}");
    }
    assert!(
        !shown.text.contains(&format!("{page}/cancel")),
        "it is too late for that"
    );
    browser
        .get(&format!("{page}/certificate"))
        .await
        .expect(404);
    browser
        .act(&page, &format!("{page}/cancel"), &[])
        .await
        .expect(409);
    browser
        .act(&page, &format!("{page}/reverse"), &[("reason", "not yet")])
        .await
        .expect(303);
    wait_for(&it, &id, |body| body["status"] == "reversed").await;
    let shown = browser.get(&page).await.expect(200);
    for said in ["Acknowledged", "On the way back", "equal", "not yet"] {
        assert!(shown.text.contains(said), "{said}");
    }
    let file = browser
        .get(&format!("{page}/certificate"))
        .await
        .expect(200);
    let signed: Value = serde_json::from_str(&file.text).unwrap();
    assert_eq!(signed["status"], "reversed");
    assert!(file.header("content-disposition").contains("attachment"));
    assert_eq!(
        app.newest(&poll).await["total"],
        20,
        "{:?}",
        app.newest(&poll).await
    );
}

async fn wait_for(it: &Instance, id: &str, is: impl Fn(&Value) -> bool) {
    eventually("the move", async || {
        let body = it.get(&format!("/migrations/{id}")).await;
        is(&body).then_some(())
    })
    .await;
}

#[tokio::test]
async fn names_cannot_become_markup() {
    let it = Instance::start().await;
    let evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'";
    it.create(
        "/tenants",
        &json!({ "tenantID": "acme", "name": evil, "organisation": evil }),
    )
    .await;
    let app = Application::with_scopes(&it, "acme", &["vote", "read", "polls"]).await;
    let poll = app
        .poll(json!({ "title": evil, "items": [evil, "b"] }))
        .await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let results = format!("/console/polls/acme/{}", poll.id);
    for path in [
        "/console/tenants",
        "/console/tenants/acme",
        "/console/polls?tenant=acme",
        &results,
        "/console/events",
    ] {
        let page = browser.get(path).await.expect(200);
        assert!(page.text.contains("&lt;script&gt;"), "{path} shows it");
        assert!(
            !page.text.contains("<script>alert") && !page.text.contains("<img src=x"),
            "{path}"
        );
    }
    let path = format!("/console/tenants?q={}", percent("\"><script>x"));
    assert!(
        !browser
            .get(&path)
            .await
            .expect(200)
            .text
            .contains("<script>x")
    );
}

#[tokio::test]
async fn results_are_shared_by_a_link_and_nothing_else_is() {
    let it = Instance::start().await;
    let app = Application::of(&it, "acme").await;
    let poll = app.poll(json!({ "title": "Lunch" })).await;
    let hidden = app
        .poll(json!({ "title": "Later", "resultsHiddenUntilClosed": true }))
        .await;
    for voter in 0..3 {
        app.vote(&poll, 0, &format!("v{voter}")).await;
        app.vote(&hidden, 0, &format!("v{voter}")).await;
    }
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let mut anyone = Browser::of(&it);
    let path = format!("/console/polls/acme/{}/share", poll.id);
    browser
        .act("/console", &path, &[("days", "0")])
        .await
        .expect(422);
    let made = browser
        .act("/console", &path, &[("days", "1")])
        .await
        .expect(200);
    let link = secret(&made).replace(&it.router, "");
    let page = anyone.get(&link).await.expect(200);
    assert!(page.text.contains("Lunch") && page.text.contains("3 votes by 3 voters"));
    assert!(!page.text.contains("acme") && !page.text.contains("csrf"));
    anyone
        .get(&format!("{}x", &link[..link.len() - 1]))
        .await
        .expect(404);
    assert_eq!(
        anyone
            .get(&format!("/console/polls/acme/{}", poll.id))
            .await
            .status,
        303
    );
    let path = format!("/console/polls/acme/{}/share", hidden.id);
    let made = browser
        .act("/console", &path, &[("days", "1")])
        .await
        .expect(200);
    let page = anyone
        .get(&secret(&made).replace(&it.router, ""))
        .await
        .expect(200);
    assert!(page.text.contains("when the poll has closed") && !page.text.contains("3 votes"));
}

#[tokio::test]
async fn events_are_filtered_and_taken_along() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    it.tenant("other").await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let page = browser
        .get("/console/events?kind=tenant&id=acme")
        .await
        .expect(200);
    assert!(page.text.contains("tenant.create") && !page.text.contains(">other<"));
    let csv = browser
        .get("/console/events.csv?kind=tenant")
        .await
        .expect(200);
    assert_eq!(csv.text.lines().count(), 3, "{}", csv.text);
    assert!(csv.header("content-disposition").contains("events.csv"));
    let lines = browser.get("/console/events.ndjson").await.expect(200);
    let all = it.all("/events").await;
    assert_eq!(lines.text.lines().count(), all.len());
    for line in lines.text.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    browser
        .get("/console/events?kind=nonsense")
        .await
        .expect(422);
    browser
        .get("/console/events?since=yesterday")
        .await
        .expect(422);
}

#[tokio::test]
async fn shards_are_added_weighed_drained_and_removed() {
    let it = Instance::start().await;
    for number in 0..12 {
        it.tenant(&format!("t{number}")).await;
    }
    let mut browser = Browser::logged_in(&it, &it.token).await;
    browser
        .act(
            "/console/shards",
            "/console/shards",
            &[("id", "shard-9"), ("weight", "2")],
        )
        .await
        .expect(303);
    browser
        .act(
            "/console/shards",
            "/console/shards/shard-9",
            &[("weight", "0.5"), ("zones", "")],
        )
        .await
        .expect(303);
    assert_eq!(it.get("/shards/shard-9").await["weight"], 0.5);
    browser
        .act(
            "/console/shards",
            "/console/shards/shard-9",
            &[("weight", "-1")],
        )
        .await
        .expect(422);
    let plan = browser.get("/console/shards/shard-1").await.expect(200);
    assert!(plan.text.contains("What emptying it would do"));
    let fields = [
        ("window", "0"),
        ("concurrency", "4"),
        ("reason", "old disk"),
    ];
    browser
        .act(
            "/console/shards/shard-1",
            "/console/shards/shard-1/drain",
            &fields,
        )
        .await
        .expect(303);
    eventually("an empty shard", async || {
        let page = browser.get("/console/shards/shard-1").await.expect(200);
        page.text.contains(">empty<").then_some(())
    })
    .await;
    browser
        .act(
            "/console/shards/shard-1",
            "/console/shards/shard-1/remove",
            &[],
        )
        .await
        .expect(303);
    browser.get("/console/shards/shard-1").await.expect(404);
}

#[tokio::test]
async fn settings_are_shown_checked_and_reloaded() {
    let config = "[keys]\nrotate_overlap = \"3h\"\n".to_owned();
    let it = Instance::with(Options {
        config: Some(config),
        ..Options::default()
    })
    .await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let page = browser.get("/console/settings").await.expect(200);
    assert!(
        page.text.contains("rotate_overlap = &quot;3h&quot;"),
        "{}",
        page.text
    );
    let check = "/console/settings/check";
    let good = browser
        .act(
            "/console",
            check,
            &[("text", "[keys]\nrotate_overlap = \"1h\"\n")],
        )
        .await
        .expect(200);
    assert!(good.text.contains("would do"));
    let bad = browser
        .act(
            "/console",
            check,
            &[("text", "[keys]\nrotate_overlp = \"1h\"\n")],
        )
        .await
        .expect(200);
    assert!(bad.text.contains("did you mean"), "{}", bad.text);
    std::fs::write(
        it.home().join("ballast.toml"),
        "[keys]\nrotate_overlap = \"5h\"\n",
    )
    .unwrap();
    browser
        .act("/console", "/console/settings/reload", &[])
        .await
        .expect(303);
    let page = browser.get("/console/settings").await.expect(200);
    assert!(page.text.contains("rotate_overlap = &quot;5h&quot;"));
    std::fs::write(it.home().join("ballast.toml"), "nonsense").unwrap();
    let refused = browser
        .act("/console", "/console/settings/reload", &[])
        .await
        .expect(200);
    assert!(refused.text.contains("Nothing was changed"));
}

#[tokio::test]
async fn without_a_console_there_is_none() {
    let config = "[console]\nenabled = false\n".to_owned();
    let it = Instance::with(Options {
        config: Some(config),
        ..Options::default()
    })
    .await;
    let mut browser = Browser::of(&it);
    assert_eq!(browser.get("/console").await.status, 404);
    assert!(browser.get("/").await.header("location").contains("docs"));
}
