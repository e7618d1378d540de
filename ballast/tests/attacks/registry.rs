//! Somebody removes, exchanges or locks in vain what the registry and its shards rest on.

use std::path::Path;
use std::sync::Arc;

use crate::support::polls::Application;
use crate::support::process::{ProcessExit, ballast};
use crate::support::{Instance, InstanceOptions, text};
use serde_json::{Value, json};

/// An instance with a vote of a tenant in it, stopped.
async fn voted_in(home: Arc<tempfile::TempDir>) -> Instance {
    let mut it = Instance::within(home, InstanceOptions::default()).await;
    let acme = Application::create(&it, "acme").await;
    let poll = acme.poll(json!({})).await;
    acme.vote(&poll, 0, "ada").await.expect(200);
    it.kill9();
    it
}

async fn refused_start(home: Arc<tempfile::TempDir>) -> Box<ProcessExit> {
    let started = Instance::launch(home, InstanceOptions::default(), "127.0.0.1:0").await;
    match started {
        Err(ended) => ended,
        Ok(_) => panic!("the instance must not start"),
    }
}

/// What `ballast doctor` says, and its exit code.
fn doctor(data_dir: &Path) -> (Value, Option<i32>) {
    let output = ballast()
        .args(["doctor", "--json", "--data-dir"])
        .arg(data_dir)
        .output()
        .unwrap();
    let said = serde_json::from_slice(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    (
        said.unwrap_or_else(|_| panic!("{why}")),
        output.status.code(),
    )
}

fn problems(said: &Value) -> Vec<String> {
    let findings = said["findings"].as_array().unwrap().iter();
    let problems = findings.filter(|finding| finding["level"] == "problem");
    let named = problems.map(|finding| {
        assert!(finding["next"].is_string(), "what to do: {finding}");
        text(&finding["subject"])
    });
    named.collect()
}

/// A new registry would give a new tenant of an old name the old tenant's votes.
#[tokio::test]
async fn shards_are_not_served_without_their_registry() {
    let home = Arc::new(tempfile::tempdir().unwrap());
    drop(voted_in(home.clone()).await);
    let data_dir = home.path().join("data");
    assert_eq!(doctor(&data_dir).1, Some(0));
    for suffix in ["", "-wal", "-shm"] {
        let file = data_dir.join(format!("registry.db{suffix}"));
        let aside = home.path().join(format!("aside{suffix}"));
        if file.exists() {
            std::fs::rename(file, aside).unwrap();
        }
    }
    let ended = refused_start(home.clone()).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    for named in ["registry.db is missing", "shard-", "ballast doctor"] {
        assert!(ended.stderr.contains(named), "{named}: {}", ended.stderr);
    }
    assert!(
        !data_dir.join("registry.db").exists(),
        "nothing was changed"
    );
    let (said, code) = doctor(&data_dir);
    assert_eq!(code, Some(1));
    assert!(
        problems(&said).contains(&"registry.db".to_owned()),
        "{said}"
    );
    // Nor with an empty one.
    std::fs::write(data_dir.join("registry.db"), "").unwrap();
    let ended = refused_start(home.clone()).await;
    assert!(ended.stderr.contains("registry.db is empty"), "{ended:?}");
    for suffix in ["", "-wal", "-shm"] {
        let aside = home.path().join(format!("aside{suffix}"));
        let file = data_dir.join(format!("registry.db{suffix}"));
        let _ = std::fs::remove_file(&file);
        if aside.exists() {
            std::fs::rename(aside, file).unwrap();
        }
    }
    let it = Instance::within(home, InstanceOptions::default()).await;
    assert_eq!(it.get("/tenants/acme").await["tenantID"], "acme");
}

/// The shards of one instance under the registry of another.
#[tokio::test]
async fn shards_of_another_registry_are_refused() {
    let [ours, theirs] = [(); 2].map(|()| Arc::new(tempfile::tempdir().unwrap()));
    drop(voted_in(ours.clone()).await);
    drop(voted_in(theirs.clone()).await);
    let [our_shards, their_shards] = [&ours, &theirs].map(|home| home.path().join("data/shards"));
    std::fs::remove_dir_all(&our_shards).unwrap();
    std::fs::rename(&their_shards, &our_shards).unwrap();
    let it = Instance::within(ours.clone(), InstanceOptions::default()).await;
    let ready = it.route("GET", "/readyz").send().await;
    let said = ready.expect_error(503, "unavailable");
    let detail = text(&said["detail"]);
    assert!(
        detail.contains("not of shard-1 of this registry"),
        "{detail}"
    );
    let acme = Application::with_scopes(&it, "acme", &["vote", "read", "polls"]).await;
    let listed = acme.call("GET", "/polls").send().await;
    listed.expect_error(503, "unavailable");
    let (said, _) = doctor(&ours.path().join("data"));
    assert!(problems(&said).contains(&"shard-1".to_owned()), "{said}");
}

#[tokio::test]
async fn a_second_process_is_refused_though_the_lock_file_was_removed() {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let it = Instance::within(home.clone(), InstanceOptions::default()).await;
    std::fs::remove_file(home.path().join("data/ballast.lock")).unwrap();
    let ended = refused_start(home).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("is in use by"), "{}", ended.stderr);
    it.route("GET", "/readyz").send().await.expect(200);
}
