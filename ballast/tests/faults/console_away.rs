//! The console of a fleet in which one shard fails its syncs.

use serde_json::json;

use crate::support::pages::Browser;
use crate::support::polls::Application;
use crate::support::{Instance, InstanceOptions, eventually, text};

/// Syncs of a shard fail while a switch file exists (a fault of the test build).
#[tokio::test]
async fn unreachable_shards_are_shown_as_unreachable() {
    let it = Instance::with(InstanceOptions {
        env: vec![("BALLAST_FAULT".to_owned(), "sync-fails".to_owned())],
        config: Some("[router]\nhold_max = \"300ms\"\n".to_owned()),
        ..InstanceOptions::default()
    })
    .await;
    let app = Application::create(&it, "acme").await;
    let poll = app.poll(json!({ "title": "Lunch?" })).await;
    app.vote(&poll, 0, "ada").await.expect(200);
    let shard = text(&it.get("/tenants/acme/placement").await["shardID"]);
    let mut browser = Browser::logged_in(&it, &it.token).await;
    browser.get("/console/polls?tenant=acme").await.expect(200);
    let switch = find_directory(it.home(), &shard).join("sync-fails");
    std::fs::write(switch, "").unwrap();
    app.vote(&poll, 0, "bob").await;

    let shard_page = format!("/console/shards/{shard}");
    for path in ["/console", "/console/shards", shard_page.as_str()] {
        eventually("the unreachable shard and the reason", async || {
            let page = browser.get(path).await.expect(200);
            let (_, after) = page.text.split_once(">unreachable<")?;
            after.contains("the sync failed").then_some(())
        })
        .await;
    }
    let fleet = browser.get("/console").await.expect(200);
    assert!(
        fleet
            .text
            .contains(&format!("without {shard}, which cannot be read"))
    );
    for path in ["/console/polls?tenant=acme", "/console/tenants/acme"] {
        let page = browser.get(path).await.expect(200);
        assert!(page.text.contains("cannot be read right now"), "{path}");
        assert!(!page.text.contains("has no polls"), "{path}");
    }
}

/// Finds the directory of this name below another.
fn find_directory(below: &std::path::Path, name: &str) -> std::path::PathBuf {
    let mut left = vec![below.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_some_and(|found| found == name) {
                return path;
            }
            if path.is_dir() {
                left.push(path);
            }
        }
    }
    panic!("there is no {name}");
}
