//! Histories that the protocol allows, and altered ones.

use ballast_domain::moving::MigrationId;
use ballast_domain::tenant::Slice;
use serde_json::json;

use super::*;

fn tenant(route: &SliceRoute) -> Tenant {
    let now = "2026-11-16T09:30:00Z".parse().unwrap();
    let mut slice = Slice::placed(0, route.owner.clone(), now);
    slice.set_route(route.clone(), now);
    serde_json::from_value(json!({
        "tenantID": "acme",
        "name": "Acme",
        "status": "active",
        "homeRegion": "local",
        "residency": { "policy": "strict" },
        "zones": [],
        "limits": { "votesPerSecond": null, "concurrentQueries": null, "retentionDays": null },
        "corsOrigins": [],
        "slices": [slice],
        "createdAt": now,
    }))
    .unwrap()
}

fn shard(id: &str) -> ShardId {
    id.parse().unwrap()
}

fn history(routes: &[SliceRoute]) -> Vec<TenantChange> {
    let first = [None].into_iter();
    let before = first.chain(routes.iter().map(|route| Some(tenant(route))));
    let both = (1..).zip(before.zip(routes));
    both.map(|(version, (before, after))| TenantChange {
        version,
        before,
        after: Some(tenant(after)),
    })
    .collect()
}

/// A migration whose seal is postponed once, and its reverse migration.
fn complete_history() -> Vec<SliceRoute> {
    let m = MigrationId("m".to_owned());
    let back = m.way_back();
    let placed = SliceRoute::placed(shard("a"));
    let claimed = route::claim(&placed, &m, shard("b"), false).unwrap();
    let sealing = route::seal(&claimed, &m).unwrap();
    let put_off = route::retreat(&sealing, &m).unwrap();
    let again = route::seal(&put_off, &m).unwrap();
    let there = route::commit(&again, &m).unwrap();
    let turned = route::reverse(&there, &m, &back).unwrap();
    let returning = route::seal(&turned, &back).unwrap();
    let home = route::commit(&returning, &back).unwrap();
    let cleaning = route::clean(&home, &back).unwrap();
    let over = route::release(&cleaning, &back).unwrap();
    vec![
        placed, claimed, sealing, put_off, again, there, turned, returning, home, cleaning, over,
    ]
}

#[test]
fn an_allowed_history_passes() {
    let audit = HistoryAudit::replay_history(history(&complete_history()));
    assert_eq!(audit.findings, []);
    assert_eq!(audit.changes[&AuditedTransition::Sealing], 3);
    assert_eq!(audit.changes[&AuditedTransition::Committed], 2);
    assert_eq!(audit.changes[&AuditedTransition::Reversed], 1);
}

#[test]
fn sync_ends_only_in_the_window_and_only_once() {
    let m = MigrationId("m".to_owned());
    let placed = SliceRoute::placed(shard("a"));
    let claimed = route::claim(&placed, &m, shard("b"), true).unwrap();
    let sealing = route::seal(&claimed, &m).unwrap();
    let there = route::commit(&sealing, &m).unwrap();
    let relaxed = route::relax(&there, &m).unwrap();
    let whole = [placed, claimed, sealing, there.clone(), relaxed.clone()];
    let audit = HistoryAudit::replay_history(history(&whole));
    assert_eq!(audit.findings, []);
    assert_eq!(audit.changes[&AuditedTransition::Relaxed], 1);
    assert!(
        !HistoryAudit::replay_history(history(&[relaxed, there]))
            .findings
            .is_empty()
    );
}

#[test]
fn a_history_without_its_beginning_is_accepted() {
    let mut late = history(&complete_history());
    late.drain(..4);
    assert_eq!(HistoryAudit::replay_history(late).findings, []);
}

#[test]
fn a_restore_raises_every_epoch_and_undoes_running_migrations() {
    for route in complete_history() {
        let before = tenant(&route);
        let mut after = before.clone();
        after.slices[0].restore(1_000);
        let changed = change(&route, &after.slices[0].route());
        assert_eq!(changed, Some(AuditedTransition::Restored), "{route:?}");
    }
}

/// A change that is missing or altered is reported.
#[test]
fn an_altered_history_is_reported() {
    let whole = complete_history();
    let found = |routes: &[SliceRoute]| {
        !HistoryAudit::replay_history(history(routes))
            .findings
            .is_empty()
    };
    for left_out in 1..whole.len() - 1 {
        let mut routes = whole.clone();
        routes.remove(left_out);
        assert!(found(&routes), "without {:?}", whole[left_out]);
    }
    for changed in 1..whole.len() {
        let alter = |alteration: fn(&mut SliceRoute)| {
            let mut routes = whole.clone();
            alteration(&mut routes[changed]);
            routes
        };
        let fallen = alter(|route| route.epoch = Epoch(route.epoch.0 - 1));
        let moved = alter(|route| route.owner = "c".parse().unwrap());
        let forgotten = alter(|route| route.spent = route.epoch);
        assert!(found(&fallen) && found(&moved), "{:?}", whole[changed]);
        if forgotten != whole {
            assert!(found(&forgotten), "{:?}", whole[changed]);
        }
    }
}

#[test]
fn an_epoch_has_one_owner() {
    // Each change looks like a restore by itself; together they are not.
    let mut other = complete_history();
    let there = other.remove(5);
    let mut stolen = there.clone();
    stolen.owner = shard("a");
    let found = HistoryAudit::replay_history(history(&[there, stolen])).findings;
    let two = |found: &AuditFinding| matches!(found.fault, AuditFault::TwoOwners { .. });
    assert!(found.iter().any(two), "{found:?}");
}

#[test]
fn a_missing_change_is_reported() {
    let mut silent = history(&complete_history());
    silent.remove(4);
    let found = HistoryAudit::replay_history(silent).findings;
    let gap = |found: &AuditFinding| matches!(found.fault, AuditFault::Gap(..));
    assert!(found.iter().any(gap), "{found:?}");
}

/// A slice is split in two and merged again; a merge in between is aborted.
#[test]
fn slices_are_cut_as_the_protocol_allows() {
    let id = |name: &str| MigrationId(name.to_owned());
    let whole = tenant(&SliceRoute::placed(shard("a"))).layout();
    let claimed = recut::claim(&whole, &id("c"), &[0], &[0, 1 << 63]).unwrap();
    let cut = recut::commit(&claimed, &id("c")).unwrap();
    let two = recut::release(&cut, &id("c")).unwrap();
    let off = recut::claim(&two, &id("d"), &[1, 2], &[0]).unwrap();
    let aborted = recut::abort(&off, &id("d")).unwrap();
    let still = recut::release(&aborted, &id("d")).unwrap();
    let joining = recut::claim(&still, &id("e"), &[1, 2], &[0]).unwrap();
    let one = recut::commit(&joining, &id("e")).unwrap();
    let layouts = [claimed, cut, two, off, aborted, still, joining, one];
    let now = "2026-11-16T09:30:00Z".parse().unwrap();
    let mut tenants = vec![tenant(&SliceRoute::placed(shard("a")))];
    for layout in layouts {
        let mut next = tenants[tenants.len() - 1].clone();
        next.slicing = serde_json::from_value(json!({
            "into": 2, "actor": { "name": "ada" }, "askedAt": now,
        }))
        .unwrap();
        next.set_layout(layout, now);
        tenants.push(next);
    }
    let history = |tenants: &[Tenant]| -> Vec<TenantChange> {
        let both = (1..).zip(tenants.windows(2));
        let changed = both.map(|(version, two)| TenantChange {
            version,
            before: Some(two[0].clone()),
            after: Some(two[1].clone()),
        });
        changed.collect()
    };
    let audit = HistoryAudit::replay_history(history(&tenants));
    assert_eq!(audit.findings, []);
    assert_eq!(audit.changes[&AuditedTransition::Cut], 2);
    assert_eq!(audit.changes[&AuditedTransition::CutAborted], 1);
    for left_out in 1..tenants.len() - 1 {
        let mut fewer = tenants.clone();
        fewer.remove(left_out);
        let found = HistoryAudit::replay_history(history(&fewer)).findings;
        assert!(!found.is_empty(), "without {left_out}");
    }
}
