//! What the running migration of a slice is doing, in few words, for lists.

use std::collections::BTreeMap;

use ballast_control_plane::{ControlPlane, migrations};
use ballast_domain::Timestamp;
use ballast_domain::moving::{ActiveMigration, MigrationId, MigrationPhase};
use ballast_domain::tenant::Tenant;
use maud::{Markup, html};

use super::load::clock;

/// When the windows of migrations end, by migration.
pub(super) type WindowEnds = BTreeMap<MigrationId, Timestamp>;

/// Reads when the windows end that slices of these tenants are in.
pub(super) async fn read_window_ends<'a>(
    plane: &ControlPlane,
    tenants: impl Iterator<Item = &'a Tenant>,
) -> WindowEnds {
    let moving = tenants.flat_map(|tenant| &tenant.slices);
    let moving = moving.filter_map(|slice| slice.moving.as_ref());
    let mut ends = WindowEnds::new();
    for moving in moving.filter(|moving| moving.phase == MigrationPhase::Window) {
        let found = migrations::get(plane, &moving.migration_id).await;
        let until = found.ok().and_then(|found| found.value.window_ends_at());
        ends.extend(until.map(|until| (moving.migration_id.clone(), until)));
    }
    ends
}

/// What the running migration of a slice is doing.
pub(super) fn describe_moving(moving: &ActiveMigration, ends: &WindowEnds) -> Markup {
    html! {
        @match moving.phase {
            MigrationPhase::Copying | MigrationPhase::Sealing { .. } => { "moving to " (moving.to) }
            MigrationPhase::Aborting => { "stays, cleaning up on " (moving.to) }
            MigrationPhase::Window => {
                @match ends.get(&moving.migration_id) {
                    Some(until) => { "reversible until " time datetime=(until) { (clock(until.unix_ms())) } }
                    None => { "reversible" }
                }
            }
            MigrationPhase::Cleaning => { "cleaning up on " (moving.from) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_in_its_window_is_not_moving_any_more() {
        let moving = |phase| ActiveMigration {
            migration_id: MigrationId("mv-1".to_owned()),
            from: "shard-1".parse().unwrap(),
            to: "shard-3".parse().unwrap(),
            prepared: ballast_domain::tenant::Epoch(2),
            gives_up: false,
            sync: false,
            phase,
        };
        let until = "2026-11-16T11:00:00Z".parse().unwrap();
        let ends = WindowEnds::from([(MigrationId("mv-1".to_owned()), until)]);
        let shown = |phase, ends: &WindowEnds| describe_moving(&moving(phase), ends).into_string();
        assert_eq!(shown(MigrationPhase::Copying, &ends), "moving to shard-3");
        let window = shown(MigrationPhase::Window, &ends);
        assert!(window.starts_with("reversible until "), "{window}");
        assert!(window.contains("11-16 11:00 UTC"), "{window}");
        assert_eq!(
            shown(MigrationPhase::Window, &WindowEnds::new()),
            "reversible"
        );
    }
}
