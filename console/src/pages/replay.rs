//! Replay: the fleet's recorded load at any moment, the events around it, and exports
//! of both.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_control_plane::events;
use ballast_control_plane::load::current::{
    self, LoadBody, LoadFilter, ShardLoadBody, TenantLoadBody,
};
use ballast_control_plane::load::history::{self, TimeRange};
use ballast_domain::registry::EventQuery;
use ballast_domain::{Result, Timestamp};
use maud::{Markup, html};

use super::{links, load};
use crate::census::{Heat, ShardFigures, TenantFigure};
use crate::console::Console;
use crate::draw::blocks::{Size, blocks};
use crate::fields::Fields;
use crate::page::error::ErrorPage;
use crate::page::format::{badge, nothing, whole};
use crate::page::layout::Page;
use crate::session::Visitor;

/// Events shown.
const EVENTS: u32 = 40;
/// Tenants drawn.
const TENANTS: usize = 400;
/// Steps of the slider.
const SLIDER_STEPS: i64 = 200;

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let stretch = load::time_range(&console, &params)?;
    let place: i64 = params
        .optional("place")?
        .unwrap_or(SLIDER_STEPS)
        .clamp(0, SLIDER_STEPS);
    let (from, to) = (stretch.from.unix_ms(), stretch.to.unix_ms());
    let at = Timestamp::from_unix_ms(from + (to - from) / SLIDER_STEPS * place);
    let filter = |tenants| LoadFilter {
        shard: None,
        tenant: None,
        tenants_max: Some(tenants),
    };
    let past = history::show(&console.plane, stretch, None, filter(1)).await?;
    let then = current::show(&console.plane, &filter(TENANTS), Some(at)).await?;
    let main = html! {
        p class="crumb" { a href="/console/load" { "Load" } }
        div class="head" { h1 { "Replay" } span class="mono" { (at) } }
        (controls(&params, stretch, place))
        section class="card" aria-label="Heat over time" { (load::heat_map(&past)) }
        br;
        (fleet(&then))
        section class="card tight" aria-labelledby="events" {
            h2 id="events" { "Changes up to this moment" }
            (changes(&console, stretch.from, at).await?)
        }
    };
    Ok(Page::new(&console, &visitor, "Replay").show(&main))
}

fn controls(params: &Fields, stretch: TimeRange, place: i64) -> Markup {
    let span = format!("from={}&to={}", stretch.from, stretch.to);
    let events = format!("since={}&until={}", stretch.from, stretch.to);
    html! {
        form class="filter" method="get" action="/console/replay" data-scrub="" {
            div { label for="from" { "From" } input id="from" name="from" value=(stretch.from); }
            div { label for="to" { "To" } input id="to" name="to" value=(stretch.to); }
            div class="search" {
                label for="place" { "Moment" }
                input id="place" name="place" type="range" min="0" max=(SLIDER_STEPS) value=(place);
            }
            @if let Some(minutes) = params.filled("minutes") { input type="hidden" name="minutes" value=(minutes); }
            button type="submit" { "Show" }
            a class="button" href=(format!("/console/replay/load.ndjson?{span}")) { "Load as NDJSON" }
            a class="button" href=(format!("/console/events.ndjson?{events}")) { "Events as NDJSON" }
        }
    }
}

fn fleet(then: &LoadBody) -> Markup {
    if then.shards.is_empty() {
        return nothing(
            "No load is recorded for this moment.",
            &html! { "Choose another moment." },
        );
    }
    html! {
        div class="columns" {
            @for shard in &then.shards {
                @let figures = figures(then, shard);
                article class="card column" aria-label=(shard.shard_id) {
                    header {
                        (links::shard(&shard.shard_id))
                        (badge(if shard.rates.heat >= 0.8 { "bad" } else { "calm" }, &format!("{:.0} %", shard.rates.heat * 100.0)))
                    }
                    div class="sub" { span class="rate" { (format!("{:.0}", shard.rates.votes_per_second)) " " small { "votes/s" } } span { (shard.region) } }
                    (blocks(shard.shard_id.as_str(), &figures, Size::Column))
                }
            }
        }
        br;
    }
}

/// A shard's figures at that moment: its tenants sized and coloured by their rates.
fn figures(then: &LoadBody, shard: &ShardLoadBody) -> ShardFigures {
    let on = |tenant: &TenantLoadBody| {
        let here = tenant
            .slices
            .iter()
            .filter(|slice| slice.shard_id == shard.shard_id);
        let rate: f64 = here.map(|slice| slice.rates.votes_per_second).sum();
        let rate = whole(rate);
        (rate > 0).then(|| TenantFigure {
            tenant: tenant.tenant_id.clone(),
            votes: rate,
            rate,
        })
    };
    let tenants: Vec<TenantFigure> = then.tenants.iter().filter_map(on).collect();
    let rate = tenants.iter().map(|tenant| tenant.rate).sum();
    ShardFigures {
        votes: rate,
        rate,
        tenants,
        heat: Some(Heat {
            percent: whole(shard.rates.heat * 100.0),
            fullest: None,
            votes_max: whole(shard.capacity.votes_per_second),
        }),
        ..ShardFigures::default()
    }
}

async fn changes(console: &Console, from: Timestamp, at: Timestamp) -> Result<Markup> {
    let query = EventQuery {
        kind: None,
        hidden: None,
        id: None,
        before: None,
        since: Some(from),
        until: Some(at),
        limit: EVENTS,
    };
    let found = events::list(&console.plane, &query).await?;
    Ok(html! {
        @if found.is_empty() { (nothing("No changes.", &html! {})) }
        @else {
            div class="scroll" role="region" aria-label="Events" tabindex="0" {
                table {
                    thead { tr { th { "Time" } th { "Actor" } th { "Action" } th { "Record" } th { "Reason" } } }
                    tbody {
                        @for event in &found {
                            tr {
                                td class="mono small nowrap" { (event.at) }
                                td { (event.actor) }
                                td { code { (event.action) } }
                                td { (event.kind) " " (event.id) }
                                td { (event.reason.as_deref().unwrap_or("")) }
                            }
                        }
                    }
                }
            }
        }
    })
}

/// The recorded load as NDJSON, for the simulator.
pub(super) async fn record(
    State(console): State<Console>,
    _: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let stretch = load::time_range(&console, &params)?;
    let text = history::record(&console.plane, stretch, None).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"load.ndjson\"",
        ),
    ];
    Ok((headers, text).into_response())
}
