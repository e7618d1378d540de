//! Splitting a tenant into more slices or merging them: a preview, then the action.

use axum::response::Response;
use ballast_control_plane::slicing::requests::{self, SlicingPlan, SlicingRequest};
use ballast_domain::tenant::Tenant;
use ballast_domain::{Error, Result, TenantId};
use maud::{Markup, html};

use super::links;
use super::operator_form::{OperatorForm, OperatorPreview};
use crate::fields::Fields;
use crate::page::error::ErrorPage;
use crate::page::flash::redirect_with_message;
use crate::page::form::{hidden, reason};
use crate::page::format::{counted, nothing};
use crate::page::layout::Page;

/// The form for the number of slices. It leads to a preview.
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
                p { "This tenant has " (counted(slices as u64, "slice"))
                    ". Its polls are spread over its slices; each slice can be on a different shard." }
                label for="slices-into" { "Number of slices" }
                select id="slices-into" name="into" {
                    @for into in choices { option value=(into) { (into) } }
                }
                label class="tick" { input type="checkbox" name="stay"; "Keep the new slices on the same shard" }
                button type="submit" class="primary" { "Preview" }
            }
        }
    }
}

fn parse_target(tenant: &Tenant, fields: &Fields) -> Result<SlicingRequest> {
    let into: u32 = fields.required("into")?;
    let now = u32::try_from(tenant.slices.len()).unwrap_or(u32::MAX);
    Ok(match into > now {
        true => SlicingRequest::Split {
            into,
            spread: !fields.ticked("stay"),
        },
        false => SlicingRequest::Merge { into },
    })
}

/// The preview.
pub(super) async fn plan(draft: OperatorPreview<TenantId>) -> Result<Response, ErrorPage> {
    let OperatorPreview {
        console,
        visitor,
        id,
        fields,
    } = draft;
    let tenant = ballast_control_plane::tenants::get(&console.plane, &id).await?;
    let plan = requests::plan(&console.plane, &id, parse_target(&tenant.value, &fields)?).await?;
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
            span class="muted" { (plan.slices) " → " (counted(plan.into.into(), "slice")) }
        }
        section class="card" aria-labelledby="does" {
            h2 id="does" { "Steps" }
            (steps(&plan))
            br;
            form method="post" action=(format!("/console/tenants/{id}/slices")) {
                (hidden(&visitor))
                input type="hidden" name="into" value=(plan.into);
                @if fields.ticked("stay") { input type="hidden" name="stay" value="on"; }
                (reason("slices"))
                div class="row" {
                    button type="submit" class="primary" { (verb) }
                    a class="button" href=(format!("/console/tenants/{id}")) { "Cancel" }
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
            (nothing("Nothing to do.", &html! { "The tenant already has that many slices." }))
        }
        ol {
            @for cut in &plan.cuts {
                li { "on " (links::shard(&cut.shard_id)) ", in place: " (list(&cut.parents)) " → " (list(&cut.children)) }
            }
            @for moved in &plan.moves {
                li { "then slice " (moved.slice) " moves " (links::route(&moved.from, &moved.to)) }
            }
        }
    }
}

/// Starts the split or merge.
pub(super) async fn begin(
    OperatorForm { console, id, act }: OperatorForm<TenantId>,
) -> Result<Response, ErrorPage> {
    let plane = &console.plane;
    let tenant = ballast_control_plane::tenants::get(plane, &id).await?;
    let wanted = parse_target(&tenant.value, &act.fields)?;
    if matches!(wanted, SlicingRequest::Merge { into: 0 }) {
        return Err(Error::invalid_field("/into", "must be at least 1").into());
    }
    requests::begin(plane, &act.intent()?, &id, wanted).await?;
    let to = format!("/console/tenants/{id}");
    Ok(redirect_with_message(
        &console,
        &to,
        format!("{id} is being split or merged."),
    ))
}
