//! The examples under `--help` of the commands that this package runs itself.

pub(crate) const TOP: &str = "\
Examples:
  ballast up                              run everything; data in ./ballast-data
  ballast demo                            see a flash crowd, a move and a kill -9; nothing is left behind
  ballast tenant create acme              create a tenant; it is placed on a shard
  ballast key create acme                 give it an API key
  ballast placement explain acme          where it is, why, and what would move it
  ballast shard list                      the fleet
  ballast tenant move acme --to shard-3   move it while it is being voted on
  ballast execution watch move-tenant:1   a workflow, live
  ballast tenant list --json | jq .       everything, for programs

Environment:
  BALLAST_URL      the admin URL; --url wins
  BALLAST_TOKEN    the token; --token-file wins
  BALLAST_CA_CERT  certificates to trust; --ca-cert wins
  NO_COLOR         no colours
Without a token in either place, the file ballast-data/admin-token is read if it is there.

Exit codes:
  0  done
  1  refused by the server, or the answer is no
  2  the command cannot be run like that
  3  the server cannot be reached";

pub(crate) const UP: &str = "\
Examples:
  ballast up
  ballast up --listen 0.0.0.0:8080 --data-dir /var/lib/ballast
  ballast up --json --listen 127.0.0.1:0 --admin-token-file token
  ballast up --tls-cert cert.pem --tls-key key.pem

Stops cleanly on Ctrl-C or SIGTERM; reads its configuration again on SIGHUP.";
pub(crate) const DEMO: &str = "\
Examples:
  ballast demo                      tells the story; the link to the console is printed first
  ballast demo --chaos              keeps killing the process while tenants move
  ballast demo --headless --json    for programs: the summary alone; exit code 1 if a vote was lost

Everything is in a temporary directory and is removed at the end.";
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
Works on files, on the machine that holds them, whether the instance runs or not.

Examples:
  ballast backup create /backups/monday
  ballast backup create /backups/monday --data-dir /var/lib/ballast --json";
pub(crate) const BACKUP_VERIFY: &str = "\
Exit code 1 when something is wrong.

Examples:
  ballast backup verify /backups/monday
  ballast backup verify /backups/monday --json";
pub(crate) const RESTORE: &str = "\
The backup is verified first. Every epoch is raised, so that routers that know the
old ones are refused.

Examples:
  ballast restore /backups/monday new-data
  ballast restore /backups/monday --data-dir /var/lib/ballast";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  ballast completions bash > ~/.local/share/bash-completion/completions/ballast
  ballast completions zsh > ~/.zfunc/_ballast
  ballast completions fish > ~/.config/fish/completions/ballast.fish";
