//! The diagnosis of one shard: is it a spike, a load that is too much, or one
//! that it bears.

use ballast_domain::{ShardId, Timestamp};

use super::cure::{Cause, Cure};
use super::doubt::{Doubt, Story};
use super::facts::{Fleet, ShardFacts, over};
use super::finding::{Finding, Rejected, WhyNot};
use super::run::Inputs;
use super::tenants::{Answer, Case};
use super::{keys, region};
use crate::detect::{Hotspot, Subject};
use crate::load::Window;
use crate::resources::Resources;
use crate::words::{duration, percent};

/// The diagnosis of one shard.
pub(super) struct Round<'a> {
    pub(super) inputs: Inputs<'a>,
    pub(super) fleet: &'a Fleet<'a>,
    pub(super) now: Timestamp,
    pub(super) name: &'a ShardId,
    pub(super) findings: Vec<Finding>,
    /// Keys that flood the shard and are held back already.
    pub(super) held: Vec<keys::Held>,
}

impl Round<'_> {
    /// Gives back the hotspots that are the region's and not the shard's.
    pub(super) fn shard(&mut self, hotspots: Vec<Hotspot>) -> Option<Vec<Hotspot>> {
        let (easing, hotspots): (Vec<_>, Vec<_>) =
            hotspots.into_iter().partition(|hotspot| hotspot.is_easing);
        self.passing(easing);
        if hotspots.is_empty() {
            return None;
        }
        let fleet = self.fleet;
        let Some(facts) = fleet.shards.get(self.name).filter(|facts| facts.is_fresh) else {
            self.unmeasured(hotspots);
            return None;
        };
        let is_item = |hotspot: &Hotspot| matches!(hotspot.subject, Subject::Item { .. });
        let (items, loads): (Vec<_>, Vec<_>) = hotspots.into_iter().partition(is_item);
        let mut load = facts.short.used;
        if !loads.is_empty() {
            let (floods, held) =
                keys::floods(fleet, facts, self.inputs.limits, self.inputs.settings);
            for flood in floods {
                let before = load.fill(facts.book.capacity());
                load -= flood.used;
                self.flood(flood, before, &load, facts);
            }
            self.held = held;
        }
        let counters = self.counters(facts, items, !loads.is_empty());
        if loads.is_empty() {
            return None;
        }
        self.load(facts, load, loads, counters > 0)
    }

    pub(super) fn load(
        &mut self,
        facts: &ShardFacts<'_>,
        load: Resources,
        hotspots: Vec<Hotspot>,
        waits_are_explained: bool,
    ) -> Option<Vec<Hotspot>> {
        let settings = self.inputs.settings;
        let capacity = facts.book.capacity();
        let is_over = !over(&load, capacity, settings.level).is_empty();
        if !is_over {
            if self.findings.iter().any(|finding| finding.cure.acts()) {
                // What was found first explains all of it.
                let first = self.findings.iter_mut().find(|finding| finding.cure.acts());
                first?.hotspots.extend(hotspots);
                return None;
            }
            self.bearable(facts, hotspots, waits_are_explained);
            return None;
        }
        let case = Case {
            fleet: self.fleet,
            name: self.name,
            facts,
            load,
            settings,
            memory: self.inputs.memory,
            now: self.now,
        };
        let region = facts.book.region();
        let full = region::full(self.fleet, region, settings.level)
            .filter(|_| self.fleet.unseen_in(region).is_none());
        let answer = match (case.too_big(), full) {
            (Some(answer), _) => answer,
            (None, None) => case.too_full(),
            (None, Some(full)) => {
                let is_known = self.inputs.book.is_well_known(facts.book);
                if full.fill_long > settings.level && is_known {
                    return Some(hotspots);
                }
                self.spike(facts, hotspots, None);
                return None;
            }
        };
        self.sure(facts, hotspots, answer);
        None
    }

    /// What moves data has to be sure: the long window says so too, and
    /// hotspots of this shard do not usually pass before a move could end.
    pub(super) fn sure(&mut self, facts: &ShardFacts<'_>, hotspots: Vec<Hotspot>, answer: Answer) {
        let settings = self.inputs.settings;
        let price_ms = match &answer.cure {
            Cure::Move { price_ms, .. } | Cure::Split { price_ms, .. } => *price_ms,
            _ => 0,
        };
        let story = self.story(facts, &hotspots, price_ms);
        let swings = match story.doubt(facts, settings) {
            Some(Doubt::Spike(spike)) => {
                let because = story.because(spike);
                let cure = answer.cure.name();
                let rejected = Rejected { cure, because };
                self.spike(
                    facts,
                    hotspots,
                    Some(rejected).filter(|_| answer.cure.acts()),
                );
                return;
            }
            Some(Doubt::Swings) if answer.cure.acts() => Some(WhyNot {
                because: story.swings(settings),
                until: None,
            }),
            Some(Doubt::Swings) | None => None,
        };
        let first_do = self.findings.iter().find(|finding| finding.cure.acts());
        let why_not = first_do
            .filter(|_| answer.cure.moves_data())
            .map(|finding| WhyNot {
                because: format!("{} is tried first: it costs nothing", finding.cure.name()),
                until: None,
            });
        self.tell(hotspots, answer);
        if let Some(last) = self.findings.last_mut() {
            last.why_not = why_not.or(swings);
        }
    }

    pub(super) fn story(
        &self,
        facts: &ShardFacts<'_>,
        hotspots: &[Hotspot],
        price_ms: u64,
    ) -> Story {
        Story {
            is_known: self.inputs.book.is_well_known(facts.book),
            least: self.inputs.book.least_fill(facts.book).unwrap_or(0.0),
            lasted_ms: lasted_ms(hotspots, self.now),
            long_ms: self.inputs.book.spans().length_ms(Window::Long),
            price_ms,
            usual_ms: self.inputs.memory.usual_ms(self.name),
        }
    }

    /// Too young, or too short, to be worth a cure.
    pub(super) fn spike(
        &mut self,
        facts: &ShardFacts<'_>,
        hotspots: Vec<Hotspot>,
        rejected: Option<Rejected>,
    ) {
        let story = self.story(facts, &hotspots, 0);
        let lasted = story.lasted_ms;
        let fill = |used: &Resources| percent(used.fill(facts.book.capacity()).1);
        let long = facts.long.as_ref().map(|long| fill(&long.used));
        let mut evidence = vec![format!(
            "{} is {} full in the short and {} in the long window",
            self.name,
            fill(&facts.short.used),
            long.as_deref().unwrap_or("not measured")
        )];
        evidence.push(format!("it has lasted {}", duration(lasted as f64)));
        if let Some(usual) = story.usual_ms {
            let usual = duration(usual as f64);
            evidence.push(format!(
                "nine of ten hotspots of this shard passed within {usual}"
            ));
        }
        let wait_ms = story
            .usual_ms
            .unwrap_or(story.long_ms / 2)
            .saturating_sub(lasted)
            .max(60_000);
        self.push(
            hotspots,
            Cause::Spike { lasted_ms: lasted },
            Cure::Wait {
                until: later(self.now, wait_ms),
            },
            evidence,
            "If it lasts, the long window shows it and the finding names a cure.",
            rejected.into_iter().collect(),
        );
    }

    pub(super) fn tell(&mut self, hotspots: Vec<Hotspot>, mut answer: Answer) {
        // What floods and is held back already is no cause, and worth a word.
        for held in &self.held {
            answer.evidence.extend(held.evidence.iter().cloned());
        }
        self.findings.push(Finding {
            at: self.now,
            shards: vec![self.name.clone()],
            hotspots,
            cause: answer.cause,
            evidence: answer.evidence,
            cure: answer.cure,
            expected: answer.expected,
            otherwise: answer.otherwise,
            rejected: answer.rejected,
            why_not: None,
        });
    }

    pub(super) fn push(
        &mut self,
        hotspots: Vec<Hotspot>,
        cause: Cause,
        cure: Cure,
        evidence: Vec<String>,
        otherwise: &str,
        rejected: Vec<Rejected>,
    ) {
        self.findings.push(Finding {
            at: self.now,
            shards: vec![self.name.clone()],
            hotspots,
            cause,
            evidence,
            cure,
            expected: Vec::new(),
            otherwise: otherwise.to_owned(),
            rejected,
            why_not: None,
        });
    }

    pub(super) fn passing(&mut self, hotspots: Vec<Hotspot>) {
        if hotspots.is_empty() {
            return;
        }
        let lasted_ms = lasted_ms(&hotspots, self.now);
        self.push(
            hotspots,
            Cause::Spike { lasted_ms },
            Cure::Wait { until: self.now },
            vec!["it looks over: the rule waits for it to stay so".to_owned()],
            "If it comes back, it is judged anew.",
            Vec::new(),
        );
    }

    pub(super) fn unmeasured(&mut self, hotspots: Vec<Hotspot>) {
        self.push(
            hotspots,
            Cause::Unexplained,
            Cure::Wait { until: self.now },
            vec![format!("{} was not measured of late", self.name)],
            "See whether the shard is there and why it tells nothing.",
            Vec::new(),
        );
    }
}

fn later(at: Timestamp, ms: u64) -> Timestamp {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timestamp::from_unix_ms(at.unix_ms().saturating_add(ms))
}

fn lasted_ms(hotspots: &[Hotspot], now: Timestamp) -> u64 {
    let since = hotspots
        .iter()
        .map(|hotspot| hotspot.since)
        .min()
        .unwrap_or(now);
    u64::try_from(now.unix_ms() - since.unix_ms()).unwrap_or(0)
}
