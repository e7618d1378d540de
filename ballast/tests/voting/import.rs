//! Imports: old counters and votes become a poll with the same totals.

use std::process::{Command, Output};

use crate::support::Instance;
use crate::support::polls::Application;
use crate::support::process::ballast_path;
use serde_json::Value;

/// Runs `ballast poll …` with the tenant's key.
fn poll(it: &Instance, key: &str, args: &[&str]) -> Output {
    Command::new(ballast_path())
        .args(["--json", "--url", &it.router])
        .arg("poll")
        .args(args)
        .env("BALLAST_KEY", key)
        .current_dir(it.home())
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    let reply = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|bad| panic!("{bad}: {reply}"))
}

fn write_file(it: &Instance, name: &str, text: &str) {
    std::fs::write(it.home().join(name), text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_totals_are_kept_and_count_once() {
    let it = Instance::start().await;
    let acme = Application::create(&it, "acme").await;
    write_file(
        &it,
        "totals.csv",
        "item,votes\nPizza,1503\n\"Salad, green\",97\nSoup,0\n",
    );
    let mut rows = String::from("voter,item\n");
    for n in 0..1_000 {
        rows.push_str(&format!("voter-{},Pizza\n", n % 700));
    }
    write_file(&it, "votes.csv", &rows);
    let import = ["import", "--totals", "totals.csv", "--votes", "votes.csv"];
    let made = poll(
        &it,
        &acme.key,
        &[&import[..], &["--title", "Lunch", "--expires", "30d"]].concat(),
    );
    assert!(made.status.success(), "{made:?}");
    let made = json(&made);
    assert_eq!(made["counted"], 700);
    assert_eq!(made["already"], 300);
    assert_eq!(made["carried"], 1_503 - 700 + 97);
    assert_eq!(made["total"], 1_600);
    assert_eq!(made["problems"], serde_json::json!([]));
    let lanes = made["lanes"]["items"][1]["lanes"].as_array().unwrap();
    assert_eq!(lanes.len(), 10);
    assert_eq!(
        lanes.iter().map(|lane| lane.as_u64().unwrap()).sum::<u64>(),
        97
    );
    let id = made["pollID"].as_str().unwrap();
    let again = poll(&it, &acme.key, &[&import[..], &["--poll", id]].concat());
    assert!(again.status.success(), "{again:?}");
    let again = json(&again);
    assert_eq!(
        (&again["counted"], &again["carried"]),
        (&Value::from(0), &Value::from(0))
    );
    assert_eq!(again["total"], 1_600);
    // The same after a kill.
    let it = it.restart().await;
    let results = json(&poll(&it, &acme.key, &["results", id]));
    assert_eq!(results["items"][0]["votesCount"], 1_503);
    assert_eq!(results["items"][1]["itemName"], "Salad, green");
    assert_eq!(results["total"], 1_600);
    assert_eq!(results["voters"], 700);
    let even = poll(&it, &acme.key, &["lanes", id]);
    assert!(even.status.success());
    assert_eq!(json(&even)["verdict"], "even");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_imports_are_refused_before_any_change() {
    let it = Instance::start().await;
    let acme = Application::create(&it, "acme").await;
    write_file(&it, "few.csv", "Pizza,1\n");
    write_file(&it, "many.csv", "a,Pizza\nb,Pizza\n");
    write_file(&it, "other.csv", "a,Cake\n");
    write_file(&it, "bad.csv", "Pizza,many\n");
    let expires = ["--title", "Lunch", "--expires", "1d"];
    for files in [
        &["import", "--totals", "few.csv", "--votes", "many.csv"][..],
        &["import", "--totals", "few.csv", "--votes", "other.csv"],
        &["import", "--totals", "bad.csv"],
        &["import", "--totals", "nowhere.csv"],
    ] {
        let refused = poll(&it, &acme.key, &[files, &expires].concat());
        assert_eq!(refused.status.code(), Some(2), "{files:?} {refused:?}");
    }
    let without_end = poll(&it, &acme.key, &["import", "--totals", "few.csv"]);
    assert_eq!(without_end.status.code(), Some(2));
    let polls = json(&poll(&it, &acme.key, &["list"]));
    assert_eq!(polls["items"], serde_json::json!([]));
}
