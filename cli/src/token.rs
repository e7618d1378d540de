//! `token`: create (the secret is shown once), list, revoke, whoami, reset.

use std::path::PathBuf;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::token::AdminToken;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;

use super::args::{Creation, Fields, Guard, Paging};
use super::body::Versioned;
use super::client::Request;
use super::failure::{Failure, Verdict};
use super::time::When;
use super::view::{self, tokens};
use super::{Remote, help};

/// What can be done with tokens of the admin API.
#[derive(Debug, Subcommand)]
#[command(after_help = help::TOKEN)]
pub(crate) enum TokenCommand {
    #[command(flatten)]
    Api(TokenApiCommand),
    /// Make a new admin token for a stopped instance; the lost one ends
    #[command(after_help = help::TOKEN_RESET)]
    Reset(ResetTokenArgs),
}

/// Where the stopped instance is, and where its new token goes.
#[derive(Debug, Args)]
pub struct ResetTokenArgs {
    /// Where the instance stores its data [default: ./ballast-data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Write the token to this file (mode 0600) instead of printing it
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// What is asked of a running instance.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenApiCommand {
    /// Create a token; the secret is shown this once
    #[command(after_help = help::TOKEN_CREATE)]
    Create {
        /// What it may do
        #[arg(long)]
        role: Role,
        /// Who or what will use it
        #[arg(long)]
        name: String,
        /// When it stops working: 30d, or 2026-12-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<When>,
        #[command(flatten)]
        creation: Creation,
    },
    /// List tokens, without their secrets
    #[command(after_help = help::TOKEN_LIST)]
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// End a token now
    #[command(after_help = help::TOKEN_REVOKE)]
    Revoke {
        /// The token's ID
        token_id: String,
        #[command(flatten)]
        guard: Guard,
    },
    /// Say whose token you use and what it may do
    #[command(after_help = help::TOKEN_WHOAMI)]
    Whoami,
}

#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Role {
    /// Looks
    Viewer,
    /// Also changes tenants, keys, shards and placement
    Operator,
    /// Also hands out and revokes tokens
    Admin,
}

impl TokenApiCommand {
    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let (screen, client) = (&remote.screen, &remote.client);
        match self {
            Self::Create {
                role,
                name,
                expires,
                creation,
            } => {
                let body = Fields::default()
                    .with("name", Some(name))
                    .with("role", Some(role))
                    .expiring(expires, screen.now);
                let request = Request::post(&["tokens"]).body(body.value());
                let reply = client.send(request.creating(creation)).await?;
                tokens::secret(screen, &reply)?;
            }
            Self::List { paging } => {
                let request = Request::get(&["tokens"]);
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                let empty = "no tokens; create one: ballast token create --role viewer --name NAME";
                view::list::<Versioned<AdminToken>>(screen, &reply, tokens::table, empty)?;
            }
            Self::Revoke { token_id, guard } => {
                let request = Request::post(&["tokens", &token_id, "revoke"]).body(json!({}));
                let reply = client.send(request.guarded(guard)).await?;
                view::show(screen, &reply, tokens::revoked)?;
            }
            Self::Whoami => {
                let reply = client.send(Request::get(&["whoami"])).await?;
                view::show(screen, &reply, tokens::facts)?;
            }
        }
        Ok(Verdict::Done)
    }
}
