//! Journey: runs every command of the page on executions in order, with the definition that it
//! names.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::process::ballast;
use crate::support::{Instance, Process, eventually};
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The commands of the page, in their order.
fn commands() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/executions.md")).unwrap();
    let mut found = Vec::new();
    let mut in_shell = false;
    for line in page.lines() {
        match line {
            "```sh" => in_shell = true,
            line if line.starts_with("```") => in_shell = false,
            line if in_shell => found.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

/// A shell at the root of the repository whose `ballast` is the built binary.
fn shell(it: &Instance, line: &str) -> Command {
    let mut command = Command::new("sh");
    let program = ballast().get_program().to_owned();
    let directory = Path::new(&program).parent().unwrap().to_owned();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(directory).chain(std::env::split_paths(&inherited));
    command
        .args(["-c", line])
        .current_dir(root())
        .env("PATH", std::env::join_paths(all).unwrap())
        .env("BALLAST_URL", &it.admin)
        .env("BALLAST_TOKEN", &it.token);
    command
}

async fn execution(it: &Instance, id: &str) -> Value {
    let shown = format!("ballast execution show {id} --json");
    let ended = Process::spawn(&mut shell(it, &shown)).wait_for_end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

#[tokio::test]
async fn every_command_of_the_executions_page_works() {
    let it = Instance::start().await;
    let mut watches = Vec::new();
    let lines = commands();
    assert!(lines.len() > 10, "{lines:?}");
    for line in lines {
        // The test shortens the waits that the page has for readers.
        let line = line.replace("\"seconds\": 20", "\"seconds\": 0.4");
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["ballast", "execution", "watch", ..] => {
                watches.push(Process::spawn(&mut shell(&it, &line)));
                continue;
            }
            ["ballast", "execution", "signal", id, ..] => {
                eventually("it waits for a signal", async || {
                    let execution = execution(&it, id).await;
                    (execution["position"][0]["doing"] == "awaitingCallback").then_some(())
                })
                .await;
            }
            _ => {}
        }
        let ended = Process::spawn(&mut shell(&it, &line)).wait_for_end().await;
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
    }
    for mut watch in watches {
        let ended = watch.wait_for_end().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stdout.contains("SUCCEEDED after"), "{ended:?}");
    }
    let first = execution(&it, "order:4711").await;
    assert_eq!(first["output"]["approval"], json!({"approved": true}));
    assert_eq!(first["output"]["copied"]["units"], 1000);
    assert_eq!(execution(&it, "order:4712").await["status"], "ABORTED");
    let rejected = execution(&it, "order:4713").await;
    assert_eq!(rejected["error"], "Rejected");
    assert_eq!(rejected["cause"], "too dear");
}
