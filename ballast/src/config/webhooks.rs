//! `[[webhooks]]`: receivers of events about hotspots, plans and migrations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A webhook receiver. A change takes effect after a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    /// The URL that receives POST requests.
    pub(crate) url: String,
    /// The secret that signs requests: `env:NAME` or `file:PATH`.
    pub(crate) secret: String,
    /// The events to send: `hotspot`, `plan`, `move`; all of them when absent.
    #[serde(default)]
    pub(crate) events: Vec<WebhookTopic>,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WebhookTopic {
    /// A hotspot was found, or is over.
    Hotspot,
    /// A plan waits for approval, or its status changed.
    Plan,
    /// A migration waits for approval, or has ended.
    Move,
}

/// Maximum number of hooks.
const HOOKS_MAX: usize = 20;

/// The first invalid value, with its key.
pub(super) fn check(hooks: &[Webhook]) -> Result<(), (&'static str, String)> {
    if hooks.len() > HOOKS_MAX {
        return Err(("webhooks", format!("must be at most {HOOKS_MAX}")));
    }
    for hook in hooks {
        if !super::validate::is_http(&hook.url) {
            let message = format!("{:?} must begin with http:// or https://", hook.url);
            return Err(("webhooks.url", message));
        }
        let named = ["env:", "file:"].iter().any(|kind| {
            hook.secret
                .strip_prefix(kind)
                .is_some_and(|rest| !rest.is_empty())
        });
        if !named {
            let message = "must be env:NAME or file:PATH".to_owned();
            return Err(("webhooks.secret", message));
        }
    }
    Ok(())
}
