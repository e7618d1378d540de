//! Plans lanes for polls that expect many voters, before they open. These plans
//! are shown and approved like any other cure.

use std::collections::BTreeMap;

use ballast_domain::{PollId, Result, ShardId, Timestamp};
use ballast_hotspot_detector::diagnose::Cure;
use ballast_hotspot_detector::forecast::{PollPreparation, format_preparation, preparations};
use ballast_hotspot_detector::load::ItemName;

use super::{Calendar, ExpectedPoll};
use crate::drains::MigrationOptions;
use crate::hotspots::HotspotMode;
use crate::hotspots::plans::{self, NewPlan, PlanContent};
use crate::hotspots::records::PlanRecord;
use crate::intent::Intent;
use crate::plane::ControlPlane;

/// Polls that a plan was made for, with their closing time. Each poll gets one plan,
/// whatever its outcome. The closing time is unknown until a shard reports it; a
/// poll restored from an earlier plan is kept until then, so that it is not planned
/// for twice.
#[derive(Debug, Default)]
pub(crate) struct PreparedPolls {
    polls: BTreeMap<PollId, Option<Timestamp>>,
}

impl PreparedPolls {
    /// Restores a poll from an earlier plan.
    pub(crate) fn remember(&mut self, plan: &PlanRecord) {
        if let (None, Some(Cure::Lanes { item, .. })) = (&plan.hotspot_id, &plan.cure) {
            self.polls.insert(item.poll, None);
        }
    }

    /// Makes plans for polls that open soon and have too few lanes.
    pub(crate) async fn plan_due_polls(&mut self, plane: &ControlPlane) -> Result<()> {
        let Some(calendar) = plane.calendar() else {
            return Ok(());
        };
        let settings = plane.settings();
        let approved = match settings.hotspots.mode {
            HotspotMode::Off | HotspotMode::Observe => return Ok(()),
            HotspotMode::Propose => false,
            HotspotMode::Auto => true,
        };
        let now = plane.now();
        for (shard, awaited, prepared) in due_polls(calendar, &settings.calendar.ready, now) {
            let poll = awaited.event.poll_id;
            if !self.polls.contains_key(&poll) {
                create_plan(plane, shard, &awaited, &prepared, approved).await?;
            }
            self.polls.insert(poll, Some(awaited.event.closes_at));
        }
        // Closed polls are never due again.
        let is_open = |closes: &Option<Timestamp>| closes.is_none_or(|closes| closes > now);
        self.polls.retain(|_, closes| is_open(closes));
        Ok(())
    }
}

fn due_polls(
    calendar: &Calendar,
    ready: &ballast_hotspot_detector::forecast::PollReadiness,
    now: Timestamp,
) -> Vec<(ShardId, ExpectedPoll, PollPreparation)> {
    let awaited = calendar.expected_polls().into_iter();
    let due = awaited.filter_map(|(shard, awaited)| {
        let prepared = preparations(std::slice::from_ref(&awaited.event), ready, now);
        let prepared = prepared.into_iter().next()?;
        let is_due = prepared.widen_at <= now && awaited.lanes < prepared.lanes;
        is_due.then_some((shard, awaited, prepared))
    });
    due.collect()
}

async fn create_plan(
    plane: &ControlPlane,
    shard: ShardId,
    awaited: &ExpectedPoll,
    prepared: &PollPreparation,
    approved: bool,
) -> Result<()> {
    let cure = Cure::Lanes {
        item: ItemName {
            slice: awaited.slice.clone(),
            poll: awaited.event.poll_id,
            item: awaited.item,
        },
        from: awaited.lanes,
        to: prepared.lanes,
    };
    let ready = plane.settings().calendar.ready;
    let words = format_preparation(&awaited.event, prepared, &ready, awaited.lanes);
    let why = format!(
        "{} expects {} voters",
        awaited.event.poll_id, awaited.event.audience
    );
    let new = NewPlan {
        hotspot_id: None,
        shards: vec![shard],
        content: PlanContent::Cure(cure, Vec::new(), words),
        options: MigrationOptions::default(),
        approved,
    };
    plans::create(plane, &Intent::ballast("calendar", &why), new).await?;
    Ok(())
}
