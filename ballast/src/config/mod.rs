//! The configuration file `ballast.toml`; every setting is optional.
//!
//! Settings are plain data with one doc line each. Unknown keys are refused with the file, the line
//! and the nearest valid key. Values are checked once, here. Command line flags override the file.

mod calendar;
mod command;
mod duration;
mod hotspots;
mod load;
mod load_settings;
mod moves;
mod validate;
mod webhooks;

use std::net::IpAddr;
use std::path::PathBuf;

use ballast_domain::RegionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use calendar::Calendar;
pub(crate) use command::{ConfigCommand, run};
pub(crate) use duration::HumanDuration;
pub(crate) use hotspots::Hotspots;
pub(crate) use load::{load, parse};
pub(crate) use load_settings::Load;
pub(crate) use moves::Moves;
pub(crate) use validate::{address, check};
pub(crate) use webhooks::{Webhook, WebhookTopic};

/// All settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// How clients reach Ballast.
    pub(crate) server: Server,
    /// The fleet at the first start.
    pub(crate) fleet: Fleet,
    /// When a shard counts as filling up.
    pub(crate) placement: Placement,
    /// API keys.
    pub(crate) keys: Keys,
    /// The router's caches, and how long it holds requests.
    pub(crate) router: Router,
    /// The embedded shards.
    pub(crate) shards: Shards,
    /// Migrations of slices between shards.
    pub(crate) moves: Moves,
    /// What is measured, the capacity of shards, and how much is recorded.
    pub(crate) load: Load,
    /// When a shard is a hotspot, and what may be done about it.
    pub(crate) hotspots: Hotspots,
    /// How Ballast prepares for polls that expect many voters.
    pub(crate) calendar: Calendar,
    /// The workflow engine.
    pub(crate) workflows: Workflows,
    /// The web console.
    pub(crate) console: ConsoleSettings,
    /// Logging.
    pub(crate) log: Log,
    /// Trace export.
    pub(crate) traces: Traces,
    /// Receivers of notifications about hotspots, plans and migrations.
    pub(crate) webhooks: Vec<Webhook>,
}

/// How clients reach Ballast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Server {
    /// Address and port to listen on; port 0 takes any free one.
    pub(crate) listen: String,
    /// Data directory.
    pub(crate) data_dir: PathBuf,
    /// The URL at which clients reach this server, if it is not `listen`.
    pub(crate) public_url: Option<String>,
    /// Certificate chain (PEM); with `tls_key`, Ballast serves HTTPS.
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    pub(crate) tls_key: Option<PathBuf>,
    /// Proxies whose X-Forwarded-For is trusted: addresses or networks (`10.0.0.0/8`).
    pub(crate) trusted_proxies: Vec<String>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".to_owned(),
            data_dir: "ballast-data".into(),
            public_url: None,
            tls_cert: None,
            tls_key: None,
            trusted_proxies: Vec::new(),
        }
    }
}

/// The fleet at the first start. Change it later with `ballast shard`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fleet {
    /// The region of the first shards, and the default home region of tenants.
    #[schemars(with = "String")]
    pub(crate) region: RegionId,
    /// Number of embedded shards that the first start creates.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) shards: u32,
}

impl Default for Fleet {
    fn default() -> Self {
        #[allow(clippy::unwrap_used, reason = "a constant, and a test reads it")]
        let region = "local".parse().unwrap();
        Self { region, shards: 4 }
    }
}

/// When a shard counts as filling up; a busy shard gets fewer new tenants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Placement {
    /// Busy at or above this share of its density limit.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub(crate) busy_at: f64,
    /// Calm again at or below this share; below `busy_at`.
    #[schemars(range(min = 0.0, max = 0.99))]
    pub(crate) calm_at: f64,
}

impl Default for Placement {
    fn default() -> Self {
        let thresholds = ballast_domain::shard::PressureThresholds::default();
        Self {
            busy_at: thresholds.busy_at,
            calm_at: thresholds.calm_at,
        }
    }
}

/// API keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keys {
    /// How long a rotated key keeps working next to its successor.
    pub(crate) rotate_overlap: HumanDuration,
    /// Where to look for a request's key, in this order: `bearer`, `header:NAME`, `query:NAME`.
    pub(crate) places: Vec<String>,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            rotate_overlap: HumanDuration::hours(24),
            places: ["header:x-api-key", "bearer", "query:api_key"]
                .map(str::to_owned)
                .to_vec(),
        }
    }
}

/// The router's caches, and how long it holds requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Router {
    /// Maximum number of cached keys, and of cached tenants.
    #[schemars(range(min = 100, max = 100_000_000))]
    pub(crate) cache_entries: usize,
    /// Time to live of a cache entry. Changes are pushed, so this only matters while the control
    /// plane is unreachable.
    pub(crate) cache_ttl: HumanDuration,
    /// Maximum age of results that are requested without `no-cache`.
    pub(crate) results_max_age: HumanDuration,
    /// How long a request is held while its slice moves or its shard recovers; after that the
    /// router responds with 503.
    pub(crate) hold_max: HumanDuration,
    /// Maximum number of held requests; further ones get 503 immediately.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) held_requests_max: usize,
    /// The same limit for one tenant.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) held_requests_per_tenant_max: usize,
    /// Maximum MiB of memory for held requests; further ones get 503 immediately.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) held_mib_max: usize,
    /// The same limit for one tenant.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) held_mib_per_tenant_max: usize,
    /// While both shards are read after a migration, compare their counts in one of this many reads
    /// of results; 0 never compares.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) dual_read_sample: u64,
    /// Maximum number of viewers of live results.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) viewers_max: usize,
    /// The same limit for one tenant.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) viewers_per_tenant_max: usize,
}

impl Default for Router {
    fn default() -> Self {
        Self {
            cache_entries: 100_000,
            cache_ttl: HumanDuration::minutes(5),
            results_max_age: HumanDuration::seconds(5),
            hold_max: HumanDuration::seconds(5),
            // Twice what a tenant with 5,000 votes/s needs for a write pause of one second; a held
            // vote counts as 4 KiB.
            held_requests_max: 20_000,
            held_requests_per_tenant_max: 10_000,
            held_mib_max: 128,
            held_mib_per_tenant_max: 64,
            dual_read_sample: 100,
            viewers_max: 20_000,
            viewers_per_tenant_max: 10_000,
        }
    }
}

/// The embedded shards. A change takes effect when they are opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Shards {
    /// Maximum number of voters of open polls that a shard keeps in memory, at 38 to 76 bytes each
    /// (a few hundred with a changed vote or several choices); further ones are refused with
    /// `shard-full`.
    #[schemars(range(min = 1_000, max = 10_000_000_000_u64))]
    pub(crate) voters_in_memory_max: u64,
    /// MiB of log growth after which a checkpoint is written.
    #[schemars(range(min = 1, max = 65_536))]
    pub(crate) checkpoint_mib: u64,
    /// Minimum MiB of log to keep for followers of the change feed.
    #[schemars(range(min = 0, max = 1_048_576))]
    pub(crate) feed_mib: u64,
}

impl Default for Shards {
    fn default() -> Self {
        let options = ballast_vote_shard::embedded::ShardOptions::default();
        Self {
            voters_in_memory_max: options.voters_in_memory_max,
            checkpoint_mib: options.checkpoint_bytes >> 20,
            feed_mib: options.feed_bytes >> 20,
        }
    }
}

impl Shards {
    /// Converts to the engine's options.
    pub(crate) fn options(&self) -> ballast_vote_shard::embedded::ShardOptions {
        ballast_vote_shard::embedded::ShardOptions {
            voters_in_memory_max: self.voters_in_memory_max,
            checkpoint_bytes: self.checkpoint_mib << 20,
            feed_bytes: self.feed_mib << 20,
            ..Default::default()
        }
    }
}

/// The workflow engine. A change takes effect after a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Workflows {
    /// How long ended executions are kept.
    pub(crate) keep_ended: HumanDuration,
    /// Maximum number of concurrent tasks; further ones wait.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) tasks_max: usize,
}

impl Default for Workflows {
    fn default() -> Self {
        Self {
            keep_ended: HumanDuration::hours(90 * 24),
            tasks_max: ballast_state_machines::engine::EngineSettings::default().tasks_max,
        }
    }
}

/// Logging, always to stderr.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// Log filter: `info`, `debug`, or per module (`info,ballast_router=debug`). RUST_LOG overrides
    /// it.
    pub(crate) filter: String,
    /// The log format.
    pub(crate) format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            filter: "info".to_owned(),
            format: LogFormat::Text,
        }
    }
}

/// Trace export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Traces {
    /// URL of an OpenTelemetry collector (OTLP over HTTP), such as `http://127.0.0.1:4318`. Needs a
    /// build with the feature `otlp`.
    pub(crate) otlp_endpoint: Option<String>,
    /// Share of requests to trace.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) sample: f64,
}

impl Default for Traces {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            sample: 1.0,
        }
    }
}

/// The web console, under `/console`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ConsoleSettings {
    /// Whether there is one.
    pub(crate) enabled: bool,
    /// How long a login lasts.
    pub(crate) session: HumanDuration,
}

impl Default for ConsoleSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            session: HumanDuration(std::time::Duration::from_secs(8 * 60 * 60)),
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// A network in CIDR form, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    address: IpAddr,
    bits: u8,
}

impl std::str::FromStr for Network {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not an address or network such as 10.0.0.0/8");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| bad())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits <= most {
            Ok(Self { address, bits })
        } else {
            Err(bad())
        }
    }
}

impl Network {
    /// Whether an address is in it.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        fn wide(address: IpAddr) -> (u128, u8) {
            match address {
                IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32),
                IpAddr::V6(v6) => (u128::from(v6), 128),
            }
        }
        let ((own, own_bits), (other, other_bits)) =
            (wide(self.address), wide(address.to_canonical()));
        let shift = u32::from(own_bits - self.bits);
        own_bits == other_bits && own.checked_shr(shift) == other.checked_shr(shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_what_is_in_them() {
        let network: Network = "10.1.0.0/16".parse().unwrap();
        assert!(network.contains("10.1.2.3".parse().unwrap()));
        assert!(!network.contains("10.2.2.3".parse().unwrap()));
        assert!(network.contains("::ffff:10.1.2.3".parse().unwrap()));
        let one: Network = "::1".parse().unwrap();
        assert!(one.contains("::1".parse().unwrap()));
        assert!(!one.contains("::2".parse().unwrap()));
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("1.2.3.4".parse().unwrap()));
        for bad in ["", "10.0.0.0/33", "ten", "10.0.0.0/x"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
