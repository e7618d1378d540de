//! A tenant's API keys: created, rotated, revoked. A secret is shown once, on the
//! tenant's page after the form.

use axum::response::Response;
use ballast_control_plane::keys::{self, KeyBody, NewKey, NewKeyBody, Rotation};
use ballast_domain::key::{KeyMode, KeyScope, KeyStatus};
use ballast_domain::{KeyId, Result, TenantId};
use maud::{Markup, html};

use super::operator_form::OperatorForm;
use super::tenant::TenantPage;
use crate::console::Console;
use crate::page::error::ErrorPage;
use crate::page::flash::{redirect_with_message, redirect_with_secret};
use crate::page::form::{self, ActionForm};
use crate::page::format::{badge, moment, nothing};
use crate::session::Visitor;

/// The keys and their actions.
pub(super) fn part(console: &Console, visitor: &Visitor, data: &TenantPage, may: bool) -> Markup {
    let tenant = &data.tenant.value.tenant_id;
    html! {
        div class="head" {
            h2 id="keys" { "API keys" }
        }
        @if data.keys.is_empty() {
            (nothing("No API keys.", &html! { "Without a key the tenant can neither vote nor read." }))
        } @else {
            div class="scroll" role="region" aria-label="API keys" tabindex="0" {
                table class="folds" {
                    thead { tr {
                        th { "Key" } th { "Name" } th { "Scopes" } th { "Status" } th { "Last used" }
                        @if may { th { span class="sr" { "Actions" } } }
                    } }
                    tbody {
                        @for key in &data.keys { (row(console, visitor, tenant, key, may)) }
                    }
                }
            }
        }
        @if may { div class="pager" { (new(visitor, tenant)) } }
    }
}

fn row(
    console: &Console,
    visitor: &Visitor,
    tenant: &TenantId,
    body: &KeyBody,
    may: bool,
) -> Markup {
    let key = &body.key.value;
    let now = console.plane.now();
    let action = |verb: &str| format!("/console/tenants/{tenant}/keys/{}/{verb}", key.key_id);
    let version = Some(body.key.version);
    html! {
        tr {
            td { code { (key.hint) } @if key.mode == KeyMode::Test { " " (badge("calm", "test")) } }
            td { bdi { (key.name.as_deref().unwrap_or("—")) } }
            td class="small" { (scopes(&key.scopes)) }
            td {
                (status(body.status))
                @if let Some(ends) = key.expires_at.filter(|_| body.status == KeyStatus::Active) {
                    " " span class="small muted" { "expires " (moment(ends, now)) }
                }
            }
            td class="nowrap" { @match body.last_used_at { Some(at) => { (moment(at, now)) } None => { "never" } } }
            @if may {
                td {
                    @if body.status == KeyStatus::Active {
                        div class="verbs" {
                            (ActionForm { label: "Rotate", action: &action("rotate"), version, grave: false,
                                description: "Creates a successor, which is shown once. This key keeps working during the overlap." }
                                .show(visitor, &html! {
                                    label for=(format!("overlap-{}", key.key_id)) { "Overlap in seconds (default: as configured)" }
                                    input id=(format!("overlap-{}", key.key_id)) name="overlap" inputmode="numeric" pattern="[0-9]*";
                                }))
                            (ActionForm { label: "Revoke", action: &action("revoke"), version, grave: true,
                                description: "The key stops working everywhere within a second. This cannot be undone." }
                                .show(visitor, &html! {}))
                        }
                    }
                }
            }
        }
    }
}

fn scopes(scopes: &[KeyScope]) -> String {
    let names: Vec<String> = scopes
        .iter()
        .filter_map(|scope| serde_json::to_value(scope).ok())
        .filter_map(|value| value.as_str().map(str::to_owned))
        .collect();
    names.join(", ")
}

fn status(status: KeyStatus) -> Markup {
    match status {
        KeyStatus::Active => badge("good", "active"),
        KeyStatus::Expired => badge("calm", "expired"),
        KeyStatus::Revoked => badge("bad", "revoked"),
    }
}

fn new(visitor: &Visitor, tenant: &TenantId) -> Markup {
    html! {
        details class="verb" {
            summary class="button" { "Create a key…" }
            form method="post" action=(format!("/console/tenants/{tenant}/keys")) {
                (form::hidden(visitor))
                label for="key-name" { "Name" }
                input id="key-name" name="name" maxlength="200";
                label class="tick" { input type="checkbox" name="test"; "Test key" }
                label for="key-days" { "Expires after (days); empty for never" }
                input id="key-days" name="days" inputmode="numeric" pattern="[0-9]*";
                (form::reason("key"))
                button type="submit" class="primary" { "Create" }
            }
        }
    }
}

/// Creates a key and shows it.
pub(super) async fn create(deed: OperatorForm<TenantId>) -> Result<Response, ErrorPage> {
    let OperatorForm {
        console,
        id: tenant,
        act,
    } = deed;
    let days: Option<i64> = act.fields.optional("days")?;
    let new = NewKey {
        name: act.fields.filled("name").map(str::to_owned),
        test: act.fields.ticked("test"),
        expires_in_seconds: days.map(|days| days.saturating_mul(86_400)),
        ..NewKey::default()
    };
    let made = keys::create(&console.plane, &act.intent()?, &tenant, &new).await?;
    Ok(redirect_to_new_key(&console, &tenant, &made))
}

/// Creates a key's successor and shows it.
pub(super) async fn rotate(deed: OperatorForm<(TenantId, KeyId)>) -> Result<Response, ErrorPage> {
    let OperatorForm {
        console,
        id: (tenant, key),
        act,
    } = deed;
    let rotation = Rotation {
        overlap_seconds: act.fields.optional("overlap")?,
        ..Rotation::default()
    };
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    let made = keys::rotate(&console.plane, &intent, &key, &if_match, &rotation).await?;
    Ok(redirect_to_new_key(&console, &tenant, &made))
}

/// Revokes a key.
pub(super) async fn revoke(deed: OperatorForm<(TenantId, KeyId)>) -> Result<Response, ErrorPage> {
    let OperatorForm {
        console,
        id: (tenant, key),
        act,
    } = deed;
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    keys::revoke(&console.plane, &intent, &key, &if_match).await?;
    let to = format!("/console/tenants/{tenant}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("Key {key} is revoked."),
    ))
}

/// Redirects to the tenant's page, which shows the secret once.
fn redirect_to_new_key(console: &Console, tenant: &TenantId, made: &NewKeyBody) -> Response {
    let mut message = "Copy it now: Ballast does not store it.".to_owned();
    if let Some(ends) = made.overlap_ends_at {
        message.push_str(&format!(" The old key stops working at {ends}."));
    }
    let to = format!("/console/tenants/{tenant}");
    redirect_with_secret(console, &to, message, made.key.to_string())
}
