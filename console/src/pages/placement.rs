//! Why placement chose a tenant's shard, and pins.

use axum::response::Response;
use ballast_control_plane::placements;
use ballast_control_plane::registry::typed::Versioned;
use ballast_domain::placement::{Explanation, ShardExplanation};
use ballast_domain::tenant::Tenant;
use ballast_domain::{Result, ShardId, TenantId};
use maud::{Markup, html};

use super::links;
use super::operator_form::OperatorForm;
use crate::console::Console;
use crate::page::error::ErrorPage;
use crate::page::flash::redirect_with_message;
use crate::page::form::ActionForm;
use crate::page::format::{badge, counted, nothing, number};
use crate::session::Visitor;

/// Shards of an explanation shown; eligible ones come first.
const SHOWN: usize = 12;

/// Why the tenant is on its shard: scores, vetoes, and what would move it.
pub(super) fn why(explanation: &Explanation) -> Markup {
    html! {
        p { (sentence(explanation)) }
        @if explanation.shard_id != explanation.preferred_shard_id {
            p class="note warn" {
                "Placement prefers "
                @match &explanation.preferred_shard_id {
                    Some(id) => { (id) }
                    None => { "no available shard" }
                }
                ": the tenant is due to move."
            }
        }
        div class="scroll" role="region" aria-label="Scores" tabindex="0" {
            table {
                thead { tr {
                    th { "Shard" } th class="num" { "Score" } th class="num" { "Weight" }
                    th class="num" { "Slices" } th { "" }
                } }
                tbody {
                    @for shard in explanation.shards.iter().take(SHOWN) {
                        tr class=[(explanation.shard_id.as_ref() == Some(&shard.shard_id)).then_some("chosen")] {
                            td { (links::shard(&shard.shard_id)) }
                            td class="num" { (format!("{:.4}", shard.score)) }
                            td class="num" { (shard.weight) }
                            td class="num" { (number(shard.slices)) }
                            td { (remarks(explanation, shard)) }
                        }
                    }
                }
            }
        }
        @if explanation.shards.len() > SHOWN {
            p class="small muted" { "and " (counted((explanation.shards.len() - SHOWN) as u64, "more shard")) }
        }
        h3 { "What would move it" }
        @if explanation.would_move.is_empty() {
            (nothing("No small change would.", &html! { "No single change to one shard moves this tenant." }))
        } @else {
            ul {
                @for change in &explanation.would_move {
                    li { (change.sentence) " " code class="small" { (change.command) } }
                }
            }
        }
    }
}

fn sentence(explanation: &Explanation) -> Markup {
    html! {
        strong { (explanation.because) }
        @if let (Some(margin), Some(runner_up)) = (explanation.margin, &explanation.runner_up_shard_id) {
            ": its score is " (format!("{margin:.4}")) " higher than that of " (runner_up)
        }
        "."
    }
}

fn remarks(explanation: &Explanation, shard: &ShardExplanation) -> Markup {
    html! {
        @if explanation.shard_id.as_ref() == Some(&shard.shard_id) { (badge("good", "here")) " " }
        @if explanation.preferred_shard_id.as_ref() == Some(&shard.shard_id) && explanation.shard_id != explanation.preferred_shard_id {
            (badge("info", "preferred")) " "
        }
        @if shard.pinned.is_some() { (badge("info", "pinned")) " " }
        @if shard.passed_over { (badge("warn", "passed over")) " " }
        @if shard.secondary { (badge("calm", "secondary region")) " " }
        @for veto in &shard.vetoes { span class="small muted" { (veto.message) " " } }
    }
}

/// The form that pins or unpins the tenant.
pub(super) fn pin_form(console: &Console, visitor: &Visitor, tenant: &Versioned<Tenant>) -> Markup {
    let id = &tenant.value.tenant_id;
    let snapshot = console.plane.fleet().snapshot();
    if tenant.value.pin.is_some() {
        let verb = ActionForm {
            label: "Unpin",
            action: &format!("/console/tenants/{id}/unpin"),
            description: "Placement decides by score again. The tenant itself moves only by a migration.",
            grave: false,
            version: Some(tenant.version),
        };
        return verb.show(visitor, &html! {});
    }
    let verb = ActionForm {
        label: "Pin",
        action: &format!("/console/tenants/{id}/pin"),
        description: "The tenant belongs on this shard, regardless of scores. It moves there only by a migration.",
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
pub(super) async fn pin(
    OperatorForm { console, id, act }: OperatorForm<TenantId>,
) -> Result<Response, ErrorPage> {
    let shard: ShardId = act.fields.required("shard")?;
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    placements::pin(&console.plane, &intent, &id, &if_match, &shard).await?;
    let to = format!("/console/tenants/{id}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("{id} is pinned to {shard}."),
    ))
}

/// Removes a pin.
pub(super) async fn unpin(
    OperatorForm { console, id, act }: OperatorForm<TenantId>,
) -> Result<Response, ErrorPage> {
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    placements::unpin(&console.plane, &intent, &id, &if_match).await?;
    let to = format!("/console/tenants/{id}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("{id} is no longer pinned."),
    ))
}
