//! Journey: `ballast up` — first start, second start, crashes, signals, invalid settings.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use crate::support::polls::Application;
use crate::support::process::ballast;
use crate::support::{
    Instance, InstanceOptions, Process, client, stopwatch, text, token_file, unknown_secret,
};
use ballast_domain::credential::Purpose;
use serde_json::{Value, json};

fn with_config(config: &str) -> InstanceOptions {
    InstanceOptions {
        config: Some(config.to_owned()),
        ..InstanceOptions::default()
    }
}

#[tokio::test]
async fn the_ready_line_is_the_only_output_and_comes_when_ready() {
    let mut it = Instance::start().await;
    assert_eq!(it.get("/whoami").await["role"], "admin");
    assert_eq!(
        it.get("/shards").await["items"].as_array().unwrap().len(),
        4
    );
    assert_eq!(it.route("GET", "/readyz").send().await.status, 200);
    it.process().signal("TERM");
    let ended = it.process().wait_for_end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    let line: Value = serde_json::from_str(&ended.stdout).unwrap();
    let names: Vec<_> = line.as_object().unwrap().keys().collect();
    assert_eq!(names, ["router", "admin"]);
    assert_eq!(text(&line["admin"]), format!("{}/admin/v1", it.router));
}

#[tokio::test]
async fn a_second_start_keeps_token_tenants_and_file() {
    let it = Instance::start().await;
    let file = token_file(it.home());
    let before = fs::metadata(&file).unwrap();
    assert_eq!(before.permissions().mode() & 0o777, 0o600);
    let made = it.tenant("acme").await;
    let it = it.restart().await;
    assert_eq!(it.get("/tenants/acme").await, made);
    let after = fs::metadata(&file).unwrap();
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(after.permissions(), before.permissions());
    // Without the file it still works, and does not write it again.
    fs::remove_file(&file).unwrap();
    let token = it.token.clone();
    let (home, router) = (it.home_directory(), it.router.clone());
    drop(it);
    let listen = router.trim_start_matches("http://");
    let again = Process::up(home.path(), &InstanceOptions::default(), listen);
    let _again = again.ready().await.unwrap();
    let url = format!("{router}/admin/v1/tenants/acme");
    let shown = crate::support::Call::new(&client(None), "GET", &url).token(&token);
    assert_eq!(shown.send().await.expect(200), made);
    assert!(!file.exists());
}

#[tokio::test]
async fn without_a_file_the_token_is_printed_once_on_stderr() {
    let home = tempfile::tempdir().unwrap();
    let mut command = ballast();
    command.args([
        "up",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        "data",
    ]);
    command.current_dir(home.path());
    let process = Process::spawn(&mut command).ready().await.unwrap();
    let line: Value = serde_json::from_str(&process.stdout()).unwrap();
    let said = process.stderr();
    let token = said
        .split_whitespace()
        .find(|word| word.starts_with("bl_admin_"))
        .unwrap()
        .to_owned();
    assert!(!process.stdout().contains("bl_admin_"));
    let url = format!("{}/whoami", text(&line["admin"]));
    let answer = crate::support::Call::new(&client(None), "GET", &url).token(&token);
    assert_eq!(answer.send().await.expect(200)["role"], "admin");
    drop(process);
    let second = Process::spawn(&mut command).ready().await.unwrap();
    assert!(!second.stderr().contains("bl_admin_"));
}

#[tokio::test]
async fn a_second_process_on_the_same_directory_names_the_first_and_exits() {
    let mut it = Instance::start().await;
    let pid = it.process().pid();
    let watch = stopwatch();
    let mut second = Process::up(it.home(), &InstanceOptions::default(), "127.0.0.1:0");
    let ended = second.wait_for_end().await;
    assert!(watch.elapsed() < Duration::from_secs(2));
    assert_ne!(ended.code, Some(0));
    assert!(
        ended.stderr.contains(&format!("process {pid}")),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stdout, "");
    assert_eq!(it.get("/whoami").await["role"], "admin");
}

#[tokio::test]
async fn after_kill_9_the_same_port_is_free_at_once() {
    let mut it = Instance::start().await;
    for round in 0..3 {
        it.tenant(&format!("t-{round}")).await;
        it.kill9();
        it = it.restart().await;
    }
    assert_eq!(it.all("/tenants").await.len(), 3);
}

#[tokio::test]
async fn both_signals_stop_cleanly_and_empty_the_write_ahead_log() {
    for signal in ["INT", "TERM"] {
        let mut it = Instance::start().await;
        let made = it.tenant("acme").await;
        it.process().signal(signal);
        let ended = it.process().wait_for_end().await;
        assert_eq!(ended.code, Some(0), "{signal}: {}", ended.stderr);
        let log = it.home().join("data/registry.db-wal");
        let left = fs::metadata(&log).map_or(0, |found| found.len());
        assert_eq!(left, 0, "{signal}: the write-ahead log was not taken in");
        let it = it.restart().await;
        assert_eq!(it.get("/tenants/acme").await, made);
    }
}

#[tokio::test]
async fn with_stop_with_stdin_it_ends_with_its_parent() {
    let options = InstanceOptions {
        args: vec!["--stop-with-stdin".to_owned()],
        ..InstanceOptions::default()
    };
    // Its standard input is closed from the start.
    let mut it = Instance::with(options).await;
    let ended = it.process().wait_for_end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test]
async fn requests_in_flight_are_answered_during_a_stop() {
    let mut it = Instance::start().await;
    let (client, admin, token) = (it.http().clone(), it.admin.clone(), it.token.clone());
    let burst = tokio::spawn(crate::support::run_concurrently(8, 400, move |number| {
        let call = crate::support::Call::new(&client, "POST", &format!("{admin}/tenants"))
            .token(&token)
            .json(&json!({ "tenantID": format!("t-{number}") }));
        async move { call.try_send().await.is_some_and(|answer| answer.is_ok()) }
    }));
    crate::support::eventually("some tenants", async || {
        (it.newest_event().await > 40).then_some(())
    })
    .await;
    it.process().signal("TERM");
    assert_eq!(it.process().wait_for_end().await.code, Some(0));
    let acknowledged = burst.await.unwrap();
    let it = it.restart().await;
    let there: Vec<_> = it.all("/tenants").await;
    let names: Vec<_> = there.iter().map(|one| text(&one["tenantID"])).collect();
    for (number, answered) in acknowledged.iter().enumerate() {
        let name = format!("t-{number}");
        assert_eq!(names.contains(&name), *answered, "{name}");
    }
}

async fn refused(options: InstanceOptions, listen: &str, code: i32) -> String {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let ended = Instance::launch(home.clone(), options, listen)
        .await
        .err()
        .expect("it must not start");
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert_eq!(ended.stdout, "");
    assert!(!token_file(home.path()).exists());
    ended.stderr
}

#[tokio::test]
async fn invalid_settings_are_refused_with_an_explanation() {
    let it = Instance::start().await;
    let taken = it.router.trim_start_matches("http://").to_owned();
    let said = refused(InstanceOptions::default(), &taken, 1).await;
    assert!(
        said.contains(&format!("cannot listen on {taken}")),
        "{said}"
    );
    for bad in ["8080", "nowhere:80", "127.0.0.1:99999", ""] {
        let said = refused(InstanceOptions::default(), bad, 2).await;
        assert!(said.contains("--listen"), "{bad}: {said}");
        assert!(said.contains("not an ADDRESS:PORT"), "{bad}: {said}");
    }
    let typo = "[server]\n# where\nlisen = \"127.0.0.1:1\"\n";
    let said = refused(with_config(typo), "127.0.0.1:0", 1).await;
    assert!(said.contains("ballast.toml:3: "), "{said}");
    assert!(said.contains("lisen") && said.contains("listen"), "{said}");
    let said = refused(with_config("[fleet]\nshards = 0\n"), "127.0.0.1:0", 1).await;
    assert!(said.contains("ballast.toml:2: fleet.shards"), "{said}");
    let missing = InstanceOptions {
        args: ["--config", "nowhere.toml"].map(str::to_owned).to_vec(),
        ..InstanceOptions::default()
    };
    let said = refused(missing, "127.0.0.1:0", 1).await;
    assert!(said.contains("nowhere.toml"), "{said}");
}

#[tokio::test]
async fn a_token_written_before_a_crash_is_adopted() {
    let token = unknown_secret(Purpose::AdminToken);
    let home = Arc::new(tempfile::tempdir().unwrap());
    fs::write(token_file(home.path()), format!("{token}\n")).unwrap();
    let it = Instance::within(home, InstanceOptions::default()).await;
    assert_eq!(it.token, token);
    assert_eq!(it.get("/whoami").await["name"], "first-admin");
}

#[tokio::test]
async fn a_token_file_with_other_content_is_not_overwritten() {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let key = unknown_secret(Purpose::LiveKey);
    for garbage in ["my shopping list", &key] {
        fs::write(token_file(home.path()), garbage).unwrap();
        let ended = Instance::launch(home.clone(), InstanceOptions::default(), "127.0.0.1:0")
            .await
            .err()
            .expect("it must not start");
        assert_eq!(ended.code, Some(1));
        assert!(
            ended.stderr.contains("does not contain an admin token"),
            "{}",
            ended.stderr
        );
        assert!(!ended.stderr.contains(garbage), "{}", ended.stderr);
        assert_eq!(
            fs::read_to_string(token_file(home.path())).unwrap(),
            garbage
        );
    }
    // Nothing was created: without the file this is still a first start.
    fs::remove_file(token_file(home.path())).unwrap();
    let it = Instance::within(home, InstanceOptions::default()).await;
    assert_eq!(it.get("/whoami").await["name"], "first-admin");
}

/// These journeys run the build that users run, without fault injection. With it, this vote would
/// wait for a failing sync.
#[tokio::test]
async fn a_fault_in_the_environment_is_ignored() {
    let it = Instance::with(InstanceOptions {
        env: vec![("BALLAST_FAULT".to_owned(), "sync-fails".to_owned())],
        ..with_config("[router]\nhold_max = \"300ms\"\n")
    })
    .await;
    let application = Application::create(&it, "acme").await;
    let poll = application.poll(json!({})).await;
    let shards = it.home().join("data/shards");
    let directories = std::fs::read_dir(shards).unwrap();
    for directory in directories.map(|entry| entry.unwrap().path()) {
        std::fs::write(directory.join("sync-fails"), "").unwrap();
    }
    application.vote(&poll, 0, "ada").await.expect(200);
}
