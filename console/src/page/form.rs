//! Forms: each has the session's CSRF token, and actions with large effects have a
//! reason field.

use maud::{Markup, html};

use crate::session::Visitor;

/// The CSRF field of every form.
pub(crate) fn hidden(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="csrf" value=(visitor.session.csrf); }
}

/// The record version that the page shows, for optimistic concurrency.
pub(crate) fn version(version: u64) -> Markup {
    html! { input type="hidden" name="version" value=(version); }
}

/// The reason field.
pub(crate) fn reason(id: &str) -> Markup {
    html! {
        label for=(format!("{id}-reason")) { "Reason (for the audit log)" }
        input id=(format!("{id}-reason")) name="reason" maxlength="500" autocomplete="off";
    }
}

/// Whether both shards acknowledge votes during the migration window.
pub(crate) fn synchronous_window() -> Markup {
    html! {
        label class="tick" { input type="checkbox" name="sync"; "Acknowledge votes only when both shards have them" }
    }
}

/// A confirmation: a button that unfolds a description, a reason field and the submit
/// button. Works without scripts.
pub(crate) struct ActionForm<'a> {
    /// The button's label.
    pub(crate) label: &'a str,
    /// The form's action path.
    pub(crate) action: &'a str,
    /// What the action does.
    pub(crate) description: &'a str,
    /// Whether the action cannot be undone.
    pub(crate) grave: bool,
    /// The record version shown, if the action checks it.
    pub(crate) version: Option<u64>,
}

impl ActionForm<'_> {
    pub(crate) fn show(&self, visitor: &Visitor, more: &Markup) -> Markup {
        // Action paths are unique on a page, so IDs derived from them are too.
        let id = self
            .action
            .trim_start_matches("/console/")
            .replace('/', "-");
        let class = if self.grave { "grave" } else { "primary" };
        html! {
            details class="verb" {
                summary class=(if self.grave { "button grave-edge" } else { "button" }) { (self.label) "…" }
                form method="post" action=(self.action) {
                    (hidden(visitor))
                    @if let Some(known) = self.version { (version(known)) }
                    p { (self.description) }
                    (more)
                    (reason(&id))
                    button type="submit" class=(class) { (self.label) }
                }
            }
        }
    }
}
