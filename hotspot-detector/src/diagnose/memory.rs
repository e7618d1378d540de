//! The history of cures and their results. Prevents repeating a cure before it was judged,
//! and moving a slice again and again.

use std::collections::BTreeMap;

use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::cure::Cure;
use super::finding::{CureDeferral, Finding};
use super::measure;
use super::settings::DiagnosisSettings;
use crate::detect::{HotspotEvent, HotspotTransition};
use crate::format::duration;
use crate::load::LoadHistory;

/// Cures kept.
const CURES_MAX: usize = 10_000;
/// Past hotspots kept per shard.
const EPISODES_MAX: usize = 16;
/// Past hotspots needed to predict the duration of the next one.
const EPISODES_MIN: usize = 3;

/// How long a tenant is not split again after a split that did not help: a week.
const SPLIT_AGAIN_MS: u64 = 7 * 86_400_000;

/// Part of every rejection because of a recent move.
pub(super) const RESTS: &str = "was moved at";

/// The number of a cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CureId(pub u64);

/// The result of a cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CureVerdict {
    /// At least half of the expected effect was measured.
    Helped,
    /// Less than that.
    DidNotHelp,
    /// Unknown: it did not end, or nothing was measured.
    Unknown,
}

/// A cure that was begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CureRecord {
    /// Its number.
    pub id: CureId,
    /// When it was begun.
    pub begun: Timestamp,
    /// When it was done.
    pub done: Option<Timestamp>,
    /// The shards that were hot.
    pub shards: Vec<ShardId>,
    /// The cure.
    pub cure: Cure,
    /// The first shard's fill before, and the expected fill afterwards.
    pub promised: Option<(f64, f64)>,
    /// The first shard's fill when the cure was judged.
    pub measured: Option<f64>,
    /// Its result.
    pub verdict: Option<CureVerdict>,
}

/// The history of cures and hotspots.
#[derive(Debug, Clone, Default)]
pub struct CureHistory {
    cures: Vec<CureRecord>,
    next: u64,
    episodes: BTreeMap<ShardId, Vec<u64>>,
}

impl CureHistory {
    /// Records that a finding's cure was begun.
    pub fn begin(&mut self, finding: &Finding, at: Timestamp) -> CureId {
        let promised = finding.expected.first();
        let promised = promised.map(|effect| (effect.before, effect.after));
        self.begin_cure(finding.shards.clone(), finding.cure.clone(), promised, at)
            .id
    }

    /// Records that a cure was begun for these shards, with the expected change of the first
    /// shard's fill.
    pub fn begin_cure(
        &mut self,
        shards: Vec<ShardId>,
        cure: Cure,
        promised: Option<(f64, f64)>,
        at: Timestamp,
    ) -> CureRecord {
        let past = CureRecord {
            id: CureId(self.next),
            begun: at,
            done: None,
            shards,
            cure,
            promised,
            measured: None,
            verdict: None,
        };
        self.restore(past.clone());
        past
    }

    /// Adds a stored cure.
    pub fn restore(&mut self, past: CureRecord) {
        self.next = self.next.max(past.id.0 + 1);
        self.cures.push(past);
        if self.cures.len() > CURES_MAX {
            self.cures.remove(0);
        }
    }

    /// Records that a cure is done; its result is judged later.
    pub fn record_completion(&mut self, id: CureId, at: Timestamp) {
        if let Some(cure) = self.cures.iter_mut().find(|cure| cure.id == id) {
            cure.done = Some(at);
        }
    }

    /// Removes a cure that was not carried out, so that it does not block others.
    pub fn forget(&mut self, id: CureId) {
        self.cures.retain(|cure| cure.id != id);
    }

    /// Records the durations of ended hotspots. A cured hotspot says nothing about how long the
    /// next one lasts without a cure.
    pub fn remember(&mut self, events: &[HotspotEvent]) {
        for event in events
            .iter()
            .filter(|event| event.change == HotspotTransition::Cleared)
        {
            let Some(since) = event.since else { continue };
            let shard = event.subject.shard();
            let cured = |past: &CureRecord| {
                past.begun >= since && past.touches(std::slice::from_ref(shard))
            };
            if !self.cures.iter().any(cured) {
                let lasted = event.at.unix_ms().saturating_sub(since.unix_ms());
                self.record_duration(shard, u64::try_from(lasted).unwrap_or(0));
            }
        }
    }

    /// Records how long a hotspot of a shard lasted.
    pub fn record_duration(&mut self, shard: &ShardId, lasted_ms: u64) {
        let episodes = self.episodes.entry(shard.clone()).or_default();
        episodes.push(lasted_ms);
        if episodes.len() > EPISODES_MAX {
            episodes.remove(0);
        }
    }

    /// The cures, oldest first.
    #[must_use]
    pub fn cures(&self) -> &[CureRecord] {
        &self.cures
    }

    /// Judges every cure whose observation time is over, by the current measurements.
    pub fn judge_by_history(
        &mut self,
        now: Timestamp,
        settings: &DiagnosisSettings,
        history: &LoadHistory,
    ) -> Vec<CureRecord> {
        self.judge_all(now, settings, |past| {
            measure::measured(past, history, settings)
        })
    }

    /// Judges every cure whose observation time is over. `fill` returns a shard's current fill,
    /// which does not apply to lanes and new shards.
    pub fn judge(
        &mut self,
        now: Timestamp,
        settings: &DiagnosisSettings,
        fill: impl Fn(&ShardId) -> Option<f64>,
    ) -> Vec<CureRecord> {
        self.judge_all(now, settings, |past| match past.cure {
            Cure::Lanes { .. } | Cure::AddShards { .. } => None,
            _ => past.shards.first().and_then(&fill),
        })
    }

    fn judge_all(
        &mut self,
        now: Timestamp,
        settings: &DiagnosisSettings,
        measured: impl Fn(&CureRecord) -> Option<f64>,
    ) -> Vec<CureRecord> {
        let mut judged = Vec::new();
        let open = self.cures.iter_mut().filter(|cure| cure.verdict.is_none());
        for cure in open {
            let since = |from: Timestamp| now.unix_ms().saturating_sub(from.unix_ms());
            let ripe = cure
                .done
                .is_some_and(|done| since(done) >= settings.judge_ms as i64);
            let stuck = since(cure.begun) >= settings.give_up_ms as i64;
            if !ripe && !stuck {
                continue;
            }
            let measured = measured(cure);
            cure.measured = measured;
            cure.verdict = Some(match (ripe, cure.promised, measured) {
                // Fewer lanes are busier: the cure helped if they are not hot.
                (true, Some(_), Some(measured)) if narrows(&cure.cure) => {
                    match measured < settings.lane_hot {
                        true => CureVerdict::Helped,
                        false => CureVerdict::DidNotHelp,
                    }
                }
                (true, Some((before, after)), Some(measured)) => verdict(before, after, measured),
                _ => CureVerdict::Unknown,
            });
            judged.push(cure.clone());
        }
        judged
    }

    /// Why a cure is deferred, if it is.
    pub(super) fn why_not(
        &self,
        cure: &Cure,
        shards: &[ShardId],
        now: Timestamp,
        settings: &DiagnosisSettings,
    ) -> Option<CureDeferral> {
        if !cure.acts() {
            return None;
        }
        let newest_first = self.cures.iter().rev();
        let recent = newest_first.filter(|past| until(past, settings) > now);
        for past in recent {
            let same = past.cure.same_subject(cure);
            // Moving data changes the load of both shards; throttles and lanes only that of
            // their own subject.
            let moves = past.cure.moves_data() || matches!(past.cure, Cure::AddShards { .. });
            let same_shard = cure.moves_data() && moves && past.touches(shards);
            if past.verdict.is_none() && (same || same_shard) {
                return Some(being_judged(past, settings));
            }
            if past.verdict == Some(CureVerdict::DidNotHelp)
                && same
                && past.cure.name() == cure.name()
            {
                let because = format!("the same cure did not help at {}", past.begun);
                let until = Some(until(past, settings));
                return Some(CureDeferral { because, until });
            }
        }
        None
    }

    /// Why a slice is not moved again yet: its rest period, or because its move was the last
    /// cure on its shard (never the same slice twice in a row).
    pub(super) fn rest_reason(
        &self,
        slice: &SliceId,
        shard: &ShardId,
        now: Timestamp,
        settings: &DiagnosisSettings,
    ) -> Option<String> {
        let is_of = |past: &&CureRecord| past.cure.splits() == Some(&slice.tenant_id);
        let moved = |past: &&CureRecord| past.cure.slices().contains(&slice) || is_of(past);
        let last = self.cures.iter().rev().find(moved)?;
        let (begun, rested) = (last.begun, rested(last, settings));
        let slice = slice.label();
        if now < rested {
            return Some(format!(
                "{slice} {RESTS} {begun} and is not moved again before {rested}"
            ));
        }
        // The parts of a split are new slices that were not moved before.
        let in_a_row = !is_of(&last) && self.is_the_last(last, shard, now, settings);
        let said = || format!("{slice} {RESTS} {begun}, and no other cure was applied here since");
        in_a_row.then(said)
    }

    /// Why a tenant is not split again yet. After a split that did not help it is not split
    /// for a week: its load lies in one part.
    pub(super) fn split_rest_reason(
        &self,
        tenant: &TenantId,
        shard: &ShardId,
        now: Timestamp,
        settings: &DiagnosisSettings,
    ) -> Option<String> {
        let split = |past: &&CureRecord| past.cure.splits() == Some(tenant);
        let last = self.cures.iter().rev().find(split)?;
        let (begun, rested) = (last.begun, rested(last, settings));
        if last.verdict == Some(CureVerdict::DidNotHelp) && now < plus(begun, SPLIT_AGAIN_MS) {
            return Some(format!(
                "splitting {tenant} at {begun} did not help, and more parts would not help either"
            ));
        }
        if now < rested {
            return Some(format!(
                "{tenant} was split at {begun} and is not split again before {rested}"
            ));
        }
        let said =
            || format!("{tenant} was split at {begun}, and no other cure was applied here since");
        self.is_the_last(last, shard, now, settings).then(said)
    }

    /// Whether a cure is the last one on a shard. After a day it no longer counts.
    fn is_the_last(
        &self,
        last: &CureRecord,
        shard: &ShardId,
        now: Timestamp,
        settings: &DiagnosisSettings,
    ) -> bool {
        let here = [shard.clone()];
        let newer = |past: &CureRecord| past.begun > last.begun && past.touches(&here);
        let is_old = now > plus(last.begun, settings.rest_ms.saturating_mul(24));
        let is_followed = self
            .cures
            .iter()
            .any(|past| newer(past) && past.cure.acts());
        !is_followed && !is_old
    }

    /// The 90th percentile of the durations of a shard's hotspots, if there were enough.
    pub(super) fn usual_ms(&self, shard: &ShardId) -> Option<u64> {
        let mut episodes = self.episodes.get(shard)?.clone();
        if episodes.len() < EPISODES_MIN {
            return None;
        }
        episodes.sort_unstable();
        let at = (episodes.len() * 9).div_ceil(10) - 1;
        episodes.get(at).copied()
    }
}

impl CureRecord {
    /// Whether it involved one of these shards, as a hot shard or as a target.
    fn touches(&self, shards: &[ShardId]) -> bool {
        let targets = match &self.cure {
            Cure::Move { slices, .. } => slices.iter().map(|placed| &placed.to).collect(),
            _ => Vec::new(),
        };
        shards
            .iter()
            .any(|shard| self.shards.contains(shard) || targets.contains(&shard))
    }
}

fn being_judged(past: &CureRecord, settings: &DiagnosisSettings) -> CureDeferral {
    let until = until(past, settings);
    let because = match past.done {
        None => format!(
            "the last cure ({}, begun {}) is not done yet",
            past.cure.name(),
            past.begun
        ),
        Some(done) => format!(
            "the result of the last cure ({}, done {done}) is observed for {} first",
            past.cure.name(),
            duration(settings.judge_ms as f64)
        ),
    };
    CureDeferral {
        because,
        until: Some(until),
    }
}

/// The end of the rest period of a cure's subject.
fn rested(past: &CureRecord, settings: &DiagnosisSettings) -> Timestamp {
    plus(past.done.unwrap_or(past.begun), settings.rest_ms)
}

/// Until when a cure blocks others.
fn until(past: &CureRecord, settings: &DiagnosisSettings) -> Timestamp {
    match (past.verdict, past.done) {
        // Counted from the judgement: a cure that did not help is not repeated immediately,
        // however short the rest period.
        (Some(_), Some(done)) => plus(plus(done, settings.judge_ms), settings.rest_ms),
        (Some(_), None) => plus(plus(past.begun, settings.give_up_ms), settings.rest_ms),
        (None, Some(done)) => plus(done, settings.judge_ms),
        (None, None) => plus(past.begun, settings.give_up_ms),
    }
}

fn plus(at: Timestamp, ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timestamp::from_unix_ms(at.unix_ms().saturating_add(ms))
}

fn narrows(cure: &Cure) -> bool {
    matches!(cure, Cure::Lanes { from, to, .. } if to < from)
}

fn verdict(before: f64, promised: f64, measured: f64) -> CureVerdict {
    if before - measured >= (before - promised) / 2.0 {
        CureVerdict::Helped
    } else {
        CureVerdict::DidNotHelp
    }
}
