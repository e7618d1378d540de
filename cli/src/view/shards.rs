//! Shards, for people.

use ballast_domain::shard::{Pressure, ShardState};

use crate::body::ShardBody;
use crate::output::Screen;
use crate::table::{self, Table, listed, moment_long, number};

fn state(body: &ShardBody) -> String {
    match (body.shard.state, body.shard.pressure) {
        (ShardState::Active, Pressure::Busy) => "active, filling up".to_owned(),
        (state, _) => state.name().to_owned(),
    }
}

/// How full, in percent of the density limit.
fn fill(body: &ShardBody) -> String {
    let percent = body.slices as f64 * 100.0 / body.shard.max_slices.max(1) as f64;
    match percent {
        0.0 => "0 %".to_owned(),
        percent if percent < 1.0 => "<1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// One line on a shard that was added.
pub(crate) fn added(_: &Screen, body: &ShardBody) -> String {
    let shard = &body.shard;
    format!(
        "added shard {} in {} with weight {} at {}",
        shard.shard_id, shard.region, shard.weight, shard.url
    )
}

/// Many shards.
pub(crate) fn table(screen: &Screen, shards: &[ShardBody]) -> String {
    let columns = [
        "shard", "state", "region", "zones", "#weight", "#slices", "#limit", "#full",
    ];
    let mut table = Table::new(screen, &columns);
    for body in shards {
        let shard = &body.shard;
        let row = [
            shard.shard_id.to_string(),
            state(body),
            shard.region.to_string(),
            listed(&shard.zones),
            shard.weight.to_string(),
            number(body.slices),
            number(shard.max_slices),
            fill(body),
        ];
        if shard.state == ShardState::Active {
            table.row(row);
        } else {
            table.faint(row);
        }
    }
    table.text()
}

/// All about one shard.
pub(crate) fn facts(screen: &Screen, body: &ShardBody) -> String {
    let shard = &body.shard;
    let held = format!(
        "{} of {} ({})",
        number(body.slices),
        number(shard.max_slices),
        fill(body)
    );
    table::facts(
        screen,
        &[
            ("shard", Some(shard.shard_id.to_string())),
            ("state", Some(state(body))),
            ("region", Some(shard.region.to_string())),
            ("zones", Some(listed(&shard.zones))),
            ("weight", Some(shard.weight.to_string())),
            ("slices", Some(held)),
            ("data", Some(shard.url.clone())),
            ("added", Some(moment_long(screen, shard.created_at))),
            ("version", Some(body.version.to_string())),
        ],
    )
}
