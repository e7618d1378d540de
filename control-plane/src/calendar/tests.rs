//! Tests of the calendar.

use super::*;
use crate::hotspots::plans;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(seconds * 1_000)
}

fn shard(name: &str) -> ShardId {
    name.parse().unwrap()
}

fn awaited(tenant: &str, poll: u128, opens: i64, closes: i64) -> ExpectedPoll {
    let poll_id = PollId::from_number(poll);
    let tenant_id: TenantId = tenant.parse().unwrap();
    ExpectedPoll {
        event: ScheduledPoll {
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
        item: ItemId::from_position(poll_id, 0),
        lanes: 10,
    }
}

#[test]
fn a_tenant_is_frozen_around_its_poll() {
    let calendar = Calendar::default();
    assert!(!calendar.has_report_from(&shard("shard-1")));
    let (day, hour) = (86_400, 3_600);
    let polls = vec![
        awaited("acme", 1, day, 2 * day),
        awaited("acme", 2, 9 * day, 10 * day),
    ];
    calendar.apply_reports(
        vec![(shard("shard-1"), Some(polls))],
        PollReadiness::default(),
    );
    assert!(calendar.has_report_from(&shard("shard-1")));
    let frozen = |tenant: &str, seconds| calendar.freeze_for(&tenant.parse().unwrap(), at(seconds));
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
    let on = |name: &str, seconds| calendar.frozen_tenants(&shard(name), at(seconds)).len();
    assert_eq!((on("shard-1", day), on("shard-2", day)), (1, 0));
}

#[test]
fn a_silent_shard_keeps_its_last_report() {
    let calendar = Calendar::default();
    let poll = PollId::from_number(1);
    let polls = vec![awaited("acme", 1, 10_000, 20_000)];
    let ready = PollReadiness::default();
    calendar.apply_reports(vec![(shard("shard-1"), Some(polls))], ready);
    calendar.apply_reports(vec![(shard("shard-1"), None)], ready);
    assert_eq!(calendar.expected_polls().len(), 1);
    // 30 % of 1,000,000 voters in 10 minutes are 500 per second: one lane would
    // do, but polls never have fewer than the default.
    assert_eq!(calendar.required_lanes(poll, at(0)), Some(10));
    assert_eq!(calendar.required_lanes(poll, at(20_000)), None);
    calendar.apply_reports(vec![(shard("shard-2"), Some(Vec::new()))], ready);
    assert!(calendar.expected_polls().is_empty());
}

#[tokio::test]
async fn a_poll_is_planned_for_once_across_restarts() {
    let (_directory, plane, _) = crate::testing::plane().await;
    let calendar = std::sync::Arc::new(Calendar::default());
    plane.set_calendar(calendar.clone());
    let now = plane.now().unix_ms() / 1_000;
    let mut poll = awaited("acme", 1, now + 60, now + 86_400);
    poll.event.audience = 100_000_000;
    let report = || vec![(shard("shard-1"), Some(vec![poll.clone()]))];
    calendar.apply_reports(report(), PollReadiness::default());
    let mut prepared = prepare::PreparedPolls::default();
    prepared.plan_due_polls(&plane).await.unwrap();
    prepared.plan_due_polls(&plane).await.unwrap();
    let made = || async { plans::list(&plane, None, None, 10).await.unwrap() };
    let plan = made().await;
    assert_eq!(plan.len(), 1);

    // After a restart: the plan is restored, and no shard has reported yet.
    calendar.apply_reports(Vec::new(), PollReadiness::default());
    let mut again = prepare::PreparedPolls::default();
    again.remember(&plan[0].value);
    again.plan_due_polls(&plane).await.unwrap();
    calendar.apply_reports(report(), PollReadiness::default());
    again.plan_due_polls(&plane).await.unwrap();
    assert_eq!(made().await.len(), 1);
}
