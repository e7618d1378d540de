//! A fleet that gets hotspots: two shards with little capacity, rules with short windows, and
//! tenants under a steady load of votes.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::busy::BusyTenant;
use super::{Instance, InstanceOptions, text};

/// Migrations and the judgement of cures take time on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(150);

/// A shard is rated at 60 votes/s; one with more than 50 is a hotspot.
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

/// Starts a fleet of two shards with this hotspot mode.
pub async fn started(mode: &str) -> Instance {
    started_with(mode, "").await
}

/// The same, with more `[hotspots]` settings.
pub async fn started_with(mode: &str, more: &str) -> Instance {
    let home = Arc::new(tempfile::tempdir().unwrap());
    fs::write(home.path().join("rules.toml"), RULES).unwrap();
    let config = format!(
        "[fleet]\nshards = 2\n[load]\nvotes_per_second = 60\n[moves]\nwindow = \"1s\"\n\
         [hotspots]\nmode = \"{mode}\"\nrules = \"rules.toml\"\nsettle = \"0s\"\njudge = \"4s\"\n{more}"
    );
    let options = InstanceOptions {
        config: Some(config),
        ..InstanceOptions::default()
    };
    Instance::within(home, options).await
}

/// The shard of a tenant's first slice.
pub async fn find_shard(it: &Instance, tenant: &str) -> String {
    text(&it.get(&format!("/tenants/{tenant}")).await["slices"][0]["shardID"])
}

/// Creates two tenants on one shard whose load together exceeds its capacity.
pub async fn overload_one_shard(it: &Instance) -> (BusyTenant, BusyTenant, String) {
    let mut by_shard = std::collections::BTreeMap::new();
    for number in 0.. {
        let tenant = format!("tenant-{number}");
        it.tenant(&tenant).await;
        let shard = find_shard(it, &tenant).await;
        if let Some(other) = by_shard.insert(shard.clone(), tenant.clone()) {
            let one = BusyTenant::begin(it, &other, 4, 1).await;
            let two = BusyTenant::begin(it, &tenant, 4, 1).await;
            return (one, two, shard);
        }
    }
    unreachable!()
}

/// The first item of a list.
pub async fn first(it: &Instance, path: &str) -> Option<Value> {
    it.get(path).await["items"]
        .as_array()
        .unwrap()
        .first()
        .cloned()
}
