//! The examples under the `--help` of moves.

pub(crate) const TENANT_MOVE: &str = "\
It acts at once. Votes are taken all the while, but for a pause of some milliseconds at the
cutover; then both sides are kept for the window, and the move can be reversed.

Examples:
  ballast tenant move acme --to shard-3 --dry-run
  ballast tenant move acme --to shard-3 --wait
  ballast tenant move acme --to shard-3 --max-pause 50ms --window 2h --reason 'shard-1 is hot'
  ballast tenant move acme --from shard-1 --to shard-3 --json | jq -r .migrationID";
pub(crate) const MIGRATION: &str = "\
A move is begun with ballast tenant move.

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
In a terminal a live view, in a pipe a line for each change, with --json a document for each.
Exit code 0 when the move completed, 1 when it ended otherwise. Ctrl-C leaves it alone.

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
After the cutover it is refused: then reverse brings the slice back.

Examples:
  ballast migration cancel mv-1k6tq8zr4-0a1bc --reason 'wrong shard'";
pub(crate) const MIGRATION_REVERSE: &str = "\
Before the cutover it is refused: then cancel leaves everything as it was.

--accept-loss is for a target that is away for good: the slice comes back without it, with
everything that had been streamed back by then, and the certificate says what was given up. It
is refused as long as the target answers. What that shard has is kept.

Examples:
  ballast migration reverse mv-1k6tq8zr4-0a1bc --reason 'latency doubled'
  ballast migration reverse mv-1k6tq8zr4-0a1bc --accept-loss --reason 'its disk is dead'";
pub(crate) const MIGRATION_COMPLETE: &str = "\
After that there is no way back but a further move. A way back that waits is called off.

Examples:
  ballast migration complete mv-1k6tq8zr4-0a1bc
  ballast migration complete mv-1k6tq8zr4-0a1bc --without-source --reason 'its disk is dead'";
pub(crate) const MIGRATION_DISCARD: &str = "\
It is the only copy of what was given up, or of what nobody was told of; it is removed as soon as
its shard answers, and then slices of the tenant can be moved there again. It needs an admin's token.

Examples:
  ballast migration discard mv-1k6tq8zr4-0a1bc --reason 'counted by hand'";
pub(crate) const MIGRATION_APPROVE: &str = "\
Which moves need it is set with approval_above_rows in [moves].

Examples:
  ballast migration approve mv-1k6tq8zr4-0a1bc --reason 'agreed with acme'";
pub(crate) const MIGRATION_CERTIFICATE: &str = "\
Examples:
  ballast migration certificate mv-1k6tq8zr4-0a1bc > acme.json
  ballast migration certificate mv-1k6tq8zr4-0a1bc | ballast migration verify-certificate -";
pub(crate) const MIGRATION_VERIFY_CERTIFICATE: &str = "\
Without --public-key it is only said which key signed it. Exit code 1 when it was changed, or
signed with another key.

Examples:
  ballast migration verify-certificate acme.json
  ballast migration verify-certificate acme.json --public-key A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";
pub(crate) const MIGRATION_AUDIT: &str = "\
The audit log has every change of a tenant's record. Each is replayed here by the code that
decides moves, which is also what the model checker tries: each must be a step that it allows,
epochs never fall and are never given out twice. Exit code 1 when one is not.

Examples:
  ballast migration audit
  ballast migration audit acme --json | jq '.items[].faults'";
pub(crate) const SHARD_DRAIN: &str = "\
Without --yes only the plan is shown: every slice, where it would go, and what that costs. With
it the shard takes nothing new, and its slices move away, a few at a time. Until the windows of
these moves are over the shard holds copies.

Examples:
  ballast shard drain shard-1
  ballast shard drain shard-1 --yes --concurrency 2 --reason 'new disks'
  ballast shard drain shard-1 --yes --window sync:10min
  ballast shard drain shard-1 --cancel";
pub(crate) const REBALANCE: &str = "\
Without --yes only the plan is shown: the slices that are not where they belong, as ballast
placement drift lists them, and what it costs to move them.

Examples:
  ballast rebalance
  ballast rebalance --yes --concurrency 2 --reason 'two shards were added'";
