//! The examples under the `--help` of moves.

pub(crate) const TENANT_MOVE: &str = "\
Starts immediately. Votes are accepted throughout, except for a write pause of some
milliseconds at the cutover. Both shards then keep the data for the window, in which
the migration can be reversed.

Examples:
  ballast tenant move acme --to shard-3 --dry-run
  ballast tenant move acme --to shard-3 --wait
  ballast tenant move acme --to shard-3 --max-pause 50ms --window 2h --reason 'shard-1 is hot'
  ballast tenant move acme --from shard-1 --to shard-3 --json | jq -r .migrationID";
pub(crate) const MIGRATION: &str = "\
Start a migration with ballast tenant move.

Examples:
  ballast migration list --open
  ballast migration watch mv-1k6tq8zr4-0a1bc
  ballast migration reverse mv-1k6tq8zr4-0a1bc --reason 'latency doubled'
  ballast migration certificate mv-1k6tq8zr4-0a1bc > acme.json";
pub(crate) const MIGRATION_LIST: &str = "\
Examples:
  ballast migration list
  ballast migration list --open --from shard-1
  ballast migration list --tenant acme --status completed --json | jq '.items[].pauseMs'";
pub(crate) const MIGRATION_SHOW: &str = "\
Examples:
  ballast migration show mv-1k6tq8zr4-0a1bc
  ballast migration show mv-1k6tq8zr4-0a1bc --json | jq '{status, phase, pauseMs}'";
pub(crate) const MIGRATION_WATCH: &str = "\
Shows a live view on a terminal, one line per change in a pipe, and one document
per change with --json. Exit code 0 if the migration completed, 1 if it ended
otherwise. Ctrl-C stops watching, not the migration.

Examples:
  ballast migration watch mv-1k6tq8zr4-0a1bc
  ballast migration watch mv-1k6tq8zr4-0a1bc --json | jq -c '[.phase, .progress.done]'";
pub(crate) const MIGRATION_PAUSE: &str = "\
Examples:
  ballast migration pause mv-1k6tq8zr4-0a1bc --reason 'the final is on'";
pub(crate) const MIGRATION_RESUME: &str = "\
Examples:
  ballast migration resume mv-1k6tq8zr4-0a1bc";
pub(crate) const MIGRATION_CANCEL: &str = "\
Refused after the cutover; use reverse then.

Examples:
  ballast migration cancel mv-1k6tq8zr4-0a1bc --reason 'wrong shard'";
pub(crate) const MIGRATION_REVERSE: &str = "\
Refused before the cutover; use cancel then.

--accept-loss is for a target that is lost for good: the slice moves back without it,
with everything that was streamed back until then, and the certificate records what
is lost. It is refused while the target answers. The target's copy is kept.

Examples:
  ballast migration reverse mv-1k6tq8zr4-0a1bc --reason 'latency doubled'
  ballast migration reverse mv-1k6tq8zr4-0a1bc --accept-loss --reason 'its disk is dead'";
pub(crate) const MIGRATION_COMPLETE: &str = "\
The migration can then no longer be reversed. A waiting reversal is cancelled.

Examples:
  ballast migration complete mv-1k6tq8zr4-0a1bc
  ballast migration complete mv-1k6tq8zr4-0a1bc --without-source --reason 'its disk is dead'";
pub(crate) const MIGRATION_DISCARD: &str = "\
Removes the abandoned copy, the only one of the lost votes, as soon as its shard answers.
The tenant can then move there again. Needs an admin token.

Examples:
  ballast migration discard mv-1k6tq8zr4-0a1bc --reason 'counted by hand'";
pub(crate) const MIGRATION_APPROVE: &str = "\
approval_above_rows in [moves] decides which migrations need approval. With --now, a
migration that waits for a maintenance window begins without it.

Examples:
  ballast migration approve mv-1k6tq8zr4-0a1bc --reason 'agreed with acme'
  ballast migration approve mv-1k6tq8zr4-0a1bc --now --reason 'the disk is failing'";
pub(crate) const MIGRATION_CERTIFICATE: &str = "\
Examples:
  ballast migration certificate mv-1k6tq8zr4-0a1bc > acme.json
  ballast migration certificate mv-1k6tq8zr4-0a1bc | ballast migration verify-certificate -";
pub(crate) const MIGRATION_VERIFY_CERTIFICATE: &str = "\
Without --public-key, it only shows which key signed it. Exit code 1 if it was changed
or signed with another key.

Examples:
  ballast migration verify-certificate acme.json
  ballast migration verify-certificate acme.json --public-key A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";
pub(crate) const MIGRATION_AUDIT: &str = "\
Replays every change of tenant records in the audit log through the migration
protocol, the same code that the model checker explores. Each change must be a step
that the protocol allows, and epochs must never decrease or repeat. Exit code 1 on
any violation.

Examples:
  ballast migration audit
  ballast migration audit acme --json | jq '.items[].faults'";
pub(crate) const SHARD_DRAIN: &str = "\
Without --yes, shows the plan: every slice, its target and the cost. With --yes, the
shard accepts no new slices and its slices move away, a few at a time. The shard
holds copies until the windows of these migrations end.

Examples:
  ballast shard drain shard-1
  ballast shard drain shard-1 --yes --concurrency 2 --reason 'new disks'
  ballast shard drain shard-1 --yes --window sync:10min
  ballast shard drain shard-1 --cancel";
pub(crate) const REBALANCE: &str = "\
Without --yes, shows the plan: the tenants that are not on their preferred shard, as
ballast placement drift lists them, and the cost of moving them.

Examples:
  ballast rebalance
  ballast rebalance --yes --concurrency 2 --reason 'two shards were added'";
