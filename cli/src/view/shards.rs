//! Renders shards.

use ballast_domain::shard::{Pressure, ShardState};

use crate::body::ShardBody;
use crate::output::Screen;
use crate::table::{self, Table, format_number, join_or_dash, moment_long};

fn describe_state(body: &ShardBody) -> String {
    match (body.shard.state, body.shard.pressure) {
        (ShardState::Active, Pressure::Busy) => "active, filling up".to_owned(),
        (state, _) => state.name().to_owned(),
    }
}

/// Utilisation in percent of the density limit.
fn describe_fill(body: &ShardBody) -> String {
    let percent = body.slices as f64 * 100.0 / body.shard.max_slices.max(1) as f64;
    match percent {
        0.0 => "0 %".to_owned(),
        percent if percent < 1.0 => "<1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// One line on a shard that was added.
pub(crate) fn describe_added(_: &Screen, body: &ShardBody) -> String {
    let shard = &body.shard;
    format!(
        "added shard {} in {} with weight {} at {}",
        shard.shard_id, shard.region, shard.weight, shard.url
    )
}

/// Many shards.
pub(crate) fn shard_table(screen: &Screen, shards: &[ShardBody]) -> String {
    let columns = [
        "shard", "state", "region", "zones", "#weight", "#slices", "#limit", "#full",
    ];
    let mut table = Table::new(screen, &columns);
    for body in shards {
        let shard = &body.shard;
        let row = [
            shard.shard_id.to_string(),
            describe_state(body),
            shard.region.to_string(),
            join_or_dash(&shard.zones),
            shard.weight.to_string(),
            format_number(body.slices),
            format_number(shard.max_slices),
            describe_fill(body),
        ];
        if shard.state == ShardState::Active {
            table.add_row(row);
        } else {
            table.add_dimmed_row(row);
        }
    }
    table.render()
}

/// All about one shard.
pub(crate) fn shard_facts(screen: &Screen, body: &ShardBody) -> String {
    let shard = &body.shard;
    let held = format!(
        "{} of {} ({})",
        format_number(body.slices),
        format_number(shard.max_slices),
        describe_fill(body)
    );
    table::fact_list(
        screen,
        &[
            ("shard", Some(shard.shard_id.to_string())),
            ("state", Some(describe_state(body))),
            ("region", Some(shard.region.to_string())),
            ("zones", Some(join_or_dash(&shard.zones))),
            ("weight", Some(shard.weight.to_string())),
            ("slices", Some(held)),
            ("data", Some(shard.url.clone())),
            ("added", Some(moment_long(screen, shard.created_at))),
            ("version", Some(body.version.to_string())),
        ],
    )
}
