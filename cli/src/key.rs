//! `key`: create (the secret is shown once), list, show, change, rotate,
//! revoke, identify.

use std::io::{IsTerminal, Read};

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;

use super::args::{Creation, Fields, Guard, Paging};
use super::body::KeyBody;
use super::client::Request;
use super::failure::{Failure, Verdict};
use super::time::{When, seconds};
use super::view::{self, keys};
use super::{Remote, help};

/// What can be done with API keys.
#[derive(Debug, Subcommand)]
#[command(after_help = help::KEY)]
pub(crate) enum KeyCommand {
    /// Create a key for a tenant; the secret is shown this once
    #[command(after_help = help::KEY_CREATE)]
    Create {
        /// The tenant
        tenant: String,
        #[command(flatten)]
        settings: Settings,
        /// A key for trying things out
        #[arg(long)]
        test: bool,
        /// When it stops working: 30d, or 2026-12-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires: Option<When>,
        #[command(flatten)]
        creation: Creation,
    },
    /// List keys, without their secrets
    #[command(after_help = help::KEY_LIST)]
    List {
        /// Only keys of this tenant
        tenant: Option<String>,
        #[command(flatten)]
        paging: Paging,
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
        settings: Settings,
        #[command(flatten)]
        guard: Guard,
    },
    /// Make a successor; the old key works beside it until the overlap ends
    #[command(after_help = help::KEY_ROTATE)]
    Rotate {
        #[command(flatten)]
        key: Named,
        /// How long the old key still works; 0s ends it at once
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        overlap: Option<i64>,
        /// When the successor stops working; when the old key would have, if not given
        #[arg(long, value_name = "TIME")]
        expires: Option<When>,
        /// Repeated with the same text within 24 hours, it happens once
        #[arg(long, value_name = "TEXT")]
        idempotency_key: Option<String>,
        #[command(flatten)]
        guard: Guard,
    },
    /// End a key now
    #[command(after_help = help::KEY_REVOKE)]
    Revoke {
        #[command(flatten)]
        key: Named,
        #[command(flatten)]
        guard: Guard,
    },
    /// Say whose a secret is and whether it works (exit code 1 if not)
    #[command(after_help = help::KEY_IDENTIFY)]
    Identify {
        /// The secret; read from stdin when absent or -
        #[arg(value_name = "KEY")]
        secret: Option<String>,
    },
}

/// What can be said of a key.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// What people call it
    #[arg(long)]
    name: Option<String>,
    /// What it may do: a list such as vote,read
    #[arg(long, value_delimiter = ',', value_name = "SCOPES")]
    scopes: Vec<Scope>,
}

/// A key, and optionally whose it must be.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct Named {
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

impl Settings {
    fn fields(&self) -> Fields {
        Fields::default()
            .with("name", self.name.as_ref())
            .with_list("scopes", &self.scopes)
    }
}

impl KeyCommand {
    /// Does it.
    pub(crate) async fn run(self, remote: &Remote) -> Result<Verdict, Failure> {
        let (screen, client) = (&remote.screen, &remote.client);
        match self {
            Self::Create {
                tenant,
                settings,
                test,
                expires,
                creation,
            } => {
                let body = settings
                    .fields()
                    .with("test", test.then_some(true))
                    .expiring(expires, screen.now);
                let request = Request::post(&["tenants", &tenant, "keys"]).body(body.value());
                let reply = client.send(request.creating(creation)).await?;
                keys::secret(screen, &reply)?;
            }
            Self::List { tenant, paging } => {
                let whose = tenant.as_deref().unwrap_or("TENANT");
                let empty = format!("no keys yet; create one: ballast key create {whose}");
                let request = Request::get(&["keys"]).query("tenant", tenant.as_ref());
                let reply = client.list(request, &paging, PAGE_ITEMS_MAX).await?;
                view::list::<KeyBody>(screen, &reply, keys::table, &empty)?;
            }
            Self::Show { key_id } => {
                let reply = client.send(Request::get(&["keys", &key_id])).await?;
                view::show(screen, &reply, keys::facts)?;
            }
            Self::Update {
                key_id,
                settings,
                guard,
            } => {
                let fields = settings.fields();
                view::refuse_nothing(&fields)?;
                let request = Request::patch(&["keys", &key_id]).body(fields.value());
                let reply = client.send(request.guarded(guard)).await?;
                view::show(screen, &reply, keys::facts)?;
            }
            Self::Rotate {
                key,
                overlap,
                expires,
                idempotency_key,
                guard,
            } => {
                key.check(remote).await?;
                let body = Fields::default()
                    .with("overlapSeconds", overlap)
                    .expiring(expires, screen.now);
                let creation = Creation {
                    reason: None,
                    idempotency_key,
                };
                let request = Request::post(&["keys", &key.key_id, "rotate"])
                    .body(body.value())
                    .creating(creation)
                    .guarded(guard);
                keys::secret(screen, &client.send(request).await?)?;
            }
            Self::Revoke { key, guard } => {
                key.check(remote).await?;
                let request = Request::post(&["keys", &key.key_id, "revoke"]).body(json!({}));
                let reply = client.send(request.guarded(guard)).await?;
                view::show(screen, &reply, keys::revoked)?;
            }
            Self::Identify { secret } => return identify(remote, secret).await,
        }
        Ok(Verdict::Done)
    }
}

impl Named {
    /// Refuses a key that is not of the tenant that was named.
    async fn check(&self, remote: &Remote) -> Result<(), Failure> {
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
        Err(Failure::refused_here(
            "key-of-another-tenant",
            "The key is another tenant's",
            format!("key {} belongs to {owner}, not to {tenant}", self.key_id),
            "nothing was changed; ballast key list TENANT shows the keys of a tenant",
        ))
    }
}

async fn identify(remote: &Remote, secret: Option<String>) -> Result<Verdict, Failure> {
    let screen = &remote.screen;
    let secret = match secret.filter(|text| text != "-") {
        Some(secret) => secret,
        None => typed(remote)?,
    };
    let request = Request::post(&["keys", "identify"]).body(json!({ "key": secret.trim() }));
    let reply = remote.client.send(request).await?;
    let works = reply.read::<KeyBody>()?.status == "active";
    view::show(screen, &reply, keys::identified)?;
    Ok(if works {
        Verdict::Done
    } else {
        Verdict::Negative
    })
}

/// The secret from stdin.
fn typed(remote: &Remote) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let mut text = String::new();
    let read = if stdin.is_terminal() {
        remote.screen.note("paste the key, then press Enter:");
        stdin.read_line(&mut text).map(drop)
    } else {
        // A key is short; what is longer is none.
        stdin.lock().take(4_096).read_to_string(&mut text).map(drop)
    };
    read.map_err(|error| Failure::usage(format!("stdin cannot be read: {error}"), ""))?;
    if text.trim().is_empty() {
        return Err(Failure::usage(
            "there is no key on stdin",
            "give it as the argument, or pipe it in",
        ));
    }
    Ok(text)
}
