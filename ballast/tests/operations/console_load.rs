//! Hotspots, plans, load and replay on the console, under real load.

use crate::support::hot::{PATIENCE, first, overload_one_shard, started};
use crate::support::pages::Browser;
use crate::support::{text, within};

#[tokio::test]
async fn a_plan_is_approved_and_load_is_charted_and_replayed() {
    let it = started("propose").await;
    let (one, two, shard) = overload_one_shard(&it).await;
    let mut browser = Browser::logged_in(&it, &it.token).await;
    let empty = browser.get("/console/hotspots").await.expect(200);
    assert!(empty.text.contains("no open hotspots"));
    let plan = within(PATIENCE, "a plan", async || {
        first(&it, "/plans?open=true").await
    })
    .await;
    let id = text(&plan["planID"]);
    let hotspot = text(&first(&it, "/hotspots").await.unwrap()["hotspotID"]);

    let list = browser
        .get("/console/hotspots?shard=shard-1")
        .await
        .expect(200);
    assert!(list.text.contains(&hotspot) && list.text.contains(&id) && list.text.contains("busy"));
    let shown = browser
        .get(&format!("/console/hotspots/{hotspot}"))
        .await
        .expect(200);
    assert!(shown.text.contains("Diagnosis") && shown.text.contains("data-series"));
    let path = format!("/console/plans/{id}");
    let shown = browser.get(&path).await.expect(200);
    assert!(shown.text.contains("Approve") && shown.text.contains("proposed"));

    // A viewer may read the plan, but not approve it.
    let (_, viewer) = it.new_token("viewer").await;
    let mut viewer = Browser::logged_in(&it, &viewer).await;
    assert!(
        !viewer
            .get(&path)
            .await
            .expect(200)
            .text
            .contains("/approve")
    );
    viewer
        .submit("/console", &format!("{path}/approve"), &[])
        .await
        .expect(403);

    let approved = browser
        .submit(&path, &format!("{path}/approve"), &[("reason", "go on")])
        .await;
    approved.expect(303);
    let plan = it.get(&format!("/plans/{id}")).await;
    assert_ne!(plan["status"], "proposed");
    assert_eq!(plan["decided"]["reason"], "go on");
    within(PATIENCE, "the moves", async || {
        let page = browser.get(&path).await.expect(200);
        page.text.contains("/console/moves/").then_some(())
    })
    .await;

    // The fleet page shows the measured load of each shard.
    let fleet = within(PATIENCE, "heat on the fleet page", async || {
        let fleet = browser.get("/console").await.expect(200).text;
        (fleet.contains("% of capacity") && fleet.contains("too little load recorded yet"))
            .then_some(fleet)
    })
    .await;
    assert!(fleet.contains("half of its shard's capacity"));
    let shown = browser.get(&format!("/console/shards/{shard}")).await;
    assert!(
        shown
            .expect(200)
            .text
            .contains("too little load recorded yet")
    );

    // A tenant's usage is loaded after its page, and also has a page of its own.
    let path = format!("/console/tenants/{}", one.tenant);
    let page = browser.get(&path).await.expect(200).text;
    assert!(page.contains(&format!("data-part=\"{path}/load\"")));
    let used = browser.get(&format!("{path}/load?minutes=15")).await;
    let used = used.expect(200).text;
    for said in [
        "<h1>Load of",
        "data-series",
        "Share of its shard",
        "p99 (ms)",
    ] {
        assert!(used.contains(said), "{said}: {used}");
    }
    let days = browser.get(&format!("{path}/usage")).await.expect(200).text;
    assert!(
        days.contains("to see costs") && days.contains("<td class=\"num\">"),
        "{days}"
    );
    let part = browser
        .part(&format!("{path}/usage"))
        .await
        .expect(200)
        .text;
    assert!(
        part.contains("to see costs") && !part.contains("<h1>"),
        "{part}"
    );
    it.tenant("quiet").await;
    let quiet = browser.get("/console/tenants/quiet/load").await.expect(200);
    assert!(quiet.text.contains("No load in this time."));
    let quiet = browser
        .get("/console/tenants/quiet/usage")
        .await
        .expect(200);
    assert!(quiet.text.contains("No usage is recorded"));

    let load = browser.get("/console/load?minutes=15").await.expect(200);
    for said in ["Heat by shard", "data-tip=\"shard-1", "data-series", "Skew"] {
        assert!(load.text.contains(said), "{said}");
    }
    let replay = browser
        .get("/console/replay?minutes=15&place=200")
        .await
        .expect(200);
    assert!(replay.text.contains("type=\"range\"") && replay.text.contains("plan.approve"));
    let record = browser
        .get("/console/replay/load.ndjson?minutes=15")
        .await
        .expect(200);
    assert!(record.text.lines().count() > 1, "{}", record.text);
    browser
        .get("/console/replay?from=tomorrow")
        .await
        .expect(422);
    browser.get("/console/plans/none").await.expect(404);
    browser.get("/console/hotspots/none").await.expect(404);
    one.end().await;
    two.end().await;
}
