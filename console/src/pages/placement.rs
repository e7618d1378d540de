//! Why a tenant is where it is, and pins.

use axum::response::Response;
use ballast_control_plane::placements;
use ballast_control_plane::registry::typed::Versioned;
use ballast_domain::placement::{Explanation, ShardExplained};
use ballast_domain::tenant::Tenant;
use ballast_domain::{Result, ShardId, TenantId};
use maud::{Markup, html};

use super::deed::Deed;
use super::names;
use crate::console::Console;
use crate::page::error::Broken;
use crate::page::flash::done;
use crate::page::form::Verb;
use crate::page::words::{badge, nothing, number};
use crate::session::Visitor;

/// Shards of an explanation that are shown; those that may hold it come first.
const SHOWN: usize = 12;

/// Why it is here: scores, vetoes, and what would move it.
pub(super) fn why(told: &Explanation) -> Markup {
    html! {
        p { (sentence(told)) }
        @if told.shard_id != told.preferred_shard_id {
            p class="note warn" {
                "It belongs on "
                @match &told.preferred_shard_id {
                    Some(id) => { (id) }
                    None => { "no shard that is there" }
                }
                ": a move is due."
            }
        }
        div class="scroll" role="region" aria-label="Scores" tabindex="0" {
            table {
                thead { tr {
                    th { "Shard" } th class="num" { "Score" } th class="num" { "Weight" }
                    th class="num" { "Slices" } th { "" }
                } }
                tbody {
                    @for shard in told.shards.iter().take(SHOWN) {
                        tr class=[(told.shard_id.as_ref() == Some(&shard.shard_id)).then_some("chosen")] {
                            td { (names::shard(&shard.shard_id)) }
                            td class="num" { (format!("{:.4}", shard.score)) }
                            td class="num" { (shard.weight) }
                            td class="num" { (number(shard.slices)) }
                            td { (remarks(told, shard)) }
                        }
                    }
                }
            }
        }
        @if told.shards.len() > SHOWN {
            p class="small muted" { "and " (number((told.shards.len() - SHOWN) as u64)) " more with lower scores" }
        }
        h3 { "What would move it" }
        @if told.would_move.is_empty() {
            (nothing("Nothing small would.", &html! { "No single change of one shard moves it." }))
        } @else {
            ul {
                @for change in &told.would_move {
                    li { (change.sentence) " " code class="small" { (change.command) } }
                }
            }
        }
    }
}

fn sentence(told: &Explanation) -> Markup {
    html! {
        strong { (told.because) }
        @if let (Some(margin), Some(runner_up)) = (told.margin, &told.runner_up_shard_id) {
            ": its score is " (format!("{margin:.4}")) " higher than that of " (runner_up)
        }
        "."
    }
}

fn remarks(told: &Explanation, shard: &ShardExplained) -> Markup {
    html! {
        @if told.shard_id.as_ref() == Some(&shard.shard_id) { (badge("good", "here")) " " }
        @if told.preferred_shard_id.as_ref() == Some(&shard.shard_id) && told.shard_id != told.preferred_shard_id {
            (badge("info", "belongs here")) " "
        }
        @if shard.pinned.is_some() { (badge("info", "pinned")) " " }
        @if shard.passed_over { (badge("warn", "passed over")) " " }
        @if shard.secondary { (badge("calm", "secondary region")) " " }
        @for veto in &shard.vetoes { span class="small muted" { (veto.message) " " } }
    }
}

/// Pins it, or takes the pin away.
pub(super) fn pin_form(console: &Console, visitor: &Visitor, tenant: &Versioned<Tenant>) -> Markup {
    let id = &tenant.value.tenant_id;
    let snapshot = console.plane.fleet().snapshot();
    if tenant.value.pin.is_some() {
        let verb = Verb {
            label: "Unpin",
            action: &format!("/console/tenants/{id}/unpin"),
            tells: "Its place is decided by the score again. It moves later, by a move.",
            grave: false,
            version: Some(tenant.version),
        };
        return verb.show(visitor, &html! {});
    }
    let verb = Verb {
        label: "Pin",
        action: &format!("/console/tenants/{id}/pin"),
        tells: "It belongs on this shard whatever the score says. It moves there later, by a move.",
        grave: false,
        version: Some(tenant.version),
    };
    verb.show(
        visitor,
        &html! {
            label for="pin-shard" { "Shard" }
            select id="pin-shard" name="shard" {
                @for shard in snapshot.shards() {
                    option value=(shard.value.shard_id) { (shard.value.shard_id) }
                }
            }
        },
    )
}

/// Pins a tenant.
pub(super) async fn pin(Deed { console, id, act }: Deed<TenantId>) -> Result<Response, Broken> {
    let shard: ShardId = act.fields.required("shard")?;
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    placements::pin(&console.plane, &intent, &id, &if_match, &shard).await?;
    let to = format!("/console/tenants/{id}");
    Ok(done(&console, &to, format!("{id} is pinned to {shard}.")))
}

/// Takes a pin away.
pub(super) async fn unpin(Deed { console, id, act }: Deed<TenantId>) -> Result<Response, Broken> {
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    placements::unpin(&console.plane, &intent, &id, &if_match).await?;
    let to = format!("/console/tenants/{id}");
    Ok(done(&console, &to, format!("{id} is pinned no more.")))
}
