//! A tenant's limits.

use axum::response::Response;
use ballast_control_plane::registry::typed::Versioned;
use ballast_control_plane::tenants::{self, LimitsPatch, TenantPatch};
use ballast_domain::tenant::Tenant;
use ballast_domain::{Result, TenantId};
use maud::{Markup, html};

use super::operator_form::OperatorForm;
use crate::page::error::ErrorPage;
use crate::page::flash::redirect_with_message;
use crate::page::form;
use crate::page::format::number;
use crate::session::Visitor;

/// The limits, and the form that changes them.
pub(super) fn part(visitor: &Visitor, tenant: &Versioned<Tenant>, may: bool) -> Markup {
    let limits = &tenant.value.limits;
    let all = [
        ("votes", "Votes per second", limits.votes_per_second),
        ("queries", "Concurrent queries", limits.concurrent_queries),
        (
            "days",
            "Retention of closed polls (days)",
            limits.retention_days,
        ),
    ];
    html! {
        h2 id="limits" { "Limits" }
        @if may {
            form method="post" action=(format!("/console/tenants/{}/limits", tenant.value.tenant_id)) {
                (form::hidden(visitor))
                (form::version(tenant.version))
                div class="fields" {
                    @for (name, label, value) in all {
                        div {
                            label for=(format!("limit-{name}")) { (label) }
                            input id=(format!("limit-{name}")) name=(name) inputmode="numeric" pattern="[0-9]*"
                                value=[value] placeholder="no limit";
                        }
                    }
                    div class="wide" { (form::reason("limits")) }
                }
                div class="row" { button type="submit" { "Set limits" } }
            }
        } @else {
            dl class="kv" {
                @for (_, label, value) in all {
                    dt { (label) }
                    dd { @match value { Some(most) => { (number(most)) } None => { "no limit" } } }
                }
            }
        }
    }
}

/// Sets the limits.
pub(super) async fn set(
    OperatorForm { console, id, act }: OperatorForm<TenantId>,
) -> Result<Response, ErrorPage> {
    let limits = LimitsPatch {
        votes_per_second: Some(act.fields.optional("votes")?),
        concurrent_queries: Some(act.fields.optional("queries")?),
        retention_days: Some(act.fields.optional("days")?),
    };
    let patch = TenantPatch {
        limits: Some(limits),
        ..TenantPatch::default()
    };
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    tenants::update(&console.plane, &intent, &id, &if_match, &patch).await?;
    let to = format!("/console/tenants/{id}");
    Ok(redirect_with_message(&console, &to, "The limits are set."))
}
