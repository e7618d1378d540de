//! `[[webhooks]]`: who is told of hotspots, plans and moves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A webhook receiver. A change takes effect at the next start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    /// Where it is told, by POST.
    pub(crate) url: String,
    /// Where the secret is that what is told is signed with: `env:NAME` or
    /// `file:PATH`.
    pub(crate) secret: String,
    /// What is told: `hotspot`, `plan`, `move`; all of them when absent.
    #[serde(default)]
    pub(crate) events: Vec<WebhookTopic>,
}

/// What may be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WebhookTopic {
    /// That a hotspot was found, or is over.
    Hotspot,
    /// That a plan waits for somebody's word, or what became of one.
    Plan,
    /// That a move has ended.
    Move,
}

/// Hooks, at the most.
const HOOKS_MAX: usize = 20;

/// The first invalid value, with its key.
pub(super) fn check(hooks: &[Webhook]) -> Result<(), (&'static str, String)> {
    if hooks.len() > HOOKS_MAX {
        return Err(("webhooks", format!("there are more than {HOOKS_MAX}")));
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
            let message = "must say where the secret is: env:NAME or file:PATH".to_owned();
            return Err(("webhooks.secret", message));
        }
    }
    Ok(())
}
