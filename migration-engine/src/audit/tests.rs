//! Histories that may be, and such that may not.

use ballast_domain::moving::MoveId;
use ballast_domain::tenant::Slice;
use serde_json::json;

use super::*;

fn tenant(route: &Route) -> Tenant {
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

fn history(routes: &[Route]) -> Vec<Changed> {
    let first = [None].into_iter();
    let before = first.chain(routes.iter().map(|route| Some(tenant(route))));
    let both = (1..).zip(before.zip(routes));
    both.map(|(version, (before, after))| Changed {
        version,
        before,
        after: Some(tenant(after)),
    })
    .collect()
}

/// There, put off once, and back.
fn told_whole() -> Vec<Route> {
    let m = MoveId("m".to_owned());
    let back = m.back();
    let placed = Route::placed(shard("a"));
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
fn what_the_protocol_allows_is_found_right() {
    let audit = Audit::of(history(&told_whole()));
    assert_eq!(audit.found, []);
    assert_eq!(audit.changes[&Change::Sealing], 3);
    assert_eq!(audit.changes[&Change::Committed], 2);
    assert_eq!(audit.changes[&Change::Reversed], 1);
}

#[test]
fn who_acknowledges_changes_only_in_the_window_and_only_once() {
    let m = MoveId("m".to_owned());
    let placed = Route::placed(shard("a"));
    let claimed = route::claim(&placed, &m, shard("b"), true).unwrap();
    let sealing = route::seal(&claimed, &m).unwrap();
    let there = route::commit(&sealing, &m).unwrap();
    let relaxed = route::relax(&there, &m).unwrap();
    let whole = [placed, claimed, sealing, there.clone(), relaxed.clone()];
    let audit = Audit::of(history(&whole));
    assert_eq!(audit.found, []);
    assert_eq!(audit.changes[&Change::Relaxed], 1);
    assert!(!Audit::of(history(&[relaxed, there])).found.is_empty());
}

#[test]
fn a_history_without_its_beginning_is_taken_as_it_comes() {
    let mut late = history(&told_whole());
    late.drain(..4);
    assert_eq!(Audit::of(late).found, []);
}

#[test]
fn a_restore_raises_every_epoch_and_undoes_what_was_under_way() {
    for route in told_whole() {
        let before = tenant(&route);
        let mut after = before.clone();
        after.slices[0].restore(1_000);
        let changed = change(&route, &after.slices[0].route());
        assert_eq!(changed, Some(Change::Restored), "{route:?}");
    }
}

/// Each change left out, repeated out of turn or altered is noticed.
#[test]
fn what_it_does_not_allow_is_found() {
    let whole = told_whole();
    let found = |routes: &[Route]| !Audit::of(history(routes)).found.is_empty();
    for left_out in 1..whole.len() - 1 {
        let mut routes = whole.clone();
        routes.remove(left_out);
        assert!(found(&routes), "without {:?}", whole[left_out]);
    }
    for changed in 1..whole.len() {
        let alter = |alteration: fn(&mut Route)| {
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
    // Both changes are restores as far as one look tells; together they are
    // none.
    let mut other = told_whole();
    let there = other.remove(5);
    let mut stolen = there.clone();
    stolen.owner = shard("a");
    let found = Audit::of(history(&[there, stolen])).found;
    let two = |found: &Found| matches!(found.fault, Fault::TwoOwners { .. });
    assert!(found.iter().any(two), "{found:?}");
}

#[test]
fn a_change_that_nobody_wrote_down_is_found() {
    let mut silent = history(&told_whole());
    silent.remove(4);
    let found = Audit::of(silent).found;
    let gap = |found: &Found| matches!(found.fault, Fault::Gap(..));
    assert!(found.iter().any(gap), "{found:?}");
}

/// A slice is cut in two, and then joined again; a cut that is called off.
#[test]
fn slices_are_cut_as_the_protocol_allows() {
    let id = |name: &str| MoveId(name.to_owned());
    let whole = tenant(&Route::placed(shard("a"))).layout();
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
    let mut tenants = vec![tenant(&Route::placed(shard("a")))];
    for layout in layouts {
        let mut next = tenants[tenants.len() - 1].clone();
        next.slicing = serde_json::from_value(json!({
            "into": 2, "actor": { "name": "ada" }, "askedAt": now,
        }))
        .unwrap();
        next.set_layout(layout, now);
        tenants.push(next);
    }
    let history = |tenants: &[Tenant]| -> Vec<Changed> {
        let both = (1..).zip(tenants.windows(2));
        let changed = both.map(|(version, two)| Changed {
            version,
            before: Some(two[0].clone()),
            after: Some(two[1].clone()),
        });
        changed.collect()
    };
    let audit = Audit::of(history(&tenants));
    assert_eq!(audit.found, []);
    assert_eq!(audit.changes[&Change::Cut], 2);
    assert_eq!(audit.changes[&Change::CutAborted], 1);
    for left_out in 1..tenants.len() - 1 {
        let mut fewer = tenants.clone();
        fewer.remove(left_out);
        let found = Audit::of(history(&fewer)).found;
        assert!(!found.is_empty(), "without {left_out}");
    }
}
