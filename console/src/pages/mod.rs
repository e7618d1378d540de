//! The pages, one file each, and their routes.

mod column;
mod drain_progress;
mod events;
mod fleet;
mod hotspot;
mod hotspots;
mod keys;
mod limits;
mod links;
mod load;
mod machine;
mod migration;
mod moves;
mod moving;
mod new_move;
mod operator_form;
mod placement;
mod plan;
mod poll;
mod polls;
mod replay;
mod settings;
mod shard;
mod shards;
mod share;
mod split_merge;
mod tenant;
mod tenant_load;
mod tenant_status;
mod tenants;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::{get, post};

use crate::assets;
use crate::console::Console;
use crate::page::error::{no_such_page, render_for_visitor};
use crate::session::{enter, login, login_page, logout};

/// The console, to be mounted at the root.
pub fn router(console: Console) -> Router {
    Router::new()
        .route("/console", get(fleet::show))
        .route("/console/", get(async || Redirect::permanent("/console")))
        .route("/console/login", get(login_page).post(login))
        .route("/console/enter/{ticket}", get(enter))
        .route("/console/logout", post(logout))
        .route("/console/assets/{file}", get(assets::serve))
        .merge(tenants_router())
        .merge(moves_router())
        .merge(shards_router())
        .merge(load_router())
        .route("/console/polls", get(polls::list))
        .route("/console/polls/{tenant}/{poll}", get(poll::show))
        .route("/console/polls/{tenant}/{poll}/share", post(share::make))
        .route(
            "/console/polls/{tenant}/{poll}/share/{share}/remove",
            post(share::remove),
        )
        .route("/console/share/{ticket}", get(share::show))
        .route("/console/share/{ticket}/live", get(share::live))
        .route("/console/events", get(events::show))
        .route("/console/events.csv", get(events::csv))
        .route("/console/events.ndjson", get(events::ndjson))
        .route("/console/settings", get(settings::show))
        .route("/console/settings/check", post(settings::check))
        .route("/console/settings/reload", post(settings::reload))
        .route("/console/live/fleet", get(fleet::live))
        .route("/console/live/polls", get(polls::live))
        .route("/console/live/polls/{tenant}/{poll}", get(poll::live))
        .route("/console/{*rest}", get(no_such_page))
        .layer(from_fn_with_state(console.clone(), render_for_visitor))
        .with_state(console)
}

fn tenants_router() -> Router<Console> {
    Router::new()
        .route("/console/tenants", get(tenants::list).post(tenants::create))
        .route("/console/tenants/{tenant}", get(tenant::show))
        .route("/console/tenants/{tenant}/load", get(tenant_load::charts))
        .route("/console/tenants/{tenant}/usage", get(tenant_load::days))
        .route("/console/tenants/{tenant}/limits", post(limits::set))
        .route(
            "/console/tenants/{tenant}/suspend",
            post(tenant_status::suspend),
        )
        .route(
            "/console/tenants/{tenant}/resume",
            post(tenant_status::resume),
        )
        .route(
            "/console/tenants/{tenant}/close",
            post(tenant_status::close),
        )
        .route("/console/tenants/{tenant}/pin", post(placement::pin))
        .route("/console/tenants/{tenant}/unpin", post(placement::unpin))
        .route("/console/tenants/{tenant}/keys", post(keys::create))
        .route(
            "/console/tenants/{tenant}/keys/{key}/rotate",
            post(keys::rotate),
        )
        .route(
            "/console/tenants/{tenant}/keys/{key}/revoke",
            post(keys::revoke),
        )
        .route(
            "/console/tenants/{tenant}/move",
            get(new_move::plan).post(new_move::begin),
        )
        .route(
            "/console/tenants/{tenant}/slices",
            get(split_merge::plan).post(split_merge::begin),
        )
}

fn moves_router() -> Router<Console> {
    Router::new()
        .route("/console/moves", get(moves::list))
        .route("/console/moves/{move}", get(migration::show))
        .route(
            "/console/moves/{move}/certificate",
            get(migration::certificate),
        )
        .route("/console/moves/{move}/{verb}", post(migration::ask))
        .route("/console/live/moves", get(moves::live))
        .route("/console/live/moves/{move}", get(migration::live))
}

fn load_router() -> Router<Console> {
    Router::new()
        .route("/console/load", get(load::show))
        .route("/console/replay", get(replay::show))
        .route("/console/replay/load.ndjson", get(replay::record))
        .route("/console/hotspots", get(hotspots::list))
        .route("/console/hotspots/{hotspot}", get(hotspot::show))
        .route("/console/plans/{plan}", get(plan::show))
        .route("/console/live/load", get(load::live))
        .route("/console/live/hotspots", get(hotspots::live))
        .route("/console/live/hotspots/{hotspot}", get(hotspot::live))
        .route("/console/live/plans/{plan}", get(plan::live))
        .route("/console/plans/{plan}/approve", post(plan::approve))
        .route("/console/plans/{plan}/reject", post(plan::reject))
}

fn shards_router() -> Router<Console> {
    Router::new()
        .route("/console/shards", get(shards::list).post(shards::add))
        .route(
            "/console/shards/{shard}",
            get(shard::show).post(shard::change),
        )
        .route("/console/shards/{shard}/drain", post(shard::drain))
        .route("/console/shards/{shard}/keep", post(shard::cancel_drain))
        .route("/console/shards/{shard}/remove", post(shard::remove))
        .route("/console/live/shards/{shard}", get(shard::live))
}
