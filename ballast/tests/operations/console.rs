//! The console over HTTP: sessions, CSRF tokens, roles, and the audit log.

use crate::support::pages::{Browser, badly_named, percent};
use crate::support::{Instance, InstanceOptions, eventually, unknown_secret};

const PAGES: [&str; 12] = [
    "/console",
    "/console/tenants",
    "/console/tenants/acme",
    "/console/moves",
    "/console/hotspots",
    "/console/load",
    "/console/replay",
    "/console/shards",
    "/console/shards/shard-1",
    "/console/polls",
    "/console/events",
    "/console/settings",
];

#[tokio::test]
async fn pages_require_a_valid_token() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let mut browser = Browser::new(&it);
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
    let unknown = unknown_secret(ballast_domain::credential::Purpose::AdminToken);
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
async fn a_session_ends_with_its_token_expiry_or_logout() {
    let config = "[console]\nsession = \"2s\"\n".to_owned();
    let it = Instance::with(InstanceOptions {
        config: Some(config),
        ..InstanceOptions::default()
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
    let page = left.submit("/console", "/console/logout", &[]).await;
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
async fn live_updates_end_with_the_session() {
    let config = "[console]\nsession = \"20s\"\n".to_owned();
    let it = Instance::with(InstanceOptions {
        config: Some(config),
        ..InstanceOptions::default()
    })
    .await;
    // The fleet page gets an update every second, so its stream is never quiet.
    let busy = "/console/live/fleet";
    let expiring = Browser::logged_in(&it, &it.token).await.watch(busy).await;

    let (id, token) = it.new_token("viewer").await;
    let mut revoked = Browser::logged_in(&it, &token).await.watch(busy).await;
    revoked.until("event: sample").await;
    it.act(&format!("/tokens/{id}/revoke")).await;
    assert!(revoked.wait_for_end().await.contains("event: over"));

    let mut left = Browser::logged_in(&it, &it.token).await;
    let mut watched = left.watch(busy).await;
    watched.until("event: sample").await;
    left.submit("/console", "/console/logout", &[]).await;
    assert!(watched.wait_for_end().await.contains("event: over"));

    assert!(
        expiring.wait_for_end().await.contains("event: over"),
        "its time"
    );
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
    let mut browser = Browser::new(&it);
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
    assert!(page.text.contains("Too many logins from your address"));
    assert!(!page.text.contains("The tenant has exceeded a limit"));
    assert!(browser.cookie.is_none());
}

#[tokio::test]
async fn pages_have_strict_security_headers() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let mut browser = Browser::new(&it);
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
async fn over_https_the_cookie_is_secure() {
    let home = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (cert, key) = (home.path().join("cert.pem"), home.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let path = |file: &std::path::Path| file.to_str().unwrap().to_owned();
    let options = InstanceOptions {
        args: vec![
            "--tls-cert".to_owned(),
            path(&cert),
            "--tls-key".to_owned(),
            path(&key),
        ],
        trust: Some(made.cert.pem()),
        ..InstanceOptions::default()
    };
    let it = Instance::within(home, options).await;
    let mut browser = Browser::new(&it);
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
    // The right token, but the browser's headers name another site.
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
async fn a_form_after_the_session_is_reported_as_lost() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let mut browser = Browser::new(&it);
    let request = it
        .http()
        .post(format!("{}/console/tenants/acme/suspend", it.router))
        .header("referer", format!("{}/console/tenants/acme", it.router));
    let answer = browser.send(request).await.expect(303);
    let to = answer.header("location").to_owned();
    assert_eq!(
        to,
        "/console/login?lost=yes&next=%2Fconsole%2Ftenants%2Facme"
    );
    let login = browser.get(&to).await.expect(200);
    assert!(login.text.contains("nothing was done"));
    assert!(login.text.contains("value=\"/console/tenants/acme\""));
    assert_eq!(it.get("/tenants/acme").await["status"], "active");
}

#[tokio::test]
async fn error_pages_offer_a_next_step() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let csrf = browser.get("/console").await.csrf();
    let request = it
        .http()
        .post(format!("{}/console/tenants/acme/limits", it.router))
        .header("referer", format!("{}/console/tenants/acme", it.router))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("csrf={csrf}&votes=many"));
    let page = browser.send(request).await.expect(422);
    for said in [
        "votes: must be a whole number",
        "aria-label=\"Console\"",
        "href=\"/console/tenants/acme\">Back",
    ] {
        assert!(page.text.contains(said), "{said}");
    }
    let page = browser.get("/console/tenants/nobody").await.expect(404);
    assert!(page.text.contains("aria-label=\"Console\""));
    assert!(page.text.contains("Look for it in the lists"));
    assert_eq!(page.header("cache-control"), "no-store");
    // The page of a share link reveals nothing about the fleet.
    let page = Browser::new(&it).get("/console/share/nonsense").await;
    let page = page.expect(404);
    assert!(page.text.contains("Ask the person who gave it to you"));
    for house in ["readyz", "fleet", "href=\"/console\""] {
        assert!(!page.text.contains(house), "{house}");
    }
}

#[tokio::test]
async fn searches_show_matches_or_say_that_there_are_none() {
    let it = Instance::start().await;
    it.tenant("acme").await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    for (path, said) in [
        ("/console/tenants?q=ACM", "/console/tenants/acme"),
        ("/console/moves?tenant=zzz", "There is no tenant zzz."),
        (
            "/console/moves?tenant=acme",
            "acme has no matching migrations.",
        ),
        ("/console/moves?status=failed", "No migration matches."),
        ("/console/events?id=acme", "tenant.create"),
    ] {
        let page = browser.get(path).await.expect(200);
        assert!(page.text.contains(said), "{path}: {said}");
    }
}

#[tokio::test]
async fn each_role_is_limited_to_its_pages_and_actions() {
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
        let page = viewer.submit("/console", path, fields).await.expect(403);
        assert!(page.text.contains("missing-role"), "{path}");
    }
    assert_eq!(it.newest_event().await, before, "nothing happened");
    let mut operator = Browser::logged_in(&it, &operator).await;
    operator
        .submit("/console", "/console/settings/reload", &[])
        .await
        .expect(403);
    operator
        .submit(
            "/console",
            "/console/tenants/acme/limits",
            &[("votes", "5")],
        )
        .await
        .expect(303);
}

#[tokio::test]
async fn names_cannot_become_markup() {
    let it = Instance::start().await;
    let evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'";
    let results = badly_named(&it, evil).await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
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
async fn a_disabled_console_is_not_served() {
    let config = "[console]\nenabled = false\n".to_owned();
    let it = Instance::with(InstanceOptions {
        config: Some(config),
        ..InstanceOptions::default()
    })
    .await;
    let mut browser = Browser::new(&it);
    assert_eq!(browser.get("/console").await.status, 404);
    assert!(browser.get("/").await.header("location").contains("docs"));
}
