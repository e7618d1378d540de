//! The audit at the end of a world: everything is at rest, and the stored data matches the
//! book.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast_control_plane::registry::typed;
use ballast_domain::registry::{EventQuery, RecordKind, Registry};
use ballast_domain::tenant::{SliceId, Tenant};
use ballast_domain::{PollId, ShardId, TenantId};
use ballast_migration_engine::audit::{HistoryAudit, TenantChange};
use ballast_vote_shard::VoteShard;
use ballast_vote_shard::embedded::EmbeddedShard;
use ballast_vote_shard::shard::{Cursor, ExportedRow, Holding, VoterName};

use crate::book::{ExpectedRow, Ledger, TestPoll};
use crate::nodes::Nodes;
use crate::registry::RemoteRegistry;

/// The stored rows of a slice.
type StoredRows = BTreeMap<(PollId, String), ExpectedRow>;

/// Audits every tenant.
pub(crate) async fn audit(
    registry: &RemoteRegistry,
    nodes: &Nodes,
    test_polls: &[TestPoll],
    ledger: &Ledger,
) {
    let mut tenants: Vec<_> = test_polls
        .iter()
        .map(|test_poll| test_poll.tenant.clone())
        .collect();
    tenants.sort();
    tenants.dedup();
    for tenant in tenants {
        let near = registry.direct().unwrap();
        let record = typed::get::<Tenant>(&near, tenant.as_str()).await.unwrap();
        let record = record.unwrap().value;
        replay(&near, &tenant).await;
        for slice in &record.slices {
            assert_eq!(slice.moving, None, "{tenant} is still moving");
            let id = SliceId {
                tenant_id: tenant.clone(),
                slice: slice.slice,
            };
            for shard_id in nodes.ids() {
                let fence = nodes.shard(&shard_id).fence(&id).await.unwrap();
                let holding = fence.as_ref().map(|fence| (fence.holding, fence.epoch));
                if shard_id == slice.shard_id {
                    let owner = Some((Holding::Owner, slice.epoch));
                    assert_eq!(holding, owner, "{id} on its owner {shard_id}");
                } else {
                    let is_gone = matches!(holding, None | Some((Holding::Gone, _)));
                    assert!(is_gone, "{id} on {shard_id} is {holding:?}");
                }
            }
            let shard = nodes.shard(&slice.shard_id);
            let test_polls: Vec<&TestPoll> = test_polls
                .iter()
                .filter(|one| one.tenant == tenant)
                .collect();
            check(&id, &slice.shard_id, &shard, &test_polls, ledger).await;
        }
    }
}

/// Checks that the protocol allows every change of a tenant's record.
async fn replay(registry: &dyn Registry, tenant: &TenantId) {
    let mut history = Vec::new();
    let mut query = EventQuery {
        kind: Some(RecordKind::Tenant),
        id: Some(tenant.to_string()),
        limit: 100,
        ..EventQuery::default()
    };
    loop {
        let page = registry.events(&query).await.unwrap();
        let Some(oldest) = page.last() else { break };
        query.before = Some(oldest.sequence);
        let read = |body: Option<String>| body.map(|body| serde_json::from_str(&body).unwrap());
        history.extend(page.into_iter().map(|event| TenantChange {
            version: event.version,
            before: read(event.before),
            after: read(event.after),
        }));
    }
    history.reverse();
    assert!(!history.is_empty(), "{tenant} has no history");
    assert_eq!(
        HistoryAudit::replay_history(history).findings,
        [],
        "the history of {tenant}"
    );
}

async fn check(
    slice: &SliceId,
    at: &ShardId,
    shard: &Arc<EmbeddedShard>,
    test_polls: &[&TestPoll],
    ledger: &Ledger,
) {
    let found = rows(slice, shard).await;
    for (key, voter) in ledger {
        if !test_polls.iter().any(|test_poll| test_poll.poll == key.0) {
            continue;
        }
        let row = found.get(key).cloned().unwrap_or_default();
        assert!(
            voter.may_be(&row),
            "{} in {slice} on {at} is {row:?}, and was told {:?} or gave up {:?}",
            voter.name,
            voter.row,
            voter.or
        );
    }
    for key in found.keys() {
        assert!(ledger.contains_key(key), "{} never voted", key.1);
    }
    for test_poll in test_polls {
        let tally = shard.tally(slice, test_poll.poll).await.unwrap();
        assert_eq!(
            tally.closed_at.is_some(),
            test_poll.is_closed,
            "{}",
            test_poll.poll
        );
        let rows = || {
            let of_poll = found
                .iter()
                .filter(|((poll, _), _)| *poll == test_poll.poll);
            of_poll.map(|(_, row)| row)
        };
        let count = |item: usize| rows().filter(|row| row.items.contains(&item)).count() as u64;
        let counts: Vec<u64> = (0..test_poll.items.len()).map(count).collect();
        assert_eq!(
            tally.counts, counts,
            "the counts of {} on {at}",
            test_poll.poll
        );
        let voters = rows().filter(|row| !row.items.is_empty()).count() as u64;
        assert_eq!(tally.voters, voters, "the voters of {}", test_poll.poll);
        let lanes = shard.lanes(slice, test_poll.poll).await.unwrap();
        let sums: Vec<u64> = lanes.iter().map(|lanes| lanes.iter().sum()).collect();
        assert_eq!(sums, counts, "the lanes of {}", test_poll.poll);
    }
    let mut kept = shard.digests(slice).await.unwrap();
    let mut stored = shard.scrub(slice).await.unwrap();
    kept.sort_by_key(|(poll, _)| *poll);
    stored.sort_by_key(|(poll, _)| *poll);
    assert_eq!(kept, stored, "the digests of {slice}");
    assert_eq!(kept.len(), test_polls.len(), "the polls of {slice}");
}

/// Reads every row of a slice.
async fn rows(slice: &SliceId, shard: &Arc<EmbeddedShard>) -> StoredRows {
    let mut found = StoredRows::new();
    let mut cursor = Cursor::Start;
    loop {
        let page = shard.export(slice, &cursor, 1 << 20).await.unwrap();
        for change in page.changes {
            if let ExportedRow::Voter(row) = change {
                let VoterName::Named(name) = row.voter else {
                    panic!("an erased voter, but nothing was erased");
                };
                let items = row.items.iter().map(|item| usize::from(*item)).collect();
                let revision = row.version.revision;
                let key = (row.poll, name.as_str().to_owned());
                found.insert(key, ExpectedRow { items, revision });
            }
        }
        if page.caught_up {
            return found;
        }
        cursor = page.next;
    }
}
