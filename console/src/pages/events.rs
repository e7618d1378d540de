//! The audit log: search, view and export.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use ballast_control_plane::events::{self, EventBody};
use ballast_domain::registry::{EventQuery, RecordKind};
use ballast_domain::{Error, Result};
use futures::stream;
use maud::{Markup, html};

use crate::console::Console;
use crate::fields::Fields;
use crate::page::error::ErrorPage;
use crate::page::format::{moment, nothing};
use crate::page::layout::Page;
use crate::session::Visitor;

/// Events per page.
const PAGE: u32 = 50;
/// Events read at a time for an export.
const CHUNK: u32 = 500;
/// The most events in an export; narrow the time range for more.
const FILE_MAX: u64 = 1_000_000;

fn query(params: &Fields, limit: u32) -> Result<EventQuery> {
    let kind = match params.filled("kind") {
        None => None,
        Some(name) => {
            let known = RecordKind::ALL
                .iter()
                .copied()
                .find(|kind| kind.name() == name);
            Some(known.ok_or_else(|| Error::invalid_field("/kind", "unknown kind"))?)
        }
    };
    let id = params.filled("id").map(str::to_owned);
    if id.is_some() && kind.is_none() {
        return Err(Error::invalid_field("/id", "choose the kind of record too"));
    }
    Ok(EventQuery {
        // The fleet record changes with every shard change; it is shown only on request.
        hidden: kind.is_none().then_some(RecordKind::Fleet),
        kind,
        id,
        before: params.optional("before")?,
        since: params.optional("since")?,
        until: params.optional("until")?,
        limit,
    })
}

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    visitor: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let mut found = search_events(&console, &params).await?;
    let more = found.len() > PAGE as usize;
    found.truncate(PAGE as usize);
    let next = found
        .last()
        .filter(|_| more)
        .map(|last| last.event_id.to_string());
    let file = params.query_with("before", None);
    let main = html! {
        div class="head" {
            h1 { "Events" }
            div class="grow" {}
            // An export by ID needs the kind.
            @if params.filled("id").is_none() || params.filled("kind").is_some() {
                a class="button" href=(format!("/console/events.csv?{file}")) { "CSV" }
                a class="button" href=(format!("/console/events.ndjson?{file}")) { "NDJSON" }
            }
        }
        (search_form(&params))
        section class="card tight" {
            (table(&console, &found))
            div class="pager" {
                @if params.filled("before").is_some() {
                    a class="button" href=(format!("/console/events?{file}")) { "Newest" }
                }
                @if let Some(next) = next {
                    a class="button" rel="next" href=(format!("/console/events?{}", params.query_with("before", Some(&next)))) { "Older" }
                }
            }
        }
    };
    Ok(Page::new(&console, &visitor, "Events").show(&main))
}

/// The events that match the search. An ID without a kind is searched in all kinds.
async fn search_events(console: &Console, params: &Fields) -> Result<Vec<EventBody>> {
    let limit = PAGE + 1;
    let Some(id) = params
        .filled("id")
        .filter(|_| params.filled("kind").is_none())
    else {
        return events::list(&console.plane, &query(params, limit)?).await;
    };
    let mut found = Vec::new();
    for kind in RecordKind::ALL {
        let query = EventQuery {
            kind: Some(kind),
            id: Some(id.to_owned()),
            before: params.optional("before")?,
            since: params.optional("since")?,
            until: params.optional("until")?,
            hidden: None,
            limit,
        };
        found.extend(events::list(&console.plane, &query).await?);
    }
    found.sort_by_key(|event| std::cmp::Reverse(event.event_id));
    found.truncate(limit as usize);
    Ok(found)
}

fn search_form(params: &Fields) -> Markup {
    html! {
        form class="filter" method="get" action="/console/events" role="search" {
            div {
                label for="kind" { "Kind" }
                select id="kind" name="kind" {
                    option value="" { "any" }
                    @for kind in events::kind_names() {
                        option value=(kind) selected[params.filled("kind") == Some(kind)] { (kind) }
                    }
                }
            }
            div class="search" {
                label for="id" { "ID" }
                input id="id" name="id" type="search" value=[params.filled("id")] spellcheck="false" autocapitalize="none";
            }
            div {
                label for="since" { "Since" }
                input id="since" name="since" value=[params.filled("since")] placeholder="2026-11-17T09:00:00Z";
            }
            div {
                label for="until" { "Until" }
                input id="until" name="until" value=[params.filled("until")] placeholder="2026-11-17T10:00:00Z";
            }
            button type="submit" { "Find" }
        }
    }
}

fn table(console: &Console, found: &[EventBody]) -> Markup {
    if found.is_empty() {
        return nothing(
            "No event matches.",
            &html! { a href="/console/events" { "Show all" } "." },
        );
    }
    let now = console.plane.now();
    html! {
        div class="scroll" role="region" aria-label="Events" tabindex="0" {
            table class="folds" {
                thead { tr {
                    th class="num" { "#" } th { "Time" } th { "Actor" } th { "Action" } th { "Record" }
                    th { "Reason" } th { "Change" }
                } }
                tbody {
                    @for event in found {
                        tr {
                            td class="num" { (event.event_id) }
                            td class="nowrap" { (moment(event.at, now)) }
                            td { (event.actor) @if let Some(address) = &event.actor.address { " " span class="small muted" { (address) } } }
                            td class="nowrap" { code { (event.action) } }
                            td { span class="muted" { (event.kind) } " " (subject(event)) }
                            td { (event.reason.as_deref().unwrap_or("")) }
                            td { (change(event)) }
                        }
                    }
                }
            }
        }
    }
}

/// The record that changed, with a link to its page if it has one.
fn subject(event: &EventBody) -> Markup {
    let room = match event.kind.as_str() {
        "tenant" => Some("tenants"),
        "shard" => Some("shards"),
        "migration" => Some("moves"),
        "hotspot" => Some("hotspots"),
        "plan" => Some("plans"),
        _ => None,
    };
    let page = match (room, event.kind.as_str()) {
        (Some(room), _) => Some(format!("/console/{room}/{}", event.id)),
        // A key is shown on its tenant's page.
        (None, "key") => {
            let records = [&event.after, &event.before];
            let tenant = records
                .iter()
                .find_map(|record| record["tenantID"].as_str());
            tenant.map(|tenant| format!("/console/tenants/{tenant}#keys"))
        }
        _ => None,
    };
    html! {
        @match page {
            Some(page) => { a href=(page) { (event.id) } }
            None => { (event.id) }
        }
    }
}

/// The fields that changed.
fn change(event: &EventBody) -> Markup {
    let fields = differing(event);
    html! {
        @if !fields.is_empty() {
            details class="more" {
                summary class="small" { (fields.len()) @if fields.len() == 1 { " field" } @else { " fields" } }
                dl class="kv small" {
                    @for (name, before, after) in fields {
                        dt { (name) }
                        dd { @if let Some(before) = before { del { (before) } " " } @if let Some(after) = after { ins { (after) } } }
                    }
                }
            }
        }
    }
}

/// The fields that differ, with both values truncated.
fn differing(event: &EventBody) -> Vec<(String, Option<String>, Option<String>)> {
    let short = |value: &serde_json::Value| {
        let text = value.to_string();
        match text.char_indices().nth(200) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    };
    let empty = serde_json::Map::new();
    let before = event.before.as_object().unwrap_or(&empty);
    let after = event.after.as_object().unwrap_or(&empty);
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| {
            (
                name.clone(),
                before.get(name).map(short),
                after.get(name).map(short),
            )
        })
        .collect()
}

/// The events as CSV.
pub(super) async fn csv(
    State(console): State<Console>,
    _: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let head = "eventID,at,actor,tokenID,address,action,kind,id,version,reason,before,after\r\n";
    file(
        console,
        &params,
        "text/csv; charset=utf-8",
        "events.csv",
        head,
        csv_line,
    )
}

/// The events as NDJSON.
pub(super) async fn ndjson(
    State(console): State<Console>,
    _: Visitor,
    params: Fields,
) -> Result<Response, ErrorPage> {
    let line = |event: &EventBody| {
        let mut line = serde_json::to_string(event).unwrap_or_default();
        line.push('\n');
        line
    };
    file(
        console,
        &params,
        "application/x-ndjson",
        "events.ndjson",
        "",
        line,
    )
}

/// Streams an export while reading the log.
fn file(
    console: Console,
    params: &Fields,
    kind: &'static str,
    name: &str,
    head: &'static str,
    line: fn(&EventBody) -> String,
) -> Result<Response, ErrorPage> {
    let query = query(params, CHUNK)?;
    let rest = stream::unfold(
        (console, Some(query), 0_u64),
        move |(console, query, sent)| async move {
            let query = query?;
            let found = match events::list(&console.plane, &query).await {
                Ok(found) => found,
                // The body ends with an error, so that the client sees a truncated download.
                Err(error) => return Some((Err(error), (console, None, sent))),
            };
            let text: String = found.iter().map(line).collect();
            let sent = sent + found.len() as u64;
            let whole = found.len() == CHUNK as usize && sent < FILE_MAX;
            let next = found.last().filter(|_| whole).map(|last| EventQuery {
                before: Some(last.event_id),
                ..query
            });
            Some((Ok(Bytes::from(text)), (console, next, sent)))
        },
    );
    let first = stream::iter([Ok::<_, Error>(Bytes::from_static(head.as_bytes()))]);
    let body = Body::from_stream(futures::StreamExt::chain(first, rest));
    let headers = [
        (header::CONTENT_TYPE, kind.to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
    ];
    Ok((headers, body).into_response())
}

fn csv_line(event: &EventBody) -> String {
    let actor = &event.actor;
    let token = actor.token_id.as_ref().map(ToString::to_string);
    let json = |value: &serde_json::Value| {
        if value.is_null() {
            String::new()
        } else {
            value.to_string()
        }
    };
    let cells = [
        event.event_id.to_string(),
        event.at.to_string(),
        actor.name.clone(),
        token.unwrap_or_default(),
        actor.address.clone().unwrap_or_default(),
        event.action.clone(),
        event.kind.clone(),
        event.id.clone(),
        event.version.to_string(),
        event.reason.clone().unwrap_or_default(),
        json(&event.before),
        json(&event.after),
    ];
    let cells: Vec<String> = cells.iter().map(|cell| csv_cell(cell)).collect();
    format!("{}\r\n", cells.join(","))
}

/// A CSV cell, escaped so that spreadsheets do not run it as a formula.
fn csv_cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::csv_cell;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        assert_eq!(csv_cell("plain"), "plain");
        assert_eq!(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv_cell("=1+1"), "'=1+1");
        assert_eq!(csv_cell("two\nlines"), "\"two\nlines\"");
    }
}
