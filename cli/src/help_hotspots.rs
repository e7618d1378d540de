//! The examples under `--help` of what is about load and hotspots.

pub(crate) const LOAD: &str = "\
Examples:
  ballast load show
  ballast load export --from 24h > yesterday.ndjson";
pub(crate) const LOAD_SHOW: &str = "\
Heat is a shard's utilisation in its most loaded dimension, in percent of its
capacity; for a tenant, the share of its shard that it uses. The capacities are set
under [load] in the configuration.

Examples:
  ballast load show
  ballast load show --shard shard-2 --tenants 50
  ballast load show --at 30min --json";
pub(crate) const LOAD_EXPORT: &str = "\
The format is in docs/load-format.md; hotspot rules test and simulate read it.

Examples:
  ballast load export > last-hour.ndjson
  ballast load export --from 7d --step 1h > week.ndjson";
pub(crate) const LOAD_GENERATE: &str = "\
Generates tenants by Zipf's law with daily and weekly cycles, flash crowds and
growth: up to a million tenants on ten thousand shards. Needs no server; the format
is described in docs/load-format.md.

Examples:
  ballast load generate --fill 0.9 > full.ndjson && ballast simulate --load full.ndjson
  ballast load generate --tenants 100000 --shards 100 --crowds 0.01 --seed 7 > crowds.ndjson";
pub(crate) const LOAD_USAGE: &str = "\
Days are UTC. Prices are set under [load] (price_per_million_votes and others).

Examples:
  ballast load usage --tenant acme
  ballast load usage --from 2026-11-01 --to 2026-12-01 --csv > november.csv";
pub(crate) const LOAD_FORECAST: &str = "\
Forecasts from recorded load with a 90 % interval; needs some hours of records.

Examples:
  ballast load forecast
  ballast load forecast --days 90 --json";

pub(crate) const HOTSPOT: &str = "\
Examples:
  ballast hotspot list --open
  ballast hotspot show hot-1hj2k3-x9
  ballast hotspot why-not shard-2";
pub(crate) const HOTSPOT_LIST: &str = "\
Examples:
  ballast hotspot list --open
  ballast hotspot list --shard shard-2 --json";
pub(crate) const HOTSPOT_SHOW: &str = "\
Examples:
  ballast hotspot show hot-1hj2k3-x9
  ballast hotspot show hot-1hj2k3-x9 --json";
pub(crate) const HOTSPOT_WHY_NOT: &str = "\
Shows the state and the numbers of each rule, the shard's hotspots, and what is
done about them, or why nothing is.

Examples:
  ballast hotspot why-not shard-2";
pub(crate) const HOTSPOT_RULES: &str = "\
Examples:
  ballast hotspot rules check rules.toml
  ballast hotspot rules test rules.toml --from 24h";
pub(crate) const HOTSPOT_RULES_CHECK: &str = "\
Exit code 1 on any problem. docs/hotspots.md has the reference.

Examples:
  ballast hotspot rules check rules.toml
  ballast hotspot rules check rules.toml --json";
pub(crate) const HOTSPOT_RULES_TEST: &str = "\
Runs the rules over recorded load on this machine; changes nothing.

Examples:
  ballast hotspot rules test --from 24h
  ballast hotspot rules test rules.toml --load yesterday.ndjson";
pub(crate) const PLAN: &str = "\
Examples:
  ballast plan list --open
  ballast plan show plan-1hj2k3-x9
  ballast plan approve plan-1hj2k3-x9 --reason 'before the show'";
pub(crate) const PLAN_LIST: &str = "\
Examples:
  ballast plan list --open
  ballast plan list --json";
pub(crate) const PLAN_SHOW: &str = "\
Examples:
  ballast plan show plan-1hj2k3-x9";
pub(crate) const PLAN_APPROVE: &str = "\
Examples:
  ballast plan approve plan-1hj2k3-x9 --reason 'before the show'";
pub(crate) const PLAN_REJECT: &str = "\
Examples:
  ballast plan reject plan-1hj2k3-x9 --reason 'it will pass'";
pub(crate) const SIMULATE: &str = "\
Runs the rules, the diagnosis and the planner over recorded load on this machine;
changes nothing. Shows the hotspots and their cures first, then the plan of moves for
the busiest long window of each shard. Both sides of a change use the same terms.
A record holds no residency, zones, pins, dials or weights. For the server's record
they are fetched from the server, as are its rules and terms; for a file only with
--registered. Otherwise every tenant may be placed anywhere.

Changes:
  add-shard=ID[:LIKE]   add a shard as large as LIKE
  weight=ID:WEIGHT      change a weight
  drain=ID              drain a shard
  rules=LIMIT:GOAL      relieve shards above LIMIT down to GOAL

Examples:
  ballast simulate --from 1h --change add-shard=shard-9
  ballast simulate --load yesterday.ndjson --rules rules.toml
  ballast simulate --load yesterday.ndjson --registered --change drain=shard-2 --json";
