//! Suspending, resuming and closing a tenant.

use axum::response::Response;
use ballast_control_plane::registry::typed::Versioned;
use ballast_control_plane::tenants;
use ballast_domain::tenant::{Tenant, TenantStatus};
use ballast_domain::{Result, TenantId};
use maud::{Markup, html};

use super::deed::Deed;
use crate::page::error::Broken;
use crate::page::flash::done;
use crate::page::form::Verb;
use crate::session::Visitor;

/// What can be made of a tenant's status.
pub(super) fn forms(visitor: &Visitor, tenant: &Versioned<Tenant>) -> Markup {
    let id = &tenant.value.tenant_id;
    let action = |verb: &str| format!("/console/tenants/{id}/{verb}");
    let version = Some(tenant.version);
    html! {
        @if tenant.value.status == TenantStatus::Active {
            (Verb { label: "Suspend", action: &action("suspend"), version, grave: true,
                tells: "Its keys are refused until it is resumed. Its data stays." }.show(visitor, &html! {}))
        } @else {
            (Verb { label: "Resume", action: &action("resume"), version, grave: false,
                tells: "Its keys work again." }.show(visitor, &html! {}))
        }
        (Verb { label: "Close", action: &action("close"), version, grave: true,
            tells: "Its keys are refused for ever, and its ID is never given again. This cannot be undone." }
            .show(visitor, &html! {}))
    }
}

async fn set(deed: Deed<TenantId>, status: TenantStatus) -> Result<Response, Broken> {
    let Deed { console, id, act } = deed;
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    tenants::set_status(&console.plane, &intent, &id, &if_match, status).await?;
    let to = format!("/console/tenants/{id}");
    Ok(done(
        &console,
        &to,
        format!("{id} is {} now.", status.name()),
    ))
}

/// Suspends a tenant.
pub(super) async fn suspend(deed: Deed<TenantId>) -> Result<Response, Broken> {
    set(deed, TenantStatus::Suspended).await
}

/// Resumes a tenant.
pub(super) async fn resume(deed: Deed<TenantId>) -> Result<Response, Broken> {
    set(deed, TenantStatus::Active).await
}

/// Closes a tenant for ever.
pub(super) async fn close(deed: Deed<TenantId>) -> Result<Response, Broken> {
    set(deed, TenantStatus::Closed).await
}
