//! Suspending, resuming and closing a tenant.

use axum::response::Response;
use ballast_control_plane::registry::typed::Versioned;
use ballast_control_plane::tenants;
use ballast_domain::tenant::{Tenant, TenantStatus};
use ballast_domain::{Result, TenantId};
use maud::{Markup, html};

use super::operator_form::OperatorForm;
use crate::page::error::ErrorPage;
use crate::page::flash::redirect_with_message;
use crate::page::form::ActionForm;
use crate::session::Visitor;

/// The forms that change a tenant's status.
pub(super) fn forms(visitor: &Visitor, tenant: &Versioned<Tenant>) -> Markup {
    let id = &tenant.value.tenant_id;
    let action = |verb: &str| format!("/console/tenants/{id}/{verb}");
    let version = Some(tenant.version);
    html! {
        @if tenant.value.status == TenantStatus::Active {
            (ActionForm { label: "Suspend", action: &action("suspend"), version, grave: true,
                description: "Its API keys are rejected until it is resumed. Its data stays." }.show(visitor, &html! {}))
        } @else {
            (ActionForm { label: "Resume", action: &action("resume"), version, grave: false,
                description: "Its API keys work again." }.show(visitor, &html! {}))
        }
        (ActionForm { label: "Close", action: &action("close"), version, grave: true,
            description: "Its API keys are rejected permanently, and its ID is never reused. This cannot be undone." }
            .show(visitor, &html! {}))
    }
}

async fn set_status(
    deed: OperatorForm<TenantId>,
    status: TenantStatus,
) -> Result<Response, ErrorPage> {
    let OperatorForm { console, id, act } = deed;
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    tenants::set_status(&console.plane, &intent, &id, &if_match, status).await?;
    let to = format!("/console/tenants/{id}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("{id} is now {}.", status.name()),
    ))
}

/// Suspends a tenant.
pub(super) async fn suspend(deed: OperatorForm<TenantId>) -> Result<Response, ErrorPage> {
    set_status(deed, TenantStatus::Suspended).await
}

/// Resumes a tenant.
pub(super) async fn resume(deed: OperatorForm<TenantId>) -> Result<Response, ErrorPage> {
    set_status(deed, TenantStatus::Active).await
}

/// Closes a tenant permanently.
pub(super) async fn close(deed: OperatorForm<TenantId>) -> Result<Response, ErrorPage> {
    set_status(deed, TenantStatus::Closed).await
}
