//! The examples under `--help` of the commands that this package runs itself.

pub(crate) const TOP: &str = "\
Examples:
  ballast up                              run everything; data in ./ballast-data
  ballast demo                            flash crowd, migration and kill -9; cleans up
  ballast tenant create acme              create a tenant and place it on a shard
  ballast key create acme                 give it an API key
  ballast placement explain acme          why it is there, and what would move it
  ballast shard list                      the fleet
  ballast tenant move acme --to shard-3   move it while votes arrive
  ballast execution watch move-tenant:1   watch a workflow live
  ballast tenant list --json | jq .       JSON for programs

Environment:
  BALLAST_URL      the admin URL; --url wins
  BALLAST_TOKEN    the token; --token-file wins
  BALLAST_CA_CERT  certificates to trust; --ca-cert wins
  NO_COLOR         no colours
Without either token, ballast-data/admin-token is read if it exists.

Exit codes:
  0  done
  1  refused by the server, or the answer is no
  2  invalid command line
  3  server unreachable";

pub(crate) const UP: &str = "\
Examples:
  ballast up
  ballast up --listen 0.0.0.0:8080 --data-dir /var/lib/ballast
  ballast up --json --listen 127.0.0.1:0 --admin-token-file token
  ballast up --tls-cert cert.pem --tls-key key.pem

Stops cleanly on Ctrl-C or SIGTERM; reloads its configuration on SIGHUP.";
pub(crate) const DEMO: &str = "\
Examples:
  ballast demo                      print a link to the console, then the story
  ballast demo --chaos              keep killing the process while tenants move
  ballast demo --headless --json    only the summary; exit code 1 if a vote is lost

All data is in a temporary directory, which is removed at the end.";
pub(crate) const CONFIG: &str = "\
Examples:
  ballast config check
  ballast config show
  ballast config schema > ballast.schema.json";
pub(crate) const CONFIG_CHECK: &str = "\
Examples:
  ballast config check
  ballast config check /etc/ballast/ballast.toml --json";
pub(crate) const CONFIG_SCHEMA: &str = "\
Examples:
  ballast config schema > ballast.schema.json";
pub(crate) const CONFIG_SHOW: &str = "\
Examples:
  ballast config show
  ballast config show ballast.toml --json";
pub(crate) const BACKUP: &str = "\
Examples:
  ballast backup create /backups/monday
  ballast backup verify /backups/monday
  ballast backup restore /backups/monday --data-dir new-data";
pub(crate) const BACKUP_CREATE: &str = "\
Works on the data directory of this machine, whether the instance runs or not.

Examples:
  ballast backup create /backups/monday
  ballast backup create /backups/monday --data-dir /var/lib/ballast --json";
pub(crate) const BACKUP_VERIFY: &str = "\
Exit code 1 on any problem.

Examples:
  ballast backup verify /backups/monday
  ballast backup verify /backups/monday --json";
pub(crate) const RESTORE: &str = "\
Verifies the backup first. Raises every epoch, so that shards refuse routers that
still use the old ones.

Examples:
  ballast restore /backups/monday new-data
  ballast restore /backups/monday --data-dir /var/lib/ballast";

pub(crate) const DOCTOR: &str = "\
Only reads, also while the instance runs. Exit code 1 on any problem.

Examples:
  ballast doctor
  ballast doctor --data-dir /var/lib/ballast --json";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  ballast completions bash > ~/.local/share/bash-completion/completions/ballast
  ballast completions zsh > ~/.zfunc/_ballast
  ballast completions fish > ~/.config/fish/completions/ballast.fish";
