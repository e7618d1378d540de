//! `token`: create (the secret is shown once), list, revoke, whoami, reset.

use std::path::PathBuf;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::token::AdminToken;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;

use super::args::{CreationArgs, GuardArgs, JsonFields, PagingArgs};
use super::body::Versioned;
use super::client::Request;
use super::failure::{CliError, CommandOutcome};
use super::time::TimeArg;
use super::view::{self, tokens};
use super::{Remote, help};

/// Commands on tokens of the admin API.
#[derive(Debug, Subcommand)]
#[command(after_help = help::TOKEN)]
pub(crate) enum TokenCommand {
    #[command(flatten)]
    Api(TokenApiCommand),
    /// Create a new admin token for a stopped instance; revokes the lost one
    #[command(after_help = help::TOKEN_RESET)]
    Reset(ResetTokenArgs),
}

/// Where the stopped instance is, and where its new token goes.
#[derive(Debug, Args)]
pub struct ResetTokenArgs {
    /// Data directory of the instance [default: ./ballast-data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Write the token to this file (mode 0600) instead of printing it
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Commands that need a running instance.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenApiCommand {
    /// Create a token; the secret is shown this once
    #[command(after_help = help::TOKEN_CREATE)]
    Create {
        /// Its role
        #[arg(long)]
        role: TokenRole,
        /// Name of its user
        #[arg(long)]
        name: String,
        /// Expiry: 30d, or 2026-12-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<TimeArg>,
        #[command(flatten)]
        creation: CreationArgs,
    },
    /// List tokens, without their secrets
    #[command(after_help = help::TOKEN_LIST)]
    List {
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Revoke a token now
    #[command(after_help = help::TOKEN_REVOKE)]
    Revoke {
        /// The token's ID
        token_id: String,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Show the current token and its role
    #[command(after_help = help::TOKEN_WHOAMI)]
    Whoami,
}

#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TokenRole {
    /// Reads
    Viewer,
    /// Also changes tenants, keys, shards and placement
    Operator,
    /// Also creates and revokes tokens
    Admin,
}

impl TokenApiCommand {
    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (screen, client) = (&remote.screen, &remote.client);
        match self {
            Self::Create {
                role,
                name,
                expires,
                creation,
            } => {
                let body = JsonFields::default()
                    .with("name", Some(name))
                    .with("role", Some(role))
                    .with_expiry(expires, screen.now);
                let request = Request::post(&["tokens"]).body(body.value());
                let reply = client.send(request.with_creation(creation)).await?;
                tokens::show_secret(screen, &reply)?;
            }
            Self::List { paging } => {
                let request = Request::get(&["tokens"]);
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                let empty = "no tokens; create one: ballast token create --role viewer --name NAME";
                view::list::<Versioned<AdminToken>>(screen, &reply, tokens::token_table, empty)?;
            }
            Self::Revoke { token_id, guard } => {
                let request = Request::post(&["tokens", &token_id, "revoke"]).body(json!({}));
                let reply = client.send(request.with_guard(guard)).await?;
                view::show(screen, &reply, tokens::describe_revoked)?;
            }
            Self::Whoami => {
                let reply = client.send(Request::get(&["whoami"])).await?;
                view::show(screen, &reply, tokens::token_facts)?;
            }
        }
        Ok(CommandOutcome::Done)
    }
}
