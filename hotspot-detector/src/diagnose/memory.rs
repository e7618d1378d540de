//! What was done before, and what came of it. Keeps a cure from being repeated
//! before it was judged, and a slice from being moved for ever.

use std::collections::BTreeMap;

use ballast_domain::tenant::SliceId;
use ballast_domain::{ShardId, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::cure::Cure;
use super::finding::{Finding, WhyNot};
use super::measure;
use super::settings::Settings;
use crate::detect::{Change, Event};
use crate::load::Book;
use crate::words::duration;

/// Cures that are remembered.
const CURES_MAX: usize = 10_000;
/// Past hotspots of a shard that are remembered.
const EPISODES_MAX: usize = 16;
/// So many are enough to expect the next one to be like them.
const EPISODES_MIN: usize = 3;

/// A split that did not help is not followed by another for so long: a week.
const SPLIT_AGAIN_MS: u64 = 7 * 86_400_000;

/// In every reason that a slice is left where it is for having been moved.
pub(super) const RESTS: &str = "was moved at";

/// The number of a cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CureId(pub u64);

/// What came of a cure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// At least half of what was promised.
    Helped,
    /// Less than that.
    DidNotHelp,
    /// It could not be told: it did not end, or nothing was measured.
    Unknown,
}

/// A cure that was begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastCure {
    /// Its number.
    pub id: CureId,
    /// When it was begun.
    pub begun: Timestamp,
    /// When it was done.
    pub done: Option<Timestamp>,
    /// The shards that were hot.
    pub shards: Vec<ShardId>,
    /// What was done.
    pub cure: Cure,
    /// The first shard's fill before, and as it was promised.
    pub promised: Option<(f64, f64)>,
    /// The first shard's fill when it was judged.
    pub measured: Option<f64>,
    /// What came of it.
    pub verdict: Option<Verdict>,
}

/// What was done before.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    cures: Vec<PastCure>,
    next: u64,
    episodes: BTreeMap<ShardId, Vec<u64>>,
}

impl Memory {
    /// Notes that a finding's cure was begun.
    pub fn begin(&mut self, finding: &Finding, at: Timestamp) -> CureId {
        let promised = finding.expected.first();
        let promised = promised.map(|effect| (effect.before, effect.after));
        self.begin_cure(finding.shards.clone(), finding.cure.clone(), promised, at)
            .id
    }

    /// Notes that a cure was begun: of these shards, which promised the first of
    /// them to go from one fill to another.
    pub fn begin_cure(
        &mut self,
        shards: Vec<ShardId>,
        cure: Cure,
        promised: Option<(f64, f64)>,
        at: Timestamp,
    ) -> PastCure {
        let past = PastCure {
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

    /// Remembers a cure of before, as it was kept elsewhere.
    pub fn restore(&mut self, past: PastCure) {
        self.next = self.next.max(past.id.0 + 1);
        self.cures.push(past);
        if self.cures.len() > CURES_MAX {
            self.cures.remove(0);
        }
    }

    /// Notes that a cure is done, and is watched from now on.
    pub fn done(&mut self, id: CureId, at: Timestamp) {
        if let Some(cure) = self.cures.iter_mut().find(|cure| cure.id == id) {
            cure.done = Some(at);
        }
    }

    /// Forgets a cure that came to nothing: what was not done stands in nobody's
    /// way.
    pub fn forget(&mut self, id: CureId) {
        self.cures.retain(|cure| cure.id != id);
    }

    /// Notes which hotspots are over, and how long they lasted. One that was
    /// cured says nothing about how long the next lasts by itself.
    pub fn remember(&mut self, events: &[Event]) {
        for event in events
            .iter()
            .filter(|event| event.change == Change::Cleared)
        {
            let Some(since) = event.since else { continue };
            let shard = event.subject.shard();
            let cured =
                |past: &PastCure| past.begun >= since && past.touches(std::slice::from_ref(shard));
            if !self.cures.iter().any(cured) {
                let lasted = event.at.unix_ms().saturating_sub(since.unix_ms());
                self.ended(shard, u64::try_from(lasted).unwrap_or(0));
            }
        }
    }

    /// Notes how long a hotspot of a shard lasted.
    pub fn ended(&mut self, shard: &ShardId, lasted_ms: u64) {
        let episodes = self.episodes.entry(shard.clone()).or_default();
        episodes.push(lasted_ms);
        if episodes.len() > EPISODES_MAX {
            episodes.remove(0);
        }
    }

    /// The cures, oldest first.
    #[must_use]
    pub fn cures(&self) -> &[PastCure] {
        &self.cures
    }

    /// Judges every cure that has been watched for long enough, by what is
    /// measured now.
    pub fn judge_by(&mut self, now: Timestamp, settings: &Settings, book: &Book) -> Vec<PastCure> {
        self.judge_all(now, settings, |past| {
            measure::measured(past, book, settings)
        })
    }

    /// Judges every cure that has been watched for long enough. `fill` tells how
    /// full a shard is now; of lanes and new shards that says nothing.
    pub fn judge(
        &mut self,
        now: Timestamp,
        settings: &Settings,
        fill: impl Fn(&ShardId) -> Option<f64>,
    ) -> Vec<PastCure> {
        self.judge_all(now, settings, |past| match past.cure {
            Cure::Lanes { .. } | Cure::AddShards { .. } => None,
            _ => past.shards.first().and_then(&fill),
        })
    }

    fn judge_all(
        &mut self,
        now: Timestamp,
        settings: &Settings,
        measured: impl Fn(&PastCure) -> Option<f64>,
    ) -> Vec<PastCure> {
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
                // Fewer lanes are busier lanes: they help if they are not hot.
                (true, Some(_), Some(measured)) if narrows(&cure.cure) => {
                    match measured < settings.lane_hot {
                        true => Verdict::Helped,
                        false => Verdict::DidNotHelp,
                    }
                }
                (true, Some((before, after)), Some(measured)) => verdict(before, after, measured),
                _ => Verdict::Unknown,
            });
            judged.push(cure.clone());
        }
        judged
    }

    /// Why a cure is not to be begun now.
    pub(super) fn why_not(
        &self,
        cure: &Cure,
        shards: &[ShardId],
        now: Timestamp,
        settings: &Settings,
    ) -> Option<WhyNot> {
        if !cure.acts() {
            return None;
        }
        let newest_first = self.cures.iter().rev();
        let recent = newest_first.filter(|past| until(past, settings) > now);
        for past in recent {
            let same = past.cure.same_subject(cure);
            // Moves change the load of both ends; throttles and lanes only that
            // of their own subject.
            let moves = past.cure.moves_data() || matches!(past.cure, Cure::AddShards { .. });
            let same_shard = cure.moves_data() && moves && past.touches(shards);
            if past.verdict.is_none() && (same || same_shard) {
                return Some(being_judged(past, settings));
            }
            if past.verdict == Some(Verdict::DidNotHelp) && same && past.cure.name() == cure.name()
            {
                let because = format!("the same did not help at {}", past.begun);
                let until = Some(until(past, settings));
                return Some(WhyNot { because, until });
            }
        }
        None
    }

    /// Until when a slice rests after its last move. It also rests as long as
    /// nothing else was done on its shard: never the same slice twice in a row.
    pub(super) fn rests(
        &self,
        slice: &SliceId,
        shard: &ShardId,
        now: Timestamp,
        settings: &Settings,
    ) -> Option<String> {
        let is_of = |past: &&PastCure| past.cure.splits() == Some(&slice.tenant_id);
        let moved = |past: &&PastCure| past.cure.slices().contains(&slice) || is_of(past);
        let last = self.cures.iter().rev().find(moved)?;
        let (begun, rested) = (last.begun, rested(last, settings));
        if now < rested {
            return Some(format!("{slice} {RESTS} {begun} and rests until {rested}"));
        }
        // The parts of a split are new: none of them was moved before.
        let in_a_row = !is_of(&last) && self.is_the_last(last, shard, now, settings);
        let said = || format!("{slice} {RESTS} {begun}, and nothing else was done here since");
        in_a_row.then(said)
    }

    /// Why a tenant is not to be split now. One that it did not help is not
    /// split again for a week: what does not come apart lies in one part.
    pub(super) fn split_rests(
        &self,
        tenant: &TenantId,
        shard: &ShardId,
        now: Timestamp,
        settings: &Settings,
    ) -> Option<String> {
        let split = |past: &&PastCure| past.cure.splits() == Some(tenant);
        let last = self.cures.iter().rev().find(split)?;
        let (begun, rested) = (last.begun, rested(last, settings));
        if last.verdict == Some(Verdict::DidNotHelp) && now < plus(begun, SPLIT_AGAIN_MS) {
            return Some(format!(
                "splitting {tenant} at {begun} did not help, and more parts would not either"
            ));
        }
        if now < rested {
            return Some(format!(
                "{tenant} was split at {begun} and rests until {rested}"
            ));
        }
        let said =
            || format!("{tenant} was split at {begun}, and nothing else was done here since");
        self.is_the_last(last, shard, now, settings).then(said)
    }

    /// Whether nothing was done on a shard since a cure. After a day it is no
    /// longer in a row with anything.
    fn is_the_last(
        &self,
        last: &PastCure,
        shard: &ShardId,
        now: Timestamp,
        settings: &Settings,
    ) -> bool {
        let here = [shard.clone()];
        let newer = |past: &PastCure| past.begun > last.begun && past.touches(&here);
        let is_old = now > plus(last.begun, settings.rest_ms.saturating_mul(24));
        let is_followed = self
            .cures
            .iter()
            .any(|past| newer(past) && past.cure.acts());
        !is_followed && !is_old
    }

    /// How long hotspots of a shard last, if enough were seen: nine of ten no
    /// longer than this.
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

impl PastCure {
    /// Whether one of these shards was hot then or got something.
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

fn being_judged(past: &PastCure, settings: &Settings) -> WhyNot {
    let until = until(past, settings);
    let because = match past.done {
        None => format!(
            "the last cure ({}, begun {}) is not done yet",
            past.cure.name(),
            past.begun
        ),
        Some(done) => format!(
            "the last cure ({}, done {done}) is watched for {} before the next",
            past.cure.name(),
            duration(settings.judge_ms as f64)
        ),
    };
    WhyNot {
        because,
        until: Some(until),
    }
}

/// Until when what a cure moved rests.
fn rested(past: &PastCure, settings: &Settings) -> Timestamp {
    plus(past.done.unwrap_or(past.begun), settings.rest_ms)
}

/// Until when a cure stands in the way of others.
fn until(past: &PastCure, settings: &Settings) -> Timestamp {
    match (past.verdict, past.done) {
        // From when it was judged: what did not help is not done again at once,
        // however short the rest.
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

fn verdict(before: f64, promised: f64, measured: f64) -> Verdict {
    if before - measured >= (before - promised) / 2.0 {
        Verdict::Helped
    } else {
        Verdict::DidNotHelp
    }
}
