//! A tenant is cut into more slices, or joined into fewer: first what that
//! would do, then the button.

use axum::response::Response;
use ballast_control_plane::slicing::ask::{self, SlicingPlan, Wanted};
use ballast_domain::tenant::Tenant;
use ballast_domain::{Error, Result, TenantId};
use maud::{Markup, html};

use super::deed::{Deed, Draft};
use super::names;
use crate::fields::Fields;
use crate::page::error::Broken;
use crate::page::flash::done;
use crate::page::form::{hidden, reason};
use crate::page::layout::Page;
use crate::page::words::nothing;

/// Into how many. It only shows a plan.
pub(super) fn form(tenant: &Tenant) -> Markup {
    let slices = tenant.slices.len();
    let choices: Vec<usize> = (0..7)
        .map(|power| 1 << power)
        .filter(|into| *into != slices)
        .collect();
    html! {
        details class="verb" {
            summary class="button" { @if slices == 1 { "Split…" } @else { "Split or merge…" } }
            form method="get" action=(format!("/console/tenants/{}/slices", tenant.tenant_id)) {
                p { "It has " (slices) @if slices == 1 { " slice" } @else { " slices" }
                    ". Its polls are spread over them; each can be on another shard." }
                label for="slices-into" { "Slices in all" }
                select id="slices-into" name="into" {
                    @for into in choices { option value=(into) { (into) } }
                }
                label class="tick" { input type="checkbox" name="stay"; "Leave new slices where they are cut" }
                button type="submit" class="primary" { "Show what that would do" }
            }
        }
    }
}

fn wanted(tenant: &Tenant, fields: &Fields) -> Result<Wanted> {
    let into: u32 = fields.required("into")?;
    let now = u32::try_from(tenant.slices.len()).unwrap_or(u32::MAX);
    Ok(match into > now {
        true => Wanted::Split {
            into,
            spread: !fields.ticked("stay"),
        },
        false => Wanted::Merge { into },
    })
}

/// What it would do.
pub(super) async fn plan(draft: Draft<TenantId>) -> Result<Response, Broken> {
    let Draft {
        console,
        visitor,
        id,
        fields,
    } = draft;
    let tenant = ballast_control_plane::tenants::get(&console.plane, &id).await?;
    let plan = ask::plan(&console.plane, &id, wanted(&tenant.value, &fields)?).await?;
    let verb = if plan.into > plan.slices {
        "Split"
    } else {
        "Merge"
    };
    let title = format!("{verb} {id}");
    let main = html! {
        p class="crumb" { a href=(format!("/console/tenants/{id}")) { (id) } }
        div class="head" {
            h1 { (title) }
            span class="muted" { (plan.slices) " → " (plan.into) " slices" }
        }
        section class="card" aria-labelledby="does" {
            h2 id="does" { "What it would do" }
            (steps(&plan))
            br;
            form method="post" action=(format!("/console/tenants/{id}/slices")) {
                (hidden(&visitor))
                input type="hidden" name="into" value=(plan.into);
                @if fields.ticked("stay") { input type="hidden" name="stay" value="on"; }
                (reason("slices"))
                div class="row" {
                    button type="submit" class="primary" { (verb) }
                    a class="button" href=(format!("/console/tenants/{id}")) { "Do not" }
                }
            }
        }
    };
    Ok(Page::new(&console, &visitor, &title).show(&main))
}

fn steps(plan: &SlicingPlan) -> Markup {
    let list = |numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        numbers.join(", ")
    };
    html! {
        @if plan.cuts.is_empty() && plan.moves.is_empty() {
            (nothing("Nothing.", &html! { "It has that many slices." }))
        }
        ol {
            @for cut in &plan.cuts {
                li { "on " (names::shard(&cut.shard_id)) ", in place: " (list(&cut.parents)) " → " (list(&cut.children)) }
            }
            @for moved in &plan.moves {
                li { "then slice " (moved.slice) " moves " (names::way(&moved.from, &moved.to)) }
            }
        }
    }
}

/// Has it done.
pub(super) async fn begin(Deed { console, id, act }: Deed<TenantId>) -> Result<Response, Broken> {
    let plane = &console.plane;
    let tenant = ballast_control_plane::tenants::get(plane, &id).await?;
    let wanted = wanted(&tenant.value, &act.fields)?;
    if matches!(wanted, Wanted::Merge { into: 0 }) {
        return Err(Error::invalid_field("/into", "it must be at least 1").into());
    }
    ask::begin(plane, &act.intent()?, &id, wanted).await?;
    let to = format!("/console/tenants/{id}");
    Ok(done(&console, &to, format!("{id} is being cut.")))
}
