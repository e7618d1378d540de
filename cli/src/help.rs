//! The examples and notes under each `--help`.

pub(crate) use super::help_hotspots::*;
pub(crate) use super::help_migration::*;

pub(crate) const TOKEN_RESET: &str = "\
Examples:
  ballast token reset --data-dir ballast-data
  ballast token reset --data-dir ballast-data --file token";

pub(crate) const TENANT: &str = "\
Examples:
  ballast tenant create acme --name 'Acme Inc'
  ballast tenant list --status active --shard shard-2
  ballast tenant update acme --votes-per-second 500";
pub(crate) const TENANT_CREATE: &str = "\
Examples:
  ballast tenant create acme
  ballast tenant create acme --region eu --residency strict --votes-per-second 500
  ballast tenant create acme --region eu --secondary-region us --secondary-region ap
  ballast tenant create acme --idempotency-key order-4711 --reason 'signed up'";
pub(crate) const TENANT_LIST: &str = "\
Examples:
  ballast tenant list --prefix ac
  ballast tenant list --shard shard-2 --all --json";
pub(crate) const TENANT_SHOW: &str = "\
Examples:
  ballast tenant show acme
  ballast tenant show acme --json | jq .limits";
pub(crate) const TENANT_UPDATE: &str = "\
Fields without a flag keep their value; a list replaces the current list.

Examples:
  ballast tenant update acme --votes-per-second 500 --reason 'load test'
  ballast tenant update acme --no-votes-per-second
  ballast tenant update acme --cors-origin https://acme.example --if-match 3";
pub(crate) const TENANT_SPLIT: &str = "\
Examples:
  ballast tenant split acme --into 4 --dry-run
  ballast tenant split acme --into 4 --wait --reason 'too big for one shard'
  ballast tenant split acme --into 2 --stay

Slices are split in place, which takes milliseconds. Those that placement assigns
to other shards then move there, unless --stay is given.";
pub(crate) const TENANT_MERGE: &str = "\
Examples:
  ballast tenant merge acme --dry-run
  ballast tenant merge acme --wait
  ballast tenant merge acme --into 2";
pub(crate) const TENANT_SUSPEND: &str = "\
Examples:
  ballast tenant suspend acme --reason 'invoice 4711 unpaid'";
pub(crate) const TENANT_RESUME: &str = "\
Examples:
  ballast tenant resume acme --reason 'invoice 4711 paid'";
pub(crate) const TENANT_CLOSE: &str = "\
Asks for confirmation on a terminal; scripts need --yes.

Examples:
  ballast tenant close acme
  ballast tenant close acme --yes --reason 'contract ended'";

pub(crate) const KEY: &str = "\
Examples:
  ballast key create acme
  ballast key list acme
  ballast key rotate acme key-4f1c9a0b7e2d8a63 --overlap 24h";
pub(crate) const KEY_CREATE: &str = "\
The secret goes to stdout, everything else to stderr. Without flags the key is
live, has all scopes and never expires.

Examples:
  ballast key create acme
  KEY=$(ballast key create acme --scopes vote,read --name web)
  ballast key create acme --test --expires 30d --json";
pub(crate) const KEY_LIST: &str = "\
Examples:
  ballast key list
  ballast key list acme --json";
pub(crate) const KEY_SHOW: &str = "\
Examples:
  ballast key show key-4f1c9a0b7e2d8a63";
pub(crate) const KEY_UPDATE: &str = "\
Examples:
  ballast key update key-4f1c9a0b7e2d8a63 --name web --scopes vote,read";
pub(crate) const KEY_ROTATE: &str = "\
Examples:
  ballast key rotate key-4f1c9a0b7e2d8a63
  ballast key rotate acme key-4f1c9a0b7e2d8a63 --overlap 24h";
pub(crate) const KEY_REVOKE: &str = "\
Examples:
  ballast key revoke key-4f1c9a0b7e2d8a63 --reason leaked
  ballast key revoke acme key-4f1c9a0b7e2d8a63";
pub(crate) const KEY_IDENTIFY: &str = "\
A secret passed as an argument stays in the shell's history; use stdin to avoid it.

Examples:
  ballast key identify < found-key.txt
  pbpaste | ballast key identify -";

pub(crate) const POLL: &str = "\
Set the tenant's API key in BALLAST_KEY, or pass a file with --key-file.

Examples:
  export BALLAST_KEY=$(ballast key create acme)
  ballast poll create Lunch --item Pizza --item Salad --expires 2h
  ballast poll results poll-01kb5q6s3ww3q0v9d1nqz8t5ma
  ballast poll import --title Lunch --totals old-counters.csv --expires 30d";
pub(crate) const POLL_CREATE: &str = "\
Prints the poll's ID.

Examples:
  ballast poll create Lunch --item Pizza --item Salad --expires 2h
  ballast poll create Logo --item A --item B --item C --choices 2 --changeable --expires 7d --json";
pub(crate) const POLL_LIST: &str = "\
Examples:
  ballast poll list
  ballast poll list --all --json";
pub(crate) const POLL_RESULTS: &str = "\
Examples:
  ballast poll results poll-01kb5q6s3ww3q0v9d1nqz8t5ma
  ballast poll results poll-01kb5q6s3ww3q0v9d1nqz8t5ma --json";
pub(crate) const POLL_LANES: &str = "\
A lane within 10 % of the mean is even, one beyond 30 % is skewed; known causes are
shown. Exit code 1 if a lane is skewed for an unknown reason.

Examples:
  ballast poll lanes poll-01kb5q6s3ww3q0v9d1nqz8t5ma";
pub(crate) const POLL_CLOSE: &str = "\
Examples:
  ballast poll close poll-01kb5q6s3ww3q0v9d1nqz8t5ma";
pub(crate) const POLL_IMPORT: &str = "\
--totals: votes per item, as CSV (item,votes) or JSON ({\"Pizza\": 1503}).
--votes:  who voted for what, as CSV (voter,item) or JSON lines
          ({\"voterID\": \"u1\", \"itemName\": \"Pizza\"}).
With both, the votes are part of the totals; the rest of the totals is stored as
sums. Without --poll a new poll is created. Afterwards the totals are read back and
compared; exit code 1 if they differ. Repeating the command with the same files and
--poll counts nothing twice.

Examples:
  ballast poll import --title Lunch --totals old-counters.csv --expires 30d
  ballast poll import --title Lunch --totals totals.json --votes history.csv --expires 30d --lanes 20
  ballast poll import --poll poll-01kb5q6s3ww3q0v9d1nqz8t5ma --votes more.ndjson";

pub(crate) const SHARD: &str = "\
Examples:
  ballast shard list
  ballast placement preview add shard-5     which tenants would move
  ballast shard add shard-5 --weight 2
  ballast shard state shard-2 draining";
pub(crate) const SHARD_ADD: &str = "\
--url is the address of the admin API; --data-url is the location of the shard's data.

Examples:
  ballast shard add shard-5
  ballast shard add shard-5 --region eu --zone ekb --weight 2 --max-slices 50000
  ballast shard add shard-5 --data-url file:shards/shard-5";
pub(crate) const SHARD_LIST: &str = "\
Examples:
  ballast shard list
  ballast shard list --all --json | jq '.items[].shardID'";
pub(crate) const SHARD_SHOW: &str = "\
Examples:
  ballast shard show shard-1";
pub(crate) const SHARD_WEIGHT: &str = "\
Examples:
  ballast shard weight shard-1 2.5
  ballast placement preview weight shard-1 2.5     which tenants would move";
pub(crate) const SHARD_ZONES: &str = "\
Examples:
  ballast shard zones shard-1 ekb gold
  ballast shard zones shard-1                      no zones";
pub(crate) const SHARD_STATE: &str = "\
Examples:
  ballast shard state shard-2 draining --reason 'disk is old'
  ballast shard state shard-2 active";
pub(crate) const SHARD_UPDATE: &str = "\
Examples:
  ballast shard update shard-1 --weight 2 --max-slices 50000 --if-match 4";
pub(crate) const SHARD_INSPECT: &str = "\
Read-only. SHARD is a directory, or the ID of a shard in the data directory.

Examples:
  ballast shard inspect shard-1
  ballast shard inspect /var/lib/ballast/shards/shard-1 --json";
pub(crate) const SHARD_VERIFY: &str = "\
Read-only. Checks every checksum and every row, and the counts against the rows.
Exit code 1 on any problem. While the shard is being written to, the end of its log
may look incomplete.

Examples:
  ballast shard verify shard-1
  ballast shard verify shard-1 --data-dir /var/lib/ballast --json";
pub(crate) const SHARD_REMOVE: &str = "\
Asks for confirmation on a terminal; scripts need --yes. The shard must be empty.

Examples:
  ballast placement preview remove shard-4         which tenants would move
  ballast shard remove shard-4 --yes";

pub(crate) const PLACEMENT: &str = "\
Examples:
  ballast placement explain acme
  ballast placement preview add shard-5 --weight 2
  ballast placement drift";
pub(crate) const PLACEMENT_SHOW: &str = "\
Examples:
  ballast placement show acme";
pub(crate) const PLACEMENT_EXPLAIN: &str = "\
Examples:
  ballast placement explain acme
  ballast placement explain acme --at '2h ago'
  ballast placement explain acme --at 2026-11-16T09:30:00Z --json";
pub(crate) const PLACEMENT_PIN: &str = "\
Examples:
  ballast placement pin acme shard-2 --reason 'same shard as acme-eu'";
pub(crate) const PLACEMENT_UNPIN: &str = "\
Examples:
  ballast placement unpin acme";
pub(crate) const PLACEMENT_PREVIEW: &str = "\
Examples:
  ballast placement preview add shard-5 --weight 2
  ballast placement preview remove shard-4
  ballast placement preview weight shard-1 0.5 --all";
pub(crate) const PLACEMENT_DRIFT: &str = "\
Examples:
  ballast placement drift
  ballast placement drift --all --json";
pub(crate) const PREVIEW_ADD: &str = "\
Examples:
  ballast placement preview add shard-5
  ballast placement preview add shard-5 --region eu --weight 2 --all";
pub(crate) const PREVIEW_REMOVE: &str = "\
Examples:
  ballast placement preview remove shard-4";
pub(crate) const PREVIEW_WEIGHT: &str = "\
Examples:
  ballast placement preview weight shard-1 0.5";

pub(crate) const EVENT: &str = "\
Examples:
  ballast event list --since 2h";
pub(crate) const EVENT_LIST: &str = "\
Examples:
  ballast event list --since 2h
  ballast event list --kind tenant --id acme
  ballast event list --since 2026-11-01 --until 2026-11-16 --all --json";

pub(crate) const TOKEN: &str = "\
Examples:
  ballast token whoami
  ballast token create --role operator --name deploy --expires 90d";
pub(crate) const TOKEN_CREATE: &str = "\
The secret goes to stdout, everything else to stderr.

Examples:
  ballast token create --role viewer --name grafana
  ballast token create --role operator --name deploy --expires 90d > deploy.token";
pub(crate) const TOKEN_LIST: &str = "\
Examples:
  ballast token list";
pub(crate) const TOKEN_REVOKE: &str = "\
Examples:
  ballast token revoke tok-4f1c9a0b7e2d8a63 --reason 'laptop lost'";
pub(crate) const TOKEN_WHOAMI: &str = "\
Examples:
  ballast token whoami";

pub(crate) const WORKFLOW: &str = "\
Examples:
  ballast workflow list
  ballast workflow graph move-tenant
  ballast workflow check my-workflow.asl.json
  ballast workflow test my-case.json
  ballast workflow deploy my-workflow.asl.json

Only deploy, show and graph --execution need a running instance.";
pub(crate) const WORKFLOW_LIST: &str = "\
If no instance answers, it lists the built-in workflows and says so.

Examples:
  ballast workflow list
  ballast workflow list --json";
pub(crate) const WORKFLOW_SHOW: &str = "\
Examples:
  ballast workflow show move-tenant
  ballast workflow show my-workflow --json | jq .definition";
pub(crate) const WORKFLOW_DEPLOY: &str = "\
Running executions keep the definition they were started with.

Examples:
  ballast workflow deploy my-workflow.asl.json
  ballast workflow deploy draft.json --name my-workflow --reason 'waits for an approval'";
pub(crate) const WORKFLOW_REMOVE: &str = "\
Running executions keep the definition they were started with.

Examples:
  ballast workflow remove my-workflow
  ballast workflow remove my-workflow --reason 'replaced by another' --yes";
pub(crate) const WORKFLOW_CHECK: &str = "\
Examples:
  ballast workflow check my-workflow.asl.json
  ballast workflow check my-workflow.asl.json --json | jq .problems
  ballast workflow check move-tenant
  ballast workflow check - < my-workflow.asl.json

Exit code 0 if the definition is valid, 1 if not. Errors are what Step Functions
would reject; warnings are likely mistakes that it would accept.";
pub(crate) const WORKFLOW_GRAPH: &str = "\
Examples:
  ballast workflow graph move-tenant
  ballast workflow graph move-tenant --all
  ballast workflow graph my-workflow.asl.json --format mermaid
  ballast workflow graph my-workflow.asl.json --format dot | dot -Tsvg > graph.svg
  ballast workflow graph --execution move-tenant:acme-1";
pub(crate) const WORKFLOW_TEST: &str = "\
Examples:
  ballast workflow test my-case.json
  ballast workflow test my-cases.json | jq .failing

A case holds a definition, an input, the results of its tasks and the expected
outcome. It runs on a simulated clock and calls nothing (docs/workflow-tests.md).
Prints JSON.

Exit code 0 if the outcome is as expected, 1 if not (see differences), 2 if the file
is invalid.";

pub(crate) const EXECUTION: &str = "\
Examples:
  ballast execution start my-workflow --name order-4711 --input '{\"tenantID\": \"acme\"}'
  ballast execution list --status running
  ballast execution watch my-workflow:order-4711
  ballast execution signal my-workflow:order-4711 --output '{\"approved\": true}'";
pub(crate) const EXECUTION_START: &str = "\
Prints the execution's ID. An argument with a slash, or an existing .json file, is a
file; it is deployed under its name without .asl.json.

Examples:
  ballast execution start my-workflow
  ballast execution start my-workflow --name order-4711 --input @order.json --watch
  ballast execution start ./my-workflow.asl.json --input '{\"seconds\": 5}' --watch
  RESULT=$(ballast execution start my-workflow --wait)

With --wait or --watch: exit code 0 if it succeeded, 1 if not.";
pub(crate) const EXECUTION_LIST: &str = "\
Examples:
  ballast execution list
  ballast execution list --workflow move-tenant --status failed --all --json";
pub(crate) const EXECUTION_SHOW: &str = "\
Long values are truncated; --json shows them in full.

Examples:
  ballast execution show move-tenant:acme-1
  ballast execution show move-tenant:acme-1 --json | jq .output";
pub(crate) const EXECUTION_HISTORY: &str = "\
The events are those of Step Functions' GetExecutionHistory.

Examples:
  ballast execution history move-tenant:acme-1
  ballast execution history move-tenant:acme-1 --newest-first --limit 20
  ballast execution history move-tenant:acme-1 --all --json | jq '.events[].type'";
pub(crate) const EXECUTION_WATCH: &str = "\
Shows a live view on a terminal, one line per change in a pipe, and one document
per change with --json. Reconnects for as long as --patience allows. Ctrl-C stops
watching, not the execution.

Examples:
  ballast execution watch move-tenant:acme-1
  ballast execution watch move-tenant:acme-1 --patience 1h
  ballast execution watch move-tenant:acme-1 --json | jq -c .position

Exit code 0 if it succeeded, 1 if not, 130 after Ctrl-C.";
pub(crate) const EXECUTION_PAUSE: &str = "\
Running tasks finish; no new task starts.

Examples:
  ballast execution pause move-tenant:acme-1 --reason 'peak hour'";
pub(crate) const EXECUTION_RESUME: &str = "\
Examples:
  ballast execution resume move-tenant:acme-1";
pub(crate) const EXECUTION_CANCEL: &str = "\
The execution ends as ABORTED; no further task starts.

Examples:
  ballast execution cancel move-tenant:acme-1
  ballast execution cancel move-tenant:acme-1 --error Withdrawn --cause 'ordered by mistake'";
pub(crate) const EXECUTION_HEARTBEAT: &str = "\
A task with HeartbeatSeconds times out unless it sends heartbeats that often.

Examples:
  ballast execution heartbeat my-workflow:order-4711
  ballast execution heartbeat my-workflow:order-4711 --done 3 --total 10 --unit papers";
pub(crate) const EXECUTION_SIGNAL: &str = "\
execution show and execution watch list the waiting tasks.

Examples:
  ballast execution signal my-workflow:order-4711 --output '{\"approved\": true}'
  ballast execution signal my-workflow:order-4711 --state Approve --output @answer.json
  ballast execution signal my-workflow:order-4711 --error Rejected --cause 'too expensive'";
