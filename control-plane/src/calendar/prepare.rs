//! Lanes for polls that expect many voters become plans before they open: like
//! any other cure they are shown, and done by whoever may.

use std::collections::BTreeMap;

use ballast_domain::{PollId, Result, ShardId, Timestamp};
use ballast_hotspot_detector::diagnose::Cure;
use ballast_hotspot_detector::forecast::{Preparation, preparation_letter, preparations};
use ballast_hotspot_detector::load::ItemName;

use super::{Awaited, Calendar};
use crate::drains::Manner;
use crate::hotspots::Mode;
use crate::hotspots::plans::{self, Content, NewPlan};
use crate::hotspots::records::PlanRecord;
use crate::intent::Intent;
use crate::plane::ControlPlane;

/// Polls for which a plan was made: one each, whatever became of it. With the
/// time at which each closes, once a shard has told it: until then a poll of a
/// plan of before is not forgotten, else it would be planned for again.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    polls: BTreeMap<PollId, Option<Timestamp>>,
}

impl Prepared {
    /// Remembers a plan of before.
    pub(crate) fn remember(&mut self, plan: &PlanRecord) {
        if let (None, Some(Cure::Lanes { item, .. })) = (&plan.hotspot_id, &plan.cure) {
            self.polls.insert(item.poll, None);
        }
    }

    /// Makes plans for the polls that are near and have too few lanes.
    pub(crate) async fn round(&mut self, plane: &ControlPlane) -> Result<()> {
        let Some(calendar) = plane.calendar() else {
            return Ok(());
        };
        let settings = plane.settings();
        let approved = match settings.hotspots.mode {
            Mode::Off | Mode::Observe => return Ok(()),
            Mode::Propose => false,
            Mode::Auto => true,
        };
        let now = plane.now();
        for (shard, awaited, prepared) in due(calendar, &settings.calendar.ready, now) {
            let poll = awaited.event.poll_id;
            if !self.polls.contains_key(&poll) {
                plan(plane, shard, &awaited, &prepared, approved).await?;
            }
            self.polls.insert(poll, Some(awaited.event.closes_at));
        }
        // What has closed is not due again.
        let is_open = |closes: &Option<Timestamp>| closes.is_none_or(|closes| closes > now);
        self.polls.retain(|_, closes| is_open(closes));
        Ok(())
    }
}

fn due(
    calendar: &Calendar,
    ready: &ballast_hotspot_detector::forecast::Readiness,
    now: Timestamp,
) -> Vec<(ShardId, Awaited, Preparation)> {
    let awaited = calendar.awaited().into_iter();
    let due = awaited.filter_map(|(shard, awaited)| {
        let prepared = preparations(std::slice::from_ref(&awaited.event), ready, now);
        let prepared = prepared.into_iter().next()?;
        let is_due = prepared.widen_at <= now && awaited.lanes < prepared.lanes;
        is_due.then_some((shard, awaited, prepared))
    });
    due.collect()
}

async fn plan(
    plane: &ControlPlane,
    shard: ShardId,
    awaited: &Awaited,
    prepared: &Preparation,
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
    let words = preparation_letter(&awaited.event, prepared, &ready, awaited.lanes);
    let why = format!(
        "{} expects {} voters",
        awaited.event.poll_id, awaited.event.audience
    );
    let new = NewPlan {
        hotspot_id: None,
        shards: vec![shard],
        content: Content::Cure(cure, Vec::new(), words),
        manner: Manner::default(),
        approved,
    };
    plans::make(plane, &Intent::ballast("calendar", &why), new).await?;
    Ok(())
}
