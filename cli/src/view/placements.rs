//! Renders the placement of a tenant.

use super::migrations::{describe_last_migration, describe_migration};
use crate::body::{PlacementBody, Versioned};
use crate::output::Screen;
use crate::table::{Table, moment, moment_long, sanitize};

/// Where it is, where it belongs, and its slices.
pub(crate) fn placement_facts(screen: &Screen, body: &Versioned<PlacementBody>) -> String {
    let PlacementBody {
        tenant_id,
        shard_id,
        preferred_shard_id,
        slices,
        pin,
    } = &body.value;
    let headline = match preferred_shard_id {
        Some(preferred) if preferred == shard_id => {
            format!("{tenant_id} is on {shard_id}, and belongs there.")
        }
        Some(preferred) => {
            format!("{tenant_id} is on {shard_id}, but belongs on {preferred}: a move is due.")
        }
        None => format!("{tenant_id} is on {shard_id}, and no shard may hold it."),
    };
    let mut text = screen.bold(&headline);
    if let Some(pin) = pin {
        let reason = pin.reason.as_ref();
        let reason = reason
            .map(|reason| format!(" ({reason})"))
            .unwrap_or_default();
        let when = moment_long(screen, pin.at);
        let line = format!(
            "Pinned to {} by {}{reason}, {when}.",
            pin.shard_id, pin.actor
        );
        text.push_str(&format!("\n{}", sanitize(&line)));
    }
    let columns = ["#slice", "shard", "#epoch", "since", "move"];
    // Omit the column if no slice has ever moved.
    let message = |slice| describe_migration(slice).or_else(|| describe_last_migration(slice));
    let some = slices.iter().any(|slice| message(slice).is_some());
    let columns = if some { &columns[..] } else { &columns[..4] };
    let mut table = Table::new(screen, columns);
    for slice in slices {
        let mut row = vec![
            slice.slice.to_string(),
            slice.shard_id.to_string(),
            slice.epoch.0.to_string(),
            moment(screen, slice.placed_at),
        ];
        row.extend(some.then(|| message(slice).unwrap_or_default()));
        table.add_row(row);
    }
    text.push_str(&format!("\n\n{}", table.render()));
    text
}
