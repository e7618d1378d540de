//! A tenant's keys: made, rotated, revoked. A secret is shown once, on the
//! tenant's page that follows the form.

use axum::response::Response;
use ballast_control_plane::keys::{self, KeyBody, NewKey, NewKeyBody, Rotation};
use ballast_domain::key::{KeyMode, KeyStatus, Scope};
use ballast_domain::{KeyId, Result, TenantId};
use maud::{Markup, html};

use super::deed::Deed;
use super::tenant::Seen;
use crate::console::Console;
use crate::page::error::Broken;
use crate::page::flash::{done, shown_once};
use crate::page::form::{self, Verb};
use crate::page::words::{badge, moment, nothing};
use crate::session::Visitor;

/// The keys, and what can be done with them.
pub(super) fn part(console: &Console, visitor: &Visitor, seen: &Seen, may: bool) -> Markup {
    let tenant = &seen.tenant.value.tenant_id;
    html! {
        div class="head" {
            h2 id="keys" { "API keys" }
        }
        @if seen.keys.is_empty() {
            (nothing("It has no keys.", &html! { "Without a key it can neither vote nor read." }))
        } @else {
            div class="scroll" role="region" aria-label="API keys" tabindex="0" {
                table class="folds" {
                    thead { tr {
                        th { "Key" } th { "Name" } th { "May" } th { "Status" } th { "Last used" }
                        @if may { th { span class="sr" { "Acts" } } }
                    } }
                    tbody {
                        @for key in &seen.keys { (row(console, visitor, tenant, key, may)) }
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
                    " " span class="small muted" { "ends " (moment(ends, now)) }
                }
            }
            td class="nowrap" { @match body.last_used_at { Some(at) => { (moment(at, now)) } None => { "never" } } }
            @if may {
                td {
                    @if body.status == KeyStatus::Active {
                        div class="verbs" {
                            (Verb { label: "Rotate", action: &action("rotate"), version, grave: false,
                                tells: "A successor is made and shown once. This key works beside it for the overlap." }
                                .show(visitor, &html! {
                                    label for=(format!("overlap-{}", key.key_id)) { "Overlap in seconds; as configured when empty" }
                                    input id=(format!("overlap-{}", key.key_id)) name="overlap" inputmode="numeric" pattern="[0-9]*";
                                }))
                            (Verb { label: "Revoke", action: &action("revoke"), version, grave: true,
                                tells: "The key stops working within a second, everywhere. This cannot be undone." }
                                .show(visitor, &html! {}))
                        }
                    }
                }
            }
        }
    }
}

fn scopes(scopes: &[Scope]) -> String {
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
                label class="tick" { input type="checkbox" name="test"; "For trying things out" }
                label for="key-days" { "Days until it expires; never when empty" }
                input id="key-days" name="days" inputmode="numeric" pattern="[0-9]*";
                (form::reason("key"))
                button type="submit" class="primary" { "Create" }
            }
        }
    }
}

/// Creates a key and shows it.
pub(super) async fn create(deed: Deed<TenantId>) -> Result<Response, Broken> {
    let Deed {
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
    Ok(shown(&console, &tenant, &made))
}

/// Makes a key's successor and shows it.
pub(super) async fn rotate(deed: Deed<(TenantId, KeyId)>) -> Result<Response, Broken> {
    let Deed {
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
    Ok(shown(&console, &tenant, &made))
}

/// Ends a key.
pub(super) async fn revoke(deed: Deed<(TenantId, KeyId)>) -> Result<Response, Broken> {
    let Deed {
        console,
        id: (tenant, key),
        act,
    } = deed;
    let (intent, if_match) = (act.intent()?, act.if_match()?);
    keys::revoke(&console.plane, &intent, &key, &if_match).await?;
    let to = format!("/console/tenants/{tenant}");
    Ok(done(&console, &to, format!("Key {key} is revoked.")))
}

/// Leads back to the tenant, where the secret is shown once.
fn shown(console: &Console, tenant: &TenantId, made: &NewKeyBody) -> Response {
    let mut said = "It is stored nowhere. Keep it now.".to_owned();
    if let Some(ends) = made.overlap_ends_at {
        said.push_str(&format!(" The old key stops working at {ends}."));
    }
    let to = format!("/console/tenants/{tenant}");
    shown_once(console, &to, said, made.key.to_string())
}
