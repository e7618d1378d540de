//! The console in a real browser, headless Chromium. These tests are slow and need a browser, so
//! `scripts/test browser` runs them and other runs ignore them.
//!
//! Screenshots of every page, in both themes and two widths, go to `target/screenshots`; axe-core
//! checks each page.

use std::path::PathBuf;

use crate::support::browser::Chromium;
use crate::support::pages::badly_named;
use crate::support::polls::Application;
use crate::support::{Instance, InstanceOptions, eventually, hot, run_concurrently, text, within};
use serde_json::{Value, json};

const IGNORED: &str = "needs Chromium: run scripts/test browser";

async fn try_to_log_in(browser: &Chromium, it: &Instance, token: &str) {
    browser
        .navigate(&format!("{}/console/login", it.router))
        .await;
    browser.fill("#token", token).await;
    browser.click_text("Log in").await;
}

async fn log_in(browser: &Chromium, it: &Instance, token: &str) {
    try_to_log_in(browser, it, token).await;
    // Wait for the answer: navigating away before it arrives would be undone by its redirect.
    browser.find_by_text("Log out").await;
}

/// Creates many tenants.
async fn create_tenants(it: &Instance, many: usize) {
    let (admin, token, http) = (it.admin.clone(), it.token.clone(), it.http().clone());
    run_concurrently(16, many, move |number| {
        let url = format!("{admin}/tenants");
        let request = http.post(url).bearer_auth(&token);
        let body = json!({ "tenantID": format!("tenant-{number:05}") });
        async move { assert_eq!(request.json(&body).send().await.unwrap().status(), 201) }
    })
    .await;
}

async fn assert_no_console_errors(browser: &Chromium, about: &str) {
    let complaints = browser.console_errors().await;
    assert!(complaints.is_empty(), "{about}: {complaints:#?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: run scripts/test browser"]
async fn an_operator_finds_moves_and_reverses_a_tenant_and_rotates_its_key() {
    assert!(IGNORED.contains("scripts/test"));
    let it = Instance::start().await;
    create_tenants(&it, 10_000).await;
    let app = Application::with_scopes(&it, "tenant-07777", &["vote", "read", "polls"]).await;
    let poll = app.poll(json!({ "title": "Lunch?" })).await;
    for voter in 0..50 {
        app.vote(&poll, voter % 2, &format!("v{voter}")).await;
    }
    let browser = Chromium::start().await;
    browser.resize(1280, 900).await;

    // An invalid token is refused with an explanation.
    try_to_log_in(&browser, &it, "bl_admin_wrong").await;
    browser.wait_for_text("Invalid token").await;
    let refused = browser.console_errors().await;
    assert!(
        refused.iter().all(|line| line.contains("401")),
        "{refused:?}"
    );

    // Find one tenant of ten thousand.
    browser.fill("#token", &it.token).await;
    browser.click_text("Log in").await;
    browser.wait_for_text("Votes per second").await;
    browser.click_text("Tenants").await;
    browser.fill("#q", "tenant-07777").await;
    browser.click_text("Find").await;
    browser.click_text("tenant-07777").await;

    // The explanation of its placement.
    browser
        .wait_for_text("has the highest score of the shards that may hold it")
        .await;
    browser.wait_for_text("What would move it").await;
    let placement = it.get("/tenants/tenant-07777/placement").await;
    let from = placement["shardID"].as_str().unwrap().to_owned();
    let to = if from == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };

    // A migration: its preview, its states, then its reversal.
    browser
        .script(
            "document.querySelector('#move-to').value = arguments[0]",
            json!([to]),
        )
        .await;
    browser.fill("#move-window", "600").await;
    browser.click_text("Preview the migration").await;
    browser.wait_for_text("Estimated cost").await;
    browser.wait_for_text("50 rows in 1 poll,").await;
    browser.fill("#move-reason", "to see it move").await;
    browser.click_text("Start migration").await;
    browser.wait_for_text("MonitorDualRead").await;
    eventually("the live position", async || {
        let now = browser
            .script(
                "return document.querySelector('.flow .current text')?.textContent",
                json!([]),
            )
            .await;
        (now == "MonitorDualRead").then_some(())
    })
    .await;
    browser.click_text("Reverse…").await;
    browser.fill("input[id$=reverse-reason]", "and back").await;
    browser.click_text("Reverse").await;
    browser.wait_for_text("reversed").await;
    browser.wait_for_text("Certificate").await;
    browser.wait_for_text("On the way back").await;
    assert_eq!(
        it.get("/tenants/tenant-07777/placement").await["shardID"],
        from.as_str()
    );
    assert_no_console_errors(&browser, "the move").await;

    // Another migration, to its end.
    browser
        .navigate(&format!(
            "{}/console/tenants/tenant-07777/move?to={to}&window=1",
            it.router
        ))
        .await;
    browser.click_text("Start migration").await;
    browser.wait_for_text("completed").await;
    browser.wait_for_text("Acknowledged").await;
    assert_eq!(
        it.get("/tenants/tenant-07777/placement").await["shardID"],
        to
    );

    // A key is rotated, and the new one is shown once.
    browser
        .navigate(&format!("{}/console/tenants/tenant-07777", it.router))
        .await;
    browser.click_text("Rotate…").await;
    browser.click_text("Rotate").await;
    browser.wait_for_text("shown only once").await;
    let secret = browser
        .script(
            "return document.querySelector('#secret').textContent",
            json!([]),
        )
        .await;
    assert_eq!(it.resolve(secret.as_str().unwrap()).await.status, 200);
    browser
        .navigate(&format!("{}/console/tenants/tenant-07777", it.router))
        .await;
    browser.wait_for_text("API keys").await;
    assert!(!browser.source().await.contains(secret.as_str().unwrap()));
    assert_no_console_errors(&browser, "the keys").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: run scripts/test browser"]
async fn live_pages_update_and_survive_a_kill() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({ "title": "Lunch?" })).await;
    let browser = Chromium::start().await;
    log_in(&browser, &it, &it.token).await;
    browser
        .navigate(&format!("{}/console/polls/acme/{}", it.router, poll.id))
        .await;
    browser.wait_for_text("0 votes by 0 voters").await;
    app.vote(&poll, 0, "ada").await;
    browser.wait_for_text("1 vote by 1 voter").await;
    let mut it = it;
    it.kill9();
    browser.wait_for_text("reconnecting").await;
    let it = it.restart().await;
    app.vote(&poll, 1, "bob").await;
    browser.wait_for_text("2 votes by 2 voters").await;
    drop(it);
}

/// A script: the fleet's table of tenants, and the focused element's row and target.
const IN_FOCUS: &str = "const hot = document.querySelector('#fleet-hot');
    const said = () => {
        const here = document.activeElement;
        const row = here.closest('tr')?.querySelector('a').textContent;
        return [row ?? '', here.getAttribute('href') ?? here.className];
    };";

async fn create_tenant_with_vote(it: &Instance, tenant: &str) {
    let app = Application::create(it, tenant).await;
    let poll = app.poll(json!({ "title": "Dinner?" })).await;
    app.vote(&poll, 0, "bob").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: run scripts/test browser"]
async fn live_updates_keep_focus_and_typed_text() {
    let it = Instance::start().await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({ "title": "Lunch?" })).await;
    app.vote(&poll, 0, "ada").await;
    let browser = Chromium::start().await;
    log_in(&browser, &it, &it.token).await;

    // Focus on a table or a link does not stop updates, and stays on its element in whatever order
    // rows are drawn. The last case is a link that several rows have: there are more tenants than
    // shards.
    for number in 0..it.get("/shards").await["items"].as_array().unwrap().len() {
        create_tenant_with_vote(&it, &format!("early-{number}")).await;
    }
    for (number, focused) in [
        "hot.querySelector('.scroll')",
        "hot.querySelector('td a')",
        "[...hot.querySelectorAll('td a')].findLast((one, _, all) =>
            all.some((other) => other !== one && other.href === one.href))",
    ]
    .into_iter()
    .enumerate()
    {
        browser.navigate(&format!("{}/console", it.router)).await;
        let run = format!("{IN_FOCUS} const it = {focused}; it?.focus(); return it && said();");
        let focus = eventually("the focused element", async || {
            let focus = browser.script(&run, json!([])).await;
            (!focus.is_null()).then_some(focus)
        })
        .await;
        let later = format!("later-{number}");
        create_tenant_with_vote(&it, &later).await;
        eventually("the tenant that came later", async || {
            let run = format!("{IN_FOCUS} return hot.textContent.includes(arguments[0]);");
            (browser.script(&run, json!([later])).await == true).then_some(())
        })
        .await;
        let run = format!("{IN_FOCUS} return said();");
        assert_eq!(browser.script(&run, json!([])).await, focus);
    }

    // A form in use is not redrawn until its action is no longer possible.
    let from = it.get("/tenants/acme/placement").await["shardID"].clone();
    let to = if from == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let body = json!({ "toShardID": to, "windowMs": 600_000 });
    let begun = it.call("POST", "/tenants/acme/move?reason=relief");
    let begun = begun.json(&body).send().await.expect(202);
    let id = text(&begun["migrationID"]);
    browser
        .navigate(&format!("{}/console/moves/{id}", it.router))
        .await;
    browser.wait_for_text("MonitorDualRead").await;
    browser.wait_for_text("% of this step").await;
    let findings = inspect_page(&browser, "move-window").await;
    assert!(findings.is_empty(), "{findings:#?}");
    browser
        .script("document.querySelector('#history').click()", json!([]))
        .await;
    browser.click_text("Complete…").await;
    browser
        .fill("input[id$=complete-reason]", "it is well")
        .await;
    it.act(&format!("/migrations/{id}/pause")).await;
    browser.wait_for_text("paused").await;
    let run = "return document.querySelector('input[id$=complete-reason]').value";
    assert_eq!(browser.script(run, json!([])).await, "it is well");
    it.act(&format!("/migrations/{id}/resume")).await;
    it.act(&format!("/migrations/{id}/complete")).await;
    browser.wait_for_text("completed").await;
    eventually("the end of the commands", async || {
        let run = "return document.querySelectorAll('#move-verbs form').length";
        (browser.script(run, json!([])).await == 0).then_some(())
    })
    .await;
    let run = "return document.querySelector('#move-history details').open";
    assert_eq!(browser.script(run, json!([])).await, true);
    assert_no_console_errors(&browser, "the page in use").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: run scripts/test browser"]
async fn a_revoked_session_is_redirected_to_the_login() {
    let it = Instance::start().await;
    let (id, token) = it.new_token("viewer").await;
    let browser = Chromium::start().await;
    log_in(&browser, &it, &token).await;
    browser.wait_for_text("Votes per second").await;
    it.act(&format!("/tokens/{id}/revoke")).await;
    eventually("the login", async || {
        let there = browser.url().await;
        there.contains("/console/login?next=").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: run scripts/test browser"]
async fn an_expired_session_is_redirected_and_forms_cannot_be_forged() {
    let config = "[console]\nsession = \"3s\"\n".to_owned();
    let it = Instance::with(InstanceOptions {
        config: Some(config),
        ..InstanceOptions::default()
    })
    .await;
    it.tenant("acme").await;
    let browser = Chromium::start().await;
    log_in(&browser, &it, &it.token).await;
    browser.wait_for_text("Votes per second").await;
    // Another site's form comes without the cookie and without a CSRF token.
    let forged = format!(
        "data:text/html,<form method=post action='{}/console/tenants/acme/suspend'></form><script>document.forms[0].submit()</script>",
        it.router
    );
    browser.navigate(&forged).await;
    eventually("the answer to the forged form", async || {
        let url = browser.url().await;
        url.starts_with("http").then_some(())
    })
    .await;
    assert_eq!(it.get("/tenants/acme").await["status"], "active");
    // The page redirects to the login by itself, or with the next click.
    browser
        .navigate(&format!("{}/console/tenants/acme", it.router))
        .await;
    eventually("the login", async || {
        browser
            .navigate(&format!("{}/console/tenants/acme", it.router))
            .await;
        browser
            .url()
            .await
            .contains("/console/login?next=")
            .then_some(())
    })
    .await;
    browser.fill("#token", &it.token).await;
    browser.click_text("Log in").await;
    browser.wait_for_text("Why it is on this shard").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: run scripts/test browser"]
async fn names_cannot_become_scripts() {
    let it = Instance::start().await;
    let evil =
        "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>";
    let results = badly_named(&it, evil).await;
    let browser = Chromium::start().await;
    log_in(&browser, &it, &it.token).await;
    for path in [
        "/console/tenants",
        "/console/tenants/acme",
        "/console/polls?tenant=acme",
        &results,
        "/console/events",
        "/console",
    ] {
        browser.navigate(&format!("{}{path}", it.router)).await;
        browser.find("main").await;
        let title = browser.script("return document.title", json!([])).await;
        assert_ne!(title, "pwned", "{path}");
        assert_no_console_errors(&browser, path).await;
    }
}

/// Every page, with its name in the screenshots' file names.
fn pages(poll: &str, migration: &str) -> Vec<(&'static str, String)> {
    vec![
        ("fleet", "/console".to_owned()),
        ("tenants", "/console/tenants".to_owned()),
        ("tenant", "/console/tenants/gala-01".to_owned()),
        (
            "move-plan",
            "/console/tenants/gala-02/move?to=shard-1".to_owned(),
        ),
        (
            "split-plan",
            "/console/tenants/gala-02/slices?into=4".to_owned(),
        ),
        ("moves", "/console/moves".to_owned()),
        ("hotspots", "/console/hotspots?shard=shard-1".to_owned()),
        ("load", "/console/load?minutes=15".to_owned()),
        ("replay", "/console/replay?minutes=15".to_owned()),
        ("move", format!("/console/moves/{migration}")),
        ("shards", "/console/shards".to_owned()),
        ("shard", "/console/shards/shard-1".to_owned()),
        ("polls", "/console/polls".to_owned()),
        ("poll", format!("/console/polls/gala-01/{poll}")),
        ("events", "/console/events".to_owned()),
        ("settings", "/console/settings".to_owned()),
        ("not-found", "/console/nowhere".to_owned()),
        ("tenant-wide", "/console/tenants/wide".to_owned()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: run scripts/test browser"]
async fn every_page_is_accessible() {
    let it = Instance::start().await;
    let (poll, migration) = start_furnished_fleet(&it).await;
    let browser = Chromium::start().await;
    browser.resize(1280, 900).await;
    browser
        .navigate(&format!("{}/console/login", it.router))
        .await;
    let mut findings = inspect_page(&browser, "login").await;
    // Names have the maximum length and no place to break.
    let long = "W".repeat(128);
    let named = json!({ "name": long, "role": "admin" });
    let token = text(&it.create("/tokens", &named).await["token"]);
    it.create("/tenants", &json!({ "tenantID": "wide", "name": long }))
        .await;
    log_in(&browser, &it, &token).await;
    browser.wait_for_text("Votes per second").await;
    for (name, path) in pages(&poll, &migration) {
        browser.navigate(&format!("{}{path}", it.router)).await;
        findings.extend(inspect_page(&browser, name).await);
    }
    assert!(findings.is_empty(), "{findings:#?}");
    let complaints = browser.console_errors().await;
    let expected = |line: &String| line.contains("/console/nowhere") && line.contains("404");
    assert!(complaints.iter().all(expected), "{complaints:#?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: run scripts/test browser"]
async fn a_hotspot_is_read_and_its_plan_approved_and_judged() {
    let it = hot::started("propose").await;
    let (one, two, shard) = hot::overload_one_shard(&it).await;
    let browser = Chromium::start().await;
    browser.resize(1280, 900).await;
    log_in(&browser, &it, &it.token).await;
    let plan = within(hot::PATIENCE, "a plan", async || {
        hot::first(&it, "/plans?open=true").await
    })
    .await;
    let plan = format!("/console/plans/{}", text(&plan["planID"]));
    let hotspot = hot::first(&it, "/hotspots").await.unwrap();
    let hotspot = format!("/console/hotspots/{}", text(&hotspot["hotspotID"]));
    let mut findings = Vec::new();
    for (name, path) in [
        ("hot-fleet", "/console".to_owned()),
        ("hot-hotspots", format!("/console/hotspots?shard={shard}")),
        ("hot-hotspot", hotspot.clone()),
        ("hot-plan-proposed", plan.clone()),
        ("hot-tenant", format!("/console/tenants/{}", one.tenant)),
        ("hot-load", "/console/load?minutes=15".to_owned()),
        (
            "hot-replay",
            "/console/replay?minutes=15&place=200".to_owned(),
        ),
        ("hot-shard", format!("/console/shards/{shard}?plan=yes")),
    ] {
        browser.navigate(&format!("{}{path}", it.router)).await;
        if name == "hot-fleet" {
            browser.wait_for_text("% of capacity").await;
        }
        if name == "hot-tenant" {
            // Wait for the parts that load later.
            browser.wait_for_text("Share of its shard").await;
            browser.wait_for_text("Days are in UTC").await;
        }
        findings.extend(inspect_page(&browser, name).await);
    }
    browser.navigate(&format!("{}{plan}", it.router)).await;
    browser.click_text("Approve…").await;
    let id = plan.trim_start_matches("/console/").replace('/', "-");
    browser
        .fill(&format!("#{id}-approve-reason"), "go on")
        .await;
    browser.click_text("Approve").await;
    browser.wait_for_text("The plan is approved.").await;
    // The page shows the outcome without a reload.
    within(hot::PATIENCE, "the plan is judged", async || {
        let run = "return document.querySelector('#plan-head .badge')?.textContent";
        (browser.script(run, json!([])).await == "done").then_some(())
    })
    .await;
    for (name, path) in [("hot-plan-done", &plan), ("hot-hotspot-over", &hotspot)] {
        browser.navigate(&format!("{}{path}", it.router)).await;
        findings.extend(inspect_page(&browser, name).await);
    }
    assert!(findings.is_empty(), "{findings:#?}");
    assert_no_console_errors(&browser, "hotspots and plans").await;
    one.end().await;
    two.end().await;
}

/// Starts a fleet that has content for every page.
async fn start_furnished_fleet(it: &Instance) -> (String, String) {
    let mut first = None;
    for number in 1..=40 {
        let id = format!("gala-{number:02}");
        let app = Application::create(it, &id).await;
        let items = json!(["Aurora", "Blue Harbour", "Copper Sky", "Drift"]);
        let poll = app
            .poll(json!({ "title": "Song of the night", "items": items }))
            .await;
        for voter in 0..(200 / number) {
            app.vote(&poll, voter * voter % 4, &format!("v{voter}"))
                .await;
        }
        first.get_or_insert(poll.id);
    }
    let placement = it.get("/tenants/gala-01/placement").await;
    let to = if placement["shardID"] == "shard-1" {
        "shard-2"
    } else {
        "shard-1"
    };
    let body = json!({ "toShardID": to, "windowMs": 0 });
    let begun = it
        .call("POST", "/tenants/gala-01/move?reason=relief")
        .json(&body)
        .send()
        .await
        .expect(202);
    let id = begun["migrationID"].as_str().unwrap().to_owned();
    eventually("the move", async || {
        (it.get(&format!("/migrations/{id}")).await["status"] == "completed").then_some(())
    })
    .await;
    (first.unwrap(), id)
}

/// Takes screenshots in both themes and two widths; returns axe-core's findings.
async fn inspect_page(browser: &Chromium, name: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for theme in ["light", "dark"] {
        browser
            .script(
                "localStorage.setItem('ballast-theme', arguments[0]); document.documentElement.dataset.theme = arguments[0]; document.dispatchEvent(new Event('ballast-theme'))",
                json!([theme]),
            )
            .await;
        for width in [1280, 390] {
            browser.resize(width, 900).await;
            let wide = browser
                .script("return document.documentElement.scrollWidth", json!([]))
                .await;
            if wide.as_u64().unwrap() > u64::from(width) {
                findings.push(format!("{name} is {wide} wide at {width}"));
            }
            browser
                .screenshot(&screenshots().join(format!("{name}-{theme}-{width}.png")))
                .await;
            let found = axe(browser).await.into_iter();
            findings.extend(found.map(|found| format!("{name}, {theme}, {width}: {found}")));
        }
    }
    browser.resize(1280, 900).await;
    findings
}

fn screenshots() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/screenshots")
}

/// The serious findings of axe-core, which `scripts/test browser` installs.
async fn axe(browser: &Chromium) -> Vec<String> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/axe/axe.min.js");
    let script = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}; run scripts/test browser", file.display()));
    let run = format!(
        "{script}; const done = arguments[arguments.length - 1];
         axe.run(document, {{ resultTypes: ['violations'] }}).then(done, (error) => done({{ error: String(error) }}))"
    );
    let result = browser.script_async(&run, json!([])).await;
    assert!(result.get("error").is_none(), "{result}");
    let serious =
        |violation: &&Value| matches!(violation["impact"].as_str(), Some("serious" | "critical"));
    let violations = result["violations"]
        .as_array()
        .unwrap()
        .iter()
        .filter(serious);
    violations
        .map(|violation| {
            let nodes = violation["nodes"].as_array().unwrap().iter().take(3);
            let nodes: Vec<String> = nodes
                .map(|node| format!("{} {}", node["html"], node["failureSummary"]))
                .collect();
            format!("{}: {nodes:#?}", violation["id"])
        })
        .collect()
}
