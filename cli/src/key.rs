//! `key`: create (the secret is shown once), list, show, change, rotate,
//! revoke, identify.

use std::io::{IsTerminal, Read};

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;

use super::args::{CreationArgs, GuardArgs, JsonFields, PagingArgs};
use super::body::KeyBody;
use super::client::Request;
use super::failure::{CliError, CommandOutcome};
use super::time::{TimeArg, parse_seconds};
use super::view::{self, keys};
use super::{Remote, help};

/// Commands on API keys.
#[derive(Debug, Subcommand)]
#[command(after_help = help::KEY)]
pub(crate) enum KeyCommand {
    /// Create a key for a tenant; the secret is shown this once
    #[command(after_help = help::KEY_CREATE)]
    Create {
        /// The tenant
        tenant: String,
        #[command(flatten)]
        settings: KeySettings,
        /// Create a test key
        #[arg(long)]
        test: bool,
        /// Expiry: 30d, or 2026-12-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<TimeArg>,
        #[command(flatten)]
        creation: CreationArgs,
    },
    /// List keys, without their secrets
    #[command(after_help = help::KEY_LIST)]
    List {
        /// Only keys of this tenant
        tenant: Option<String>,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Show a key, without its secret
    #[command(after_help = help::KEY_SHOW)]
    Show {
        /// The key's ID
        key_id: String,
    },
    /// Change a key's name or scopes
    #[command(after_help = help::KEY_UPDATE)]
    Update {
        /// The key's ID
        key_id: String,
        #[command(flatten)]
        settings: KeySettings,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Create a successor; the old key keeps working until the overlap ends
    #[command(after_help = help::KEY_ROTATE)]
    Rotate {
        #[command(flatten)]
        key: KeySelector,
        /// How long the old key still works; 0s ends it at once
        #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
        overlap: Option<i64>,
        /// Expiry of the successor [default: that of the old key]
        #[arg(long, value_name = "TIME")]
        expires: Option<TimeArg>,
        /// Repeating the request with this key within 24 hours runs it once
        #[arg(long, value_name = "TEXT")]
        idempotency_key: Option<String>,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Revoke a key now
    #[command(after_help = help::KEY_REVOKE)]
    Revoke {
        #[command(flatten)]
        key: KeySelector,
        #[command(flatten)]
        guard: GuardArgs,
    },
    /// Show which tenant a secret belongs to and whether it works (exit code 1 if not)
    #[command(after_help = help::KEY_IDENTIFY)]
    Identify {
        /// The secret; read from stdin when absent or -
        #[arg(value_name = "KEY")]
        secret: Option<String>,
    },
}

/// Settings of a key.
#[derive(Debug, Args)]
pub(crate) struct KeySettings {
    /// Display name
    #[arg(long)]
    name: Option<String>,
    /// Scopes, such as vote,read
    #[arg(long, value_delimiter = ',', value_name = "SCOPES")]
    scopes: Vec<Scope>,
}

/// A key, and optionally the tenant that must own it.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct KeySelector {
    /// The tenant that must own the key
    tenant: Option<String>,
    /// The key's ID
    #[arg(required = true)]
    key_id: String,
}

#[derive(Debug, Clone, Copy, ValueEnum, Serialize)]
#[serde(rename_all = "camelCase")]
enum Scope {
    /// Cast votes
    Vote,
    /// Read polls and results
    Read,
    /// Create and close polls
    Polls,
}

impl KeySettings {
    fn fields(&self) -> JsonFields {
        JsonFields::default()
            .with("name", self.name.as_ref())
            .with_list("scopes", &self.scopes)
    }
}

impl KeyCommand {
    /// Runs the command.
    pub(crate) async fn run(self, remote: &Remote) -> Result<CommandOutcome, CliError> {
        let (screen, client) = (&remote.screen, &remote.client);
        match self {
            Self::Create {
                tenant,
                settings,
                test,
                expires,
                creation,
            } => {
                let fields = settings.fields().with("test", test.then_some(true));
                let body = fields.with_expiry(expires, screen.now);
                let request = Request::post(&["tenants", &tenant, "keys"]).body(body.value());
                let reply = client.send(request.with_creation(creation)).await?;
                keys::show_secret(screen, &reply)?;
            }
            Self::List { tenant, paging } => {
                let whose = tenant.as_deref().unwrap_or("TENANT");
                let empty = format!("no keys yet; create one: ballast key create {whose}");
                let request = Request::get(&["keys"]).query("tenant", tenant.as_ref());
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                view::list::<KeyBody>(screen, &reply, keys::key_table, &empty)?;
            }
            Self::Show { key_id } => {
                let reply = client.send(Request::get(&["keys", &key_id])).await?;
                view::show(screen, &reply, keys::key_facts)?;
            }
            Self::Update {
                key_id,
                settings,
                guard,
            } => {
                let fields = settings.fields();
                view::require_change(&fields)?;
                let request = Request::patch(&["keys", &key_id]).body(fields.value());
                let reply = client.send(request.with_guard(guard)).await?;
                view::show(screen, &reply, keys::key_facts)?;
            }
            Self::Rotate {
                key,
                overlap,
                expires,
                idempotency_key,
                guard,
            } => {
                key.check(remote).await?;
                let body = JsonFields::default()
                    .with("overlapSeconds", overlap)
                    .with_expiry(expires, screen.now);
                let creation = CreationArgs {
                    reason: None,
                    idempotency_key,
                };
                let request = Request::post(&["keys", &key.key_id, "rotate"])
                    .body(body.value())
                    .with_creation(creation)
                    .with_guard(guard);
                keys::show_secret(screen, &client.send(request).await?)?;
            }
            Self::Revoke { key, guard } => {
                key.check(remote).await?;
                let request = Request::post(&["keys", &key.key_id, "revoke"]).body(json!({}));
                let reply = client.send(request.with_guard(guard)).await?;
                view::show(screen, &reply, keys::describe_revoked)?;
            }
            Self::Identify { secret } => return identify(remote, secret).await,
        }
        Ok(CommandOutcome::Done)
    }
}

impl KeySelector {
    /// Refuses a key of another tenant.
    async fn check(&self, remote: &Remote) -> Result<(), CliError> {
        let Some(tenant) = &self.tenant else {
            return Ok(());
        };
        let reply = remote
            .client
            .send(Request::get(&["keys", &self.key_id]))
            .await?;
        let owner = reply.read::<KeyBody>()?.key.tenant_id;
        if owner.as_str() == tenant {
            return Ok(());
        }
        Err(CliError::rejected_locally(
            "key-of-another-tenant",
            "The key belongs to another tenant",
            format!("key {} belongs to {owner}, not to {tenant}", self.key_id),
            "nothing was changed; ballast key list TENANT shows the keys of a tenant",
        ))
    }
}

async fn identify(remote: &Remote, secret: Option<String>) -> Result<CommandOutcome, CliError> {
    let screen = &remote.screen;
    let secret = match secret.filter(|text| text != "-") {
        Some(secret) => secret,
        None => read_secret(remote)?,
    };
    let request = Request::post(&["keys", "identify"]).body(json!({ "key": secret.trim() }));
    let reply = remote.client.send(request).await?;
    let works = reply.read::<KeyBody>()?.status == "active";
    view::show(screen, &reply, keys::describe_identified)?;
    Ok(if works {
        CommandOutcome::Done
    } else {
        CommandOutcome::Negative
    })
}

/// The secret from stdin.
fn read_secret(remote: &Remote) -> Result<String, CliError> {
    let stdin = std::io::stdin();
    let mut text = String::new();
    let read = if stdin.is_terminal() {
        remote.screen.note("paste the key, then press Enter:");
        stdin.read_line(&mut text).map(drop)
    } else {
        // A key is short; ignore longer input.
        stdin.lock().take(4_096).read_to_string(&mut text).map(drop)
    };
    read.map_err(|error| CliError::usage(format!("stdin cannot be read: {error}"), ""))?;
    if text.trim().is_empty() {
        return Err(CliError::usage(
            "no key on stdin",
            "give it as the argument, or pipe it in",
        ));
    }
    Ok(text)
}
