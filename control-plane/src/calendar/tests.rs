//! What must hold of the calendar.

use super::*;
use crate::hotspots::plans;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(seconds * 1_000)
}

fn shard(name: &str) -> ShardId {
    name.parse().unwrap()
}

fn awaited(tenant: &str, poll: u128, opens: i64, closes: i64) -> Awaited {
    let poll_id = PollId::from_number(poll);
    let tenant_id: TenantId = tenant.parse().unwrap();
    Awaited {
        event: Event {
            tenant_id: tenant_id.clone(),
            poll_id,
            opens_at: at(opens),
            closes_at: at(closes),
            audience: 1_000_000,
            items: 2,
        },
        slice: SliceId {
            tenant_id,
            slice: 0,
        },
        item: ItemId::of(poll_id, 0),
        lanes: 10,
    }
}

#[test]
fn a_tenant_is_left_alone_around_its_poll_and_told_for_which() {
    let calendar = Calendar::default();
    assert!(!calendar.knows(&shard("shard-1")));
    let (day, hour) = (86_400, 3_600);
    let polls = vec![
        awaited("acme", 1, day, 2 * day),
        awaited("acme", 2, 9 * day, 10 * day),
    ];
    calendar.take(vec![(shard("shard-1"), Some(polls))], Readiness::default());
    assert!(calendar.knows(&shard("shard-1")));
    let frozen = |tenant: &str, seconds| calendar.frozen(&tenant.parse().unwrap(), at(seconds));
    assert_eq!(frozen("acme", day - hour - 1), None);
    let first = frozen("acme", day - hour).unwrap();
    assert_eq!(first.poll, PollId::from_number(1));
    assert_eq!(first.until, at(day + 600));
    assert!(first.to_string().contains("frozen until"), "{first}");
    assert_eq!(frozen("acme", day + hour), None);
    assert_eq!(
        frozen("acme", 9 * day).unwrap().poll,
        PollId::from_number(2)
    );
    assert_eq!(frozen("other", day), None);
    let on = |name: &str, seconds| calendar.frozen_on(&shard(name), at(seconds)).len();
    assert_eq!((on("shard-1", day), on("shard-2", day)), (1, 0));
}

#[test]
fn a_shard_that_says_nothing_keeps_what_it_told() {
    let calendar = Calendar::default();
    let poll = PollId::from_number(1);
    let told = vec![awaited("acme", 1, 10_000, 20_000)];
    let ready = Readiness::default();
    calendar.take(vec![(shard("shard-1"), Some(told))], ready);
    calendar.take(vec![(shard("shard-1"), None)], ready);
    assert_eq!(calendar.awaited().len(), 1);
    // 1,000,000 x 30 % in 10 min are 500 a second: one lane, and never fewer
    // than any poll has.
    assert_eq!(calendar.lanes_kept(poll, at(0)), Some(10));
    assert_eq!(calendar.lanes_kept(poll, at(20_000)), None);
    calendar.take(vec![(shard("shard-2"), Some(Vec::new()))], ready);
    assert!(calendar.awaited().is_empty());
}

#[tokio::test]
async fn a_poll_is_planned_for_once_though_the_process_is_started_again() {
    let (_directory, plane, _) = crate::testing::plane().await;
    let calendar = std::sync::Arc::new(Calendar::default());
    plane.keep_calendar(calendar.clone());
    let now = plane.now().unix_ms() / 1_000;
    let mut told = awaited("acme", 1, now + 60, now + 86_400);
    told.event.audience = 100_000_000;
    let told = || vec![(shard("shard-1"), Some(vec![told.clone()]))];
    calendar.take(told(), Readiness::default());
    let mut prepared = prepare::Prepared::default();
    prepared.round(&plane).await.unwrap();
    prepared.round(&plane).await.unwrap();
    let made = || async { plans::list(&plane, None, None, 10).await.unwrap() };
    let plan = made().await;
    assert_eq!(plan.len(), 1);

    // Started again: the plan is remembered, and no shard has told anything yet.
    calendar.take(Vec::new(), Readiness::default());
    let mut again = prepare::Prepared::default();
    again.remember(&plan[0].value);
    again.round(&plane).await.unwrap();
    calendar.take(told(), Readiness::default());
    again.round(&plane).await.unwrap();
    assert_eq!(made().await.len(), 1);
}
