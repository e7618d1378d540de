//! `migration …`: list, show, watch and control migrations of slices, and their certificates.
//! `tenant move` starts one.
//!
//! ```text
//!   begin.rs ─► watch.rs ─► live.rs: receives events and renders them
//!                             └─► view/moving: the lines of a terminal, pure
//!   mod.rs: single requests ─► view/migrations, view/certificate
//!   verify.rs: verifies a certificate, offline
//!   audit.rs: replays a record's history against the protocol
//! ```

mod audit;
pub(crate) mod begin;
pub(crate) mod body;
mod live;
mod verify;
pub(crate) mod watch;
pub(crate) mod window;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::args::{GuardArgs, PagingArgs};
use super::client::Request;
use super::execution::ReconnectArgs;
use super::failure::{CliError, CommandOutcome};
use super::globals::Globals;
use super::output::Screen;
use super::view::{self, certificate, migrations};
use super::{Remote, help};
use body::MigrationBody;
use watch::MigrationWatch;

/// Commands on migrations.
#[derive(Debug, Subcommand)]
#[command(after_help = help::MIGRATION)]
pub(crate) enum MigrationCommand {
    #[command(flatten)]
    Api(MigrationApiCommand),
    /// Verify a certificate offline: who signed it, and whether it was changed
    #[command(after_help = help::MIGRATION_VERIFY_CERTIFICATE)]
    VerifyCertificate(verify::VerifyCertificateArgs),
}

/// Commands that need a running instance.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrationApiCommand {
    /// List migrations, newest first
    #[command(after_help = help::MIGRATION_LIST)]
    List {
        #[command(flatten)]
        filter: MigrationFilter,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Show a migration: its status, progress and measurements
    #[command(after_help = help::MIGRATION_SHOW)]
    Show {
        /// The migration
        id: String,
    },
    /// Watch a migration live until it ends
    #[command(after_help = help::MIGRATION_WATCH)]
    Watch {
        /// The migration
        id: String,
        #[command(flatten)]
        patience: ReconnectArgs,
    },
    /// Pause a migration; votes are still accepted
    #[command(after_help = help::MIGRATION_PAUSE)]
    Pause(MigrationChangeArgs),
    /// Resume a paused migration
    #[command(after_help = help::MIGRATION_RESUME)]
    Resume(MigrationChangeArgs),
    /// Cancel a migration before its cutover; the source keeps the tenant
    #[command(after_help = help::MIGRATION_CANCEL)]
    Cancel(MigrationChangeArgs),
    /// Move a slice back within the window after the cutover, with all votes
    #[command(after_help = help::MIGRATION_REVERSE)]
    Reverse(ReverseArgs),
    /// End a migration's window now and remove the source's copy
    #[command(after_help = help::MIGRATION_COMPLETE)]
    Complete(CompleteArgs),
    /// Remove the copy that reverse --accept-loss gave up
    #[command(after_help = help::MIGRATION_DISCARD)]
    Discard(MigrationChangeArgs),
    /// Approve a migration that is too large to start without approval
    #[command(after_help = help::MIGRATION_APPROVE)]
    Approve(ApproveArgs),
    /// Print the signed certificate of a finished migration
    #[command(after_help = help::MIGRATION_CERTIFICATE)]
    Certificate {
        /// The migration
        id: String,
    },
    /// Replay all changes of tenant records against the migration protocol
    #[command(after_help = help::MIGRATION_AUDIT)]
    Audit(audit::AuditArgs),
}

/// A migration to change.
#[derive(Debug, Args)]
pub(crate) struct MigrationChangeArgs {
    /// The migration
    id: String,
    #[command(flatten)]
    guard: GuardArgs,
}

/// How to reverse a migration.
#[derive(Debug, Args)]
pub(crate) struct ReverseArgs {
    #[command(flatten)]
    wish: MigrationChangeArgs,
    /// Abandon the target, with the votes that only it has, if it is unavailable for good; needs
    /// --reason and an admin token
    #[arg(long)]
    accept_loss: bool,
}

/// How to approve a migration.
#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    wish: MigrationChangeArgs,
    /// Let it begin outside of the maintenance windows, too; needs --reason
    #[arg(long)]
    now: bool,
}

/// How to end a window.
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    wish: MigrationChangeArgs,
    /// Even if the source is down: its copy is removed when it is back
    #[arg(long)]
    without_source: bool,
}

/// Which migrations to list.
#[derive(Debug, Args)]
pub(crate) struct MigrationFilter {
    /// Only migrations of this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Only migrations from this shard
    #[arg(long, value_name = "SHARD")]
    from: Option<String>,
    /// Only migrations to this shard
    #[arg(long, value_name = "SHARD")]
    to: Option<String>,
    /// Only running migrations
    #[arg(long)]
    open: bool,
    /// Only migrations with this status
    #[arg(long)]
    status: Option<MigrationStatusFilter>,
}

/// Statuses to filter by.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum MigrationStatusFilter {
    Running,
    Waiting,
    Completed,
    #[value(name = "rolledBack", alias = "rolled-back")]
    RolledBack,
    Reversed,
    Cancelled,
    Failed,
}

impl MigrationStatusFilter {
    fn name(self) -> &'static str {
        use ballast_domain::migration::MigrationStatus as Known;
        match self {
            Self::Running => Known::Running.name(),
            Self::Waiting => Known::Waiting.name(),
            Self::Completed => Known::Completed.name(),
            Self::RolledBack => Known::RolledBack.name(),
            Self::Reversed => Known::Reversed.name(),
            Self::Cancelled => Known::Cancelled.name(),
            Self::Failed => Known::Failed.name(),
        }
    }
}

impl MigrationCommand {
    /// Runs the command.
    pub(crate) async fn run(
        self,
        globals: &Globals,
        screen: &Screen,
    ) -> Result<CommandOutcome, CliError> {
        match self {
            Self::VerifyCertificate(args) => args.run(screen),
            Self::Api(verb) => verb.run(&Remote::new(globals, screen)?).await,
        }
    }
}

impl MigrationApiCommand {
    async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (client, screen) = (&remote.client, &remote.screen);
        match self {
            Self::List { filter, paging } => {
                let request = Request::get(&["migrations"])
                    .query("tenant", filter.tenant)
                    .query("from", filter.from)
                    .query("to", filter.to)
                    .query("open", filter.open.then_some(true))
                    .query("status", filter.status.map(MigrationStatusFilter::name));
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                let empty =
                    "no migrations match; move a tenant: ballast tenant move TENANT --to SHARD";
                view::list(screen, &reply, migrations::migration_table, empty)?;
            }
            Self::Show { id } => {
                let reply = client.send(Request::get(&["migrations", &id])).await?;
                view::show(screen, &reply, migrations::migration_facts)?;
            }
            Self::Watch { id, patience } => {
                let following = MigrationWatch {
                    id,
                    final_only: false,
                    patience: patience.patience,
                    was_reachable: false,
                };
                return following.run(remote).await;
            }
            Self::Pause(wish) => wish.send(remote, "pause").await?,
            Self::Resume(wish) => wish.send(remote, "resume").await?,
            Self::Cancel(wish) => wish.send(remote, "cancel").await?,
            Self::Reverse(ReverseArgs { wish, accept_loss }) => {
                let request = wish.request("reverse");
                change_migration(remote, with_flag(request, "acceptLoss", accept_loss)).await?;
            }
            Self::Complete(CompleteArgs {
                wish,
                without_source,
            }) => {
                let request = wish.request("complete");
                let request = with_flag(request, "withoutSource", without_source);
                change_migration(remote, request).await?;
            }
            Self::Discard(wish) => wish.send(remote, "discard").await?,
            Self::Approve(ApproveArgs { wish, now }) => {
                let request = wish.request("approve");
                change_migration(remote, with_flag(request, "now", now)).await?;
            }
            Self::Audit(args) => return args.run(remote).await,
            Self::Certificate { id } => {
                let request = Request::get(&["migrations", &id, "certificate"]);
                let reply = client.send(request).await?;
                // Print the certificate byte for byte.
                screen.data(&reply.bytes)?;
                if screen.terminal && !screen.json {
                    let text = certificate::describe_certificate(screen, &reply.read()?);
                    screen.note(&screen.dim(&text));
                }
            }
        }
        Ok(CommandOutcome::Done)
    }
}

impl MigrationChangeArgs {
    fn request(self, verb: &str) -> Request {
        Request::post(&["migrations", &self.id, verb]).with_guard(self.guard)
    }

    async fn send(self, remote: &Remote, verb: &str) -> Result<(), CliError> {
        change_migration(remote, self.request(verb)).await
    }
}

/// Adds a flag to a request's body, if it is set.
fn with_flag(request: Request, name: &str, is_set: bool) -> Request {
    match is_set {
        true => request.body(json!({ name: true })),
        false => request,
    }
}

/// Changes a migration and shows its state.
async fn change_migration(remote: &Remote, request: Request) -> Result<(), CliError> {
    let reply = remote.client.send(request).await?;
    let screen = &remote.screen;
    view::show(screen, &reply, migrations::describe_request)?;
    let moved: MigrationBody = reply.read()?;
    if !moved.record.is_over() {
        let next = format!("watch it: ballast migration watch {}", moved.id());
        screen.hint(&screen.dim(&next));
    }
    Ok(())
}
