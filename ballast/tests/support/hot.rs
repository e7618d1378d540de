//! A fleet that is made hot: two shards that can take little, rules with short
//! windows, and tenants that are voted on again and again.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::busy::Busy;
use super::{Instance, Options, text};

/// Moves and judgements take their time on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(150);

/// A shard can take 60 votes a second; a hotspot is one with more than 50.
pub const RULES: &str = r#"
[windows]
step = "1s"
short = "3s"
long = "6s"

[[rule]]
name = "busy"
summary = "More votes than the shard should have."
when = "shard.votes > 50.0"
for = "3s"
clear = "shard.votes < 45.0"
clear_for = "2s"
severity = "critical"
"#;

/// A fleet of two shards that does this about hotspots.
pub async fn started(mode: &str) -> Instance {
    started_with(mode, "").await
}

/// The same, with more settings of hotspots.
pub async fn started_with(mode: &str, more: &str) -> Instance {
    let home = Arc::new(tempfile::tempdir().unwrap());
    fs::write(home.path().join("rules.toml"), RULES).unwrap();
    let config = format!(
        "[fleet]\nshards = 2\n[load]\nvotes_per_second = 60\n[moves]\nwindow = \"1s\"\n\
         [hotspots]\nmode = \"{mode}\"\nrules = \"rules.toml\"\nsettle = \"0s\"\njudge = \"4s\"\n{more}"
    );
    let options = Options {
        config: Some(config),
        ..Options::default()
    };
    Instance::within(home, options).await
}

/// Where a tenant is.
pub async fn shard_of(it: &Instance, tenant: &str) -> String {
    text(&it.get(&format!("/tenants/{tenant}")).await["slices"][0]["shardID"])
}

/// Two tenants on one shard, with more than it can bear between them.
pub async fn two_on_one(it: &Instance) -> (Busy, Busy, String) {
    let mut by_shard = std::collections::BTreeMap::new();
    for number in 0.. {
        let tenant = format!("tenant-{number}");
        it.tenant(&tenant).await;
        let shard = shard_of(it, &tenant).await;
        if let Some(other) = by_shard.insert(shard.clone(), tenant.clone()) {
            let one = Busy::begin(it, &other, 4, 1).await;
            let two = Busy::begin(it, &tenant, 4, 1).await;
            return (one, two, shard);
        }
    }
    unreachable!()
}

/// The first of a list.
pub async fn first(it: &Instance, path: &str) -> Option<Value> {
    it.get(path).await["items"]
        .as_array()
        .unwrap()
        .first()
        .cloned()
}
