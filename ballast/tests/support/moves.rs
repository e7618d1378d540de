//! A tenant's moves, asked for on the command line and looked at.

use std::process::Command;

use serde_json::Value;

use super::process::ballast;
use super::{Ended, Instance, Process, eventually, text};

/// Runs the command line with a token.
pub async fn run(it: &Instance, token: &str, arguments: &[&str]) -> Ended {
    let mut command: Command = ballast();
    command
        .args(arguments)
        .current_dir(it.home())
        .env("BALLAST_URL", &it.admin)
        .env("BALLAST_TOKEN", token);
    Process::spawn(&mut command).ended().await
}

/// The shard that a tenant's first slice is on.
pub async fn shard_of(it: &Instance, tenant: &str) -> String {
    let tenant = it.get(&format!("/tenants/{tenant}")).await;
    text(&tenant["slices"][0]["shardID"])
}

/// A move once it is as wanted.
pub async fn shown(it: &Instance, id: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || {
        let found = it.get(&format!("/migrations/{id}")).await;
        wanted(&found).then_some(found)
    })
    .await
}
