//! Journey: `ballast demo`. The product's own hotspot loop finds the flash crowd and moves it, the
//! process is killed in the middle, and every vote is counted.

use std::time::Duration;

use crate::support::Process;
use crate::support::process::ballast;
use serde_json::Value;

/// The demo takes long on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the demo with these arguments.
async fn demo(args: &[&str]) -> crate::support::ProcessExit {
    let mut command = ballast();
    command.args(["demo", "--headless", "--listen", "127.0.0.1:0"]);
    command.args(["--tenants", "36", "--pace", "1s"]);
    let mut process = Process::spawn(command.args(args));
    // The demo has its own limits, and a busy machine may take long.
    process.died().await;
    process.wait_for_end().await
}

#[tokio::test]
async fn the_hotspot_loop_cures_the_flash_crowd_and_no_vote_is_lost() {
    let ended = demo(&["--json"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let reply: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&reply["lost"], &reply["doubled"]), (&0.into(), &0.into()));
    assert_eq!(reply["failedRequests"], 0, "{reply}");
    assert_eq!((&reply["kills"], &reply["moves"]), (&1.into(), &1.into()));
    // No migration was started by hand.
    assert_eq!(reply["movedBy"], "hotspots", "{reply}");
    assert_eq!(reply["verdict"], "helped", "{reply}");
    assert!(reply["hotspot"].as_str().unwrap().starts_with("hot-"));
    let fill = |name: &str| reply[name].as_u64().unwrap();
    assert!(fill("fillBefore") > fill("fillAfter"), "{reply}");
}

/// Like a terminal, sends Ctrl-C to the whole process group.
#[tokio::test]
async fn an_interrupted_demo_counts_votes_and_cleans_up() {
    use std::os::unix::process::CommandExt as _;
    let temporary = tempfile::tempdir().unwrap();
    let mut command = ballast();
    command.args(["demo", "--headless", "--listen", "127.0.0.1:0"]);
    command.args(["--tenants", "12", "--pace", "60s"]);
    command.env("TMPDIR", temporary.path()).process_group(0);
    let mut process = Process::spawn(&mut command);
    crate::support::within(PATIENCE, "people who vote", async || {
        let reply = process.stdout() + &process.stderr();
        reply.contains("on six shards").then_some(())
    })
    .await;
    process.signal_group("INT");
    let ended = process.wait_for_end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("nothing moved"), "{ended:?}");
    let left: Vec<_> = std::fs::read_dir(temporary.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn an_occupied_port_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = ballast();
    command.args(["demo", "--headless", "--listen", &address]);
    let ended = Process::spawn(&mut command).wait_for_end().await;
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let reply = &ended.stderr;
    assert!(reply.contains("cannot listen on"), "{ended:?}");
    assert!(!reply.contains("\"detail\""), "{ended:?}");
}
