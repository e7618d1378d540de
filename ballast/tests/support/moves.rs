//! Migrations, requested on the command line and shown.

use std::process::Command;

use serde_json::Value;

use super::process::ballast;
use super::{Instance, Process, ProcessExit, eventually, text};

/// Runs the command line with a token.
pub async fn run(it: &Instance, token: &str, arguments: &[&str]) -> ProcessExit {
    let mut command: Command = ballast();
    command
        .args(arguments)
        .current_dir(it.home())
        .env("BALLAST_URL", &it.admin)
        .env("BALLAST_TOKEN", token);
    Process::spawn(&mut command).wait_for_end().await
}

/// The shard that a tenant's first slice is on.
pub async fn find_shard(it: &Instance, tenant: &str) -> String {
    let tenant = it.get(&format!("/tenants/{tenant}")).await;
    text(&tenant["slices"][0]["shardID"])
}

/// Waits until a migration meets a condition, and returns it.
pub async fn show_migration(
    it: &Instance,
    id: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    eventually(what, async || {
        let found = it.get(&format!("/migrations/{id}")).await;
        wanted(&found).then_some(found)
    })
    .await
}
