//! `migration …`: moves of slices: list, show, watch, what operators ask of
//! them, and their certificates. A move is begun with `tenant move`.
//!
//! ```text
//!   begin.rs ─┐                      ┌─► view/moving: what is drawn, pure
//!   watch     ├─► follow.rs ─► listen.rs, live.rs: what is heard and shown
//!   mod.rs: all that is asked once   └─► view/migrations, view/certificate
//!   verify.rs: whether a certificate is to be believed; asks nobody
//!   audit.rs: whether what has happened is what the protocol allows
//! ```

mod audit;
pub(crate) mod begin;
pub(crate) mod body;
pub(crate) mod follow;
mod live;
mod verify;
pub(crate) mod window;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::args::{Guard, Paging};
use super::client::Request;
use super::execution::Patience;
use super::failure::{Failure, Verdict};
use super::globals::Globals;
use super::output::Screen;
use super::view::{self, certificate, migrations};
use super::{Remote, help};
use body::Migration;
use follow::Following;

/// What can be done with moves.
#[derive(Debug, Subcommand)]
#[command(after_help = help::MIGRATION)]
pub(crate) enum MigrationCommand {
    #[command(flatten)]
    Api(MigrationApiCommand),
    /// Check a certificate: who signed it, and whether it was changed; asks nobody
    #[command(after_help = help::MIGRATION_VERIFY_CERTIFICATE)]
    VerifyCertificate(verify::VerifyArgs),
}

/// What is asked of a running instance.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrationApiCommand {
    /// List moves, newest first
    #[command(after_help = help::MIGRATION_LIST)]
    List {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a move: how it stands, how far it is, what was measured
    #[command(after_help = help::MIGRATION_SHOW)]
    Show {
        /// The move
        id: String,
    },
    /// Watch a move live until it is over
    #[command(after_help = help::MIGRATION_WATCH)]
    Watch {
        /// The move
        id: String,
        #[command(flatten)]
        patience: Patience,
    },
    /// Have a move not go on for now; votes are taken meanwhile
    #[command(after_help = help::MIGRATION_PAUSE)]
    Pause(Wish),
    /// Let a paused move go on
    #[command(after_help = help::MIGRATION_RESUME)]
    Resume(Wish),
    /// Call a move off before its cutover: everything is as it was
    #[command(after_help = help::MIGRATION_CANCEL)]
    Cancel(Wish),
    /// Bring a slice back within the window after its cutover, with all votes
    #[command(after_help = help::MIGRATION_REVERSE)]
    Reverse(Reversal),
    /// End a move's window now: the source's copy is removed
    #[command(after_help = help::MIGRATION_COMPLETE)]
    Complete(Completion),
    /// Remove the copy that was given up with reverse --accept-loss
    #[command(after_help = help::MIGRATION_DISCARD)]
    Discard(Wish),
    /// Approve a move that is too large to begin without
    #[command(after_help = help::MIGRATION_APPROVE)]
    Approve(Wish),
    /// Print the signed certificate of a move that is over
    #[command(after_help = help::MIGRATION_CERTIFICATE)]
    Certificate {
        /// The move
        id: String,
    },
    /// Replay all changes of tenants' records: whether moves did what they may
    #[command(after_help = help::MIGRATION_AUDIT)]
    Audit(audit::AuditArgs),
}

/// Something that is wished of a move.
#[derive(Debug, Args)]
pub(crate) struct Wish {
    /// The move
    id: String,
    #[command(flatten)]
    guard: Guard,
}

/// How a slice is wished back.
#[derive(Debug, Args)]
pub(crate) struct Reversal {
    #[command(flatten)]
    wish: Wish,
    /// Give up what only the target has, if it is away for good; needs --reason and an admin's token
    #[arg(long)]
    accept_loss: bool,
}

/// How a window is to end.
#[derive(Debug, Args)]
pub(crate) struct Completion {
    #[command(flatten)]
    wish: Wish,
    /// Also if the source is away: its copy is removed when it answers again
    #[arg(long)]
    without_source: bool,
}

/// Which moves.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Only those of this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Only those that leave this shard
    #[arg(long, value_name = "SHARD")]
    from: Option<String>,
    /// Only those that come to this shard
    #[arg(long, value_name = "SHARD")]
    to: Option<String>,
    /// Only those that are not over
    #[arg(long)]
    open: bool,
    /// Only those that stand so
    #[arg(long)]
    status: Option<Status>,
}

/// How moves can stand.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Running,
    Waiting,
    Completed,
    #[value(name = "rolledBack", alias = "rolled-back")]
    RolledBack,
    Reversed,
    Cancelled,
    Failed,
}

impl Status {
    fn name(self) -> &'static str {
        use ballast_domain::migration::Status as Known;
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
    /// Does it.
    pub(crate) async fn run(self, globals: &Globals, screen: &Screen) -> Result<Verdict, Failure> {
        match self {
            Self::VerifyCertificate(args) => args.run(screen),
            Self::Api(verb) => verb.run(&Remote::new(globals, screen)?).await,
        }
    }
}

impl MigrationApiCommand {
    async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let (client, screen) = (&remote.client, &remote.screen);
        match self {
            Self::List { filter, paging } => {
                let request = Request::get(&["migrations"])
                    .query("tenant", filter.tenant)
                    .query("from", filter.from)
                    .query("to", filter.to)
                    .query("open", filter.open.then_some(true))
                    .query("status", filter.status.map(Status::name));
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                let empty = "no such moves; move a tenant: ballast tenant move TENANT --to SHARD";
                view::list(screen, &reply, migrations::table, empty)?;
            }
            Self::Show { id } => {
                let reply = client.send(Request::get(&["migrations", &id])).await?;
                view::show(screen, &reply, migrations::facts)?;
            }
            Self::Watch { id, patience } => {
                let following = Following {
                    id,
                    final_only: false,
                    patience: patience.patience,
                    met: false,
                };
                return following.run(remote).await;
            }
            Self::Pause(wish) => wish.send(remote, "pause").await?,
            Self::Resume(wish) => wish.send(remote, "resume").await?,
            Self::Cancel(wish) => wish.send(remote, "cancel").await?,
            Self::Reverse(Reversal { wish, accept_loss }) => {
                let request = wish.request("reverse");
                let request = match accept_loss {
                    true => request.body(json!({ "acceptLoss": true })),
                    false => request,
                };
                told(remote, request).await?;
            }
            Self::Complete(Completion {
                wish,
                without_source,
            }) => {
                let request = wish.request("complete");
                let request = match without_source {
                    true => request.body(json!({ "withoutSource": true })),
                    false => request,
                };
                told(remote, request).await?;
            }
            Self::Discard(wish) => wish.send(remote, "discard").await?,
            Self::Approve(wish) => wish.send(remote, "approve").await?,
            Self::Audit(args) => return args.run(remote).await,
            Self::Certificate { id } => {
                let request = Request::get(&["migrations", &id, "certificate"]);
                let reply = client.send(request).await?;
                // A certificate is data, to be kept and given on as it is.
                screen.data(&reply.bytes)?;
                if screen.terminal && !screen.json {
                    let told = certificate::lines(screen, &reply.read()?);
                    screen.note(&screen.dim(&told));
                }
            }
        }
        Ok(Verdict::Done)
    }
}

impl Wish {
    fn request(self, verb: &str) -> Request {
        Request::post(&["migrations", &self.id, verb]).guarded(self.guard)
    }

    async fn send(self, remote: &Remote, verb: &str) -> Result<(), Failure> {
        told(remote, self.request(verb)).await
    }
}

/// Asks something of a move, and tells how it stands then.
async fn told(remote: &Remote, request: Request) -> Result<(), Failure> {
    let reply = remote.client.send(request).await?;
    let screen = &remote.screen;
    view::show(screen, &reply, migrations::asked)?;
    let moved: Migration = reply.read()?;
    if !moved.record.is_over() {
        let next = format!("watch it: ballast migration watch {}", moved.id());
        screen.hint(&screen.dim(&next));
    }
    Ok(())
}
