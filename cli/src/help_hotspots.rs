//! The examples under `--help` of what is about load and hotspots.

pub(crate) const LOAD: &str = "\
Examples:
  ballast load show
  ballast load export --from 24h > yesterday.ndjson";
pub(crate) const LOAD_SHOW: &str = "\
Heat is how much of what a shard can do is done, in the dimension where that is most;
of a tenant, how much of its shard it uses. What shards can do is set under [load].

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
Tenants by Zipf's law, days and weeks, flash crowds and growth, up to a million tenants on
ten thousand shards. Nothing is asked of a server; the format is in docs/load-format.md.

Examples:
  ballast load generate --fill 0.9 > full.ndjson && ballast simulate --load full.ndjson
  ballast load generate --tenants 100000 --shards 100 --crowds 0.01 --seed 7 > crowds.ndjson";
pub(crate) const LOAD_USAGE: &str = "\
Days are UTC. What use costs is set under [load] (price_per_million_votes and others).

Examples:
  ballast load usage --tenant acme
  ballast load usage --from 2026-11-01 --to 2026-12-01 --csv > november.csv";
pub(crate) const LOAD_FORECAST: &str = "\
From what was recorded, with an interval of 90 %; it takes some hours of it.

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
Says for each rule where it stands and with which numbers, which hotspots the shard
has, what is done about them, and if nothing is, why.

Examples:
  ballast hotspot why-not shard-2";
pub(crate) const HOTSPOT_RULES: &str = "\
Examples:
  ballast hotspot rules check rules.toml
  ballast hotspot rules test rules.toml --from 24h";
pub(crate) const HOTSPOT_RULES_CHECK: &str = "\
Exit code 1 when something is wrong. docs/hotspots.md has the reference.

Examples:
  ballast hotspot rules check rules.toml
  ballast hotspot rules check rules.toml --json";
pub(crate) const HOTSPOT_RULES_TEST: &str = "\
Nothing is changed: the rules are run over recorded load here.

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
  ballast plan reject plan-1hj2k3-x9 --reason 'it passes by itself'";
pub(crate) const SIMULATE: &str = "\
The same rules, diagnosis and planner run over recorded load, here, and nothing is
changed: first what would have been found and what helps, then the plan of moves. It is for
the busiest long window of each shard, and both sides of a change go by the same terms.
Residency, zones, pins, dials and weights are not in a record. Of the server's own record
they are asked from the server, and so are its rules and terms; of a file only with
--registered, or every tenant may go anywhere.

Changes:
  add-shard=ID[:LIKE]   one more shard, as large as LIKE
  weight=ID:WEIGHT      another weight
  drain=ID              a shard is emptied
  rules=LIMIT:GOAL      shards are relieved above LIMIT, down to GOAL

Examples:
  ballast simulate --from 1h --change add-shard=shard-9
  ballast simulate --load yesterday.ndjson --rules rules.toml
  ballast simulate --load yesterday.ndjson --registered --change drain=shard-2 --json";
