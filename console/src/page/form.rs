//! Forms: each carries its session's token, and what changes much asks for a
//! reason.

use maud::{Markup, html};

use crate::session::Visitor;

/// What every form carries.
pub(crate) fn hidden(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="csrf" value=(visitor.session.csrf); }
}

/// The version that the page shows, so that nothing newer is changed unseen.
pub(crate) fn version(version: u64) -> Markup {
    html! { input type="hidden" name="version" value=(version); }
}

/// Why it is done.
pub(crate) fn reason(id: &str) -> Markup {
    html! {
        label for=(format!("{id}-reason")) { "Reason, for the audit log" }
        input id=(format!("{id}-reason")) name="reason" maxlength="500" autocomplete="off";
    }
}

/// Whether a move's window is one in which both sides acknowledge.
pub(crate) fn both_acknowledge() -> Markup {
    html! {
        label class="tick" { input type="checkbox" name="sync"; "A vote counts when both sides have it" }
    }
}

/// Something that is done only after a second look: what it does, why, and a
/// button. It needs no script.
pub(crate) struct Verb<'a> {
    /// What is on the button.
    pub(crate) label: &'a str,
    /// Where it is sent.
    pub(crate) action: &'a str,
    /// What it does, in a sentence.
    pub(crate) tells: &'a str,
    /// Whether it cannot be undone.
    pub(crate) grave: bool,
    /// The version that is looked at, if that matters.
    pub(crate) version: Option<u64>,
}

impl Verb<'_> {
    pub(crate) fn show(&self, visitor: &Visitor, more: &Markup) -> Markup {
        // Paths are unique on a page, and so are names made of them.
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
                    p { (self.tells) }
                    (more)
                    (reason(&id))
                    button type="submit" class=(class) { (self.label) }
                }
            }
        }
    }
}
