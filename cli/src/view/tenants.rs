//! Renders tenants.

use ballast_domain::tenant::{Slice, Tenant, TenantStatus};

use super::migrations::{describe_last_migration, describe_migration};
use crate::body::Versioned;
use crate::output::Screen;
use crate::table::{self, Table, count_noun, format_number, join_or_dash, moment, moment_long};

/// The shards of a tenant's slices.
fn describe_shards(tenant: &Tenant) -> String {
    match tenant.slices.as_slice() {
        [first, rest @ ..] if !rest.is_empty() => format!("{} +{}", first.shard_id, rest.len()),
        [only] => only.shard_id.to_string(),
        _ => "–".to_owned(),
    }
}

/// The same, with the target of a running migration.
fn describe_shards_and_moves(tenant: &Tenant) -> String {
    let moving = tenant.slices.iter().find_map(|slice| {
        let moving = slice.moving.as_ref()?;
        (moving.to != slice.shard_id).then(|| format!(" → {}", moving.to))
    });
    format!("{}{}", describe_shards(tenant), moving.unwrap_or_default())
}

/// One line on a tenant that was created.
pub(crate) fn describe_created(_: &Screen, tenant: &Versioned<Tenant>) -> String {
    let Tenant {
        tenant_id,
        home_region,
        ..
    } = &tenant.value;
    let shard = describe_shards(&tenant.value);
    format!("created tenant {tenant_id} on {shard} in {home_region}")
}

/// One line on a tenant after a change of its status.
pub(crate) fn describe_status(_: &Screen, tenant: &Versioned<Tenant>) -> String {
    let says = match tenant.value.status {
        TenantStatus::Active => "its keys work",
        TenantStatus::Suspended => "its keys are refused until it is resumed",
        TenantStatus::Closed => "its keys are refused permanently",
    };
    format!(
        "tenant {} is {}: {says}",
        tenant.value.tenant_id,
        tenant.value.status.name()
    )
}

/// Many tenants.
pub(crate) fn tenant_table(screen: &Screen, tenants: &[Versioned<Tenant>]) -> String {
    let columns = ["tenant", "status", "region", "shard", "name", "created"];
    let mut table = Table::new(screen, &columns);
    for tenant in tenants {
        let tenant = &tenant.value;
        let row = [
            tenant.tenant_id.to_string(),
            tenant.status.name().to_owned(),
            tenant.home_region.to_string(),
            describe_shards_and_moves(tenant),
            tenant.name.clone(),
            moment(screen, tenant.created_at),
        ];
        if tenant.status == TenantStatus::Closed {
            table.add_dimmed_row(row);
        } else {
            table.add_row(row);
        }
    }
    table.render()
}

fn describe_residency(tenant: &Tenant) -> String {
    match tenant.residency.secondary_regions() {
        [] => tenant.residency.name().to_owned(),
        others => format!(
            "{}, also in {}",
            tenant.residency.name(),
            join_or_dash(others)
        ),
    }
}

/// A split or merge that is running, or why the last one was given up.
fn describe_slicing(tenant: &Tenant) -> Option<String> {
    if let Some(slicing) = &tenant.slicing {
        let verb = match slicing.is_merge(tenant.slices.len()) {
            true => "merging",
            false => "splitting",
        };
        let into = count_noun(slicing.into.into(), "slice");
        return Some(format!(
            "{verb} into {into}, requested by {}",
            slicing.actor
        ));
    }
    let why = tenant.last_slicing.as_ref()?.why.as_ref()?;
    Some(format!("given up: {why}"))
}

/// All about one tenant.
pub(crate) fn tenant_facts(screen: &Screen, body: &Versioned<Tenant>) -> String {
    let tenant = &body.value;
    let limit =
        |limit: Option<u64>| Some(limit.map_or_else(|| "no limit".to_owned(), format_number));
    let slices: Vec<String> = tenant
        .slices
        .iter()
        .map(|slice| {
            format!(
                "{} on {} (epoch {})",
                slice.slice, slice.shard_id, slice.epoch.0
            )
        })
        .collect();
    let of_slices = |say: fn(&Slice) -> Option<String>| {
        let parts = tenant.slices.iter().filter_map(|slice| {
            let said = say(slice)?;
            Some(match tenant.slices.len() {
                1 => said,
                _ => format!("{} {said}", slice.slice),
            })
        });
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    };
    let pin = tenant
        .pin
        .as_ref()
        .map(|pin| format!("to {} by {}", pin.shard_id, pin.actor));
    let zones = Some(&tenant.zones).filter(|zones| !zones.is_empty());
    table::fact_list(
        screen,
        &[
            ("tenant", Some(tenant.tenant_id.to_string())),
            ("name", Some(tenant.name.clone())),
            ("organisation", tenant.organisation.clone()),
            ("status", Some(tenant.status.name().to_owned())),
            ("region", Some(tenant.home_region.to_string())),
            ("residency", Some(describe_residency(tenant))),
            (
                "zones",
                Some(zones.map_or("any".to_owned(), |zones| join_or_dash(zones))),
            ),
            ("slices", Some(slices.join(", "))),
            ("slicing", describe_slicing(tenant)),
            ("moving", of_slices(describe_migration)),
            ("last move", of_slices(describe_last_migration)),
            ("pinned", pin),
            (
                "dial",
                (!tenant.dial.is_active()).then(|| tenant.dial.name().to_owned()),
            ),
            ("votes per second", limit(tenant.limits.votes_per_second)),
            (
                "concurrent queries",
                limit(tenant.limits.concurrent_queries),
            ),
            ("retention days", limit(tenant.limits.retention_days)),
            ("browser origins", Some(join_or_dash(&tenant.cors_origins))),
            ("created", Some(moment_long(screen, tenant.created_at))),
            ("version", Some(body.version.to_string())),
        ],
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn acme() -> Versioned<Tenant> {
        let body = json!({
            "tenantID": "acme", "name": "Acme Inc", "status": "active", "homeRegion": "eu",
            "residency": {"policy": "permitted", "secondaryRegions": ["us"]}, "zones": ["gold"],
            "limits": {"votesPerSecond": 5_000, "concurrentQueries": null, "retentionDays": null},
            "corsOrigins": ["https://acme.example"],
            "slices": [{"slice": 0, "shardID": "shard-3", "epoch": 1, "placedAt": "2026-11-16T09:00:00Z"}],
            "createdAt": "2026-11-16T09:00:00Z", "version": 3, "fromANewerServer": true,
        });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn a_list_for_a_pipe_and_for_a_terminal() {
        let mut screen = Screen::plain();
        let pipe = tenant_table(&screen, &[acme()]);
        screen.terminal = true;
        let terminal = tenant_table(&screen, &[acme()]);
        insta::assert_snapshot!(format!("{pipe}\n\n{terminal}"));
    }

    #[test]
    fn a_tenant_that_moves() {
        let mut tenant = acme();
        let route = json!({"slice": 0, "shardID": "shard-3", "epoch": 1,
            "placedAt": "2026-11-16T09:00:00Z",
            "moving": {"migrationID": "mv-2", "fromShardID": "shard-3", "toShardID": "shard-4",
                "preparedEpoch": 2, "phase": "copying"},
            "lastMove": {"migrationID": "mv-1", "moved": true}});
        tenant.value.slices = vec![serde_json::from_value(route).unwrap()];
        let screen = Screen::plain();
        let (one, many) = (
            tenant_facts(&screen, &tenant),
            tenant_table(&screen, &[tenant]),
        );
        insta::assert_snapshot!(format!("{many}\n\n{one}"));
    }

    #[test]
    fn all_about_a_tenant() {
        insta::assert_snapshot!(tenant_facts(&Screen::plain(), &acme()));
    }
}
