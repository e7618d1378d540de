//! The diagnosis of all hotspots at one moment. Shards are looked at one by one:
//! what is wrong with one never keeps another from its cure.

use std::collections::BTreeMap;

use ballast_domain::{RegionId, ShardId, TenantId, Timestamp};

use super::borne::{self, Borne};
use super::cure::{Cause, Cure};
use super::doubt::{Doubt, Story};
use super::facts::{Fleet, ShardFacts, over};
use super::finding::{Effect, Finding, Rejected, WhyNot};
use super::memory::Memory;
use super::settings::Settings;
use super::tenants::{Answer, Case};
use super::{counters, keys, region};
use crate::detect::{Hotspot, Subject};
use crate::load::{Book, Window};
use crate::words::{duration, list, percent};

/// What a diagnosis needs.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The load.
    pub book: &'a Book,
    /// What the rules found.
    pub hotspots: &'a [Hotspot],
    /// Calls a second that tenants may make, where they are limited.
    pub limits: &'a BTreeMap<TenantId, f64>,
    /// What was done before.
    pub memory: &'a Memory,
    /// What it goes by.
    pub settings: &'a Settings,
}

/// Says what is hot and what to do about it. Every hotspot is in exactly one
/// finding.
#[must_use]
pub fn diagnose(inputs: Inputs<'_>) -> Vec<Finding> {
    let Some(now) = inputs.book.newest().filter(|_| !inputs.hotspots.is_empty()) else {
        return Vec::new();
    };
    let fleet = Fleet::new(inputs.book);
    let mut by_shard: BTreeMap<&ShardId, Vec<Hotspot>> = BTreeMap::new();
    for hotspot in inputs.hotspots {
        let shard = hotspot.subject.shard();
        by_shard.entry(shard).or_default().push(hotspot.clone());
    }
    let mut findings = Vec::new();
    let mut full: BTreeMap<RegionId, Vec<(ShardId, Vec<Hotspot>)>> = BTreeMap::new();
    for (name, hotspots) in by_shard {
        let mut round = Round {
            inputs,
            fleet: &fleet,
            now,
            name,
            findings: Vec::new(),
            held: Vec::new(),
        };
        if let Some(rest) = round.shard(hotspots)
            && let Some(facts) = fleet.shards.get(name)
        {
            let region = facts.book.region().clone();
            full.entry(region).or_default().push((name.clone(), rest));
        }
        findings.append(&mut round.findings);
    }
    let is_full = |region: &RegionId| region::full(&fleet, region, inputs.settings.level).is_some();
    let whole_fleet = fleet
        .shards
        .values()
        .all(|facts| is_full(facts.book.region()));
    for (region, shards) in full {
        let finding = region_full(&fleet, &region, shards, whole_fleet, inputs.settings, now);
        findings.extend(finding);
    }
    for finding in &mut findings {
        if finding.why_not.is_none() {
            let (memory, settings) = (inputs.memory, inputs.settings);
            finding.why_not = memory.why_not(&finding.cure, &finding.shards, now, settings);
        }
    }
    findings
}

/// The diagnosis of one shard.
struct Round<'a> {
    inputs: Inputs<'a>,
    fleet: &'a Fleet<'a>,
    now: Timestamp,
    name: &'a ShardId,
    findings: Vec<Finding>,
    /// Keys that flood the shard and are held back already.
    held: Vec<keys::Held>,
}

impl Round<'_> {
    /// Gives back the hotspots that are the region's and not the shard's.
    fn shard(&mut self, hotspots: Vec<Hotspot>) -> Option<Vec<Hotspot>> {
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

    fn load(
        &mut self,
        facts: &ShardFacts<'_>,
        load: crate::resources::Resources,
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
    fn sure(&mut self, facts: &ShardFacts<'_>, hotspots: Vec<Hotspot>, answer: Answer) {
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

    fn story(&self, facts: &ShardFacts<'_>, hotspots: &[Hotspot], price_ms: u64) -> Story {
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
    fn spike(
        &mut self,
        facts: &ShardFacts<'_>,
        hotspots: Vec<Hotspot>,
        rejected: Option<Rejected>,
    ) {
        let story = self.story(facts, &hotspots, 0);
        let lasted = story.lasted_ms;
        let fill = |used: &crate::resources::Resources| percent(used.fill(facts.book.capacity()).1);
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

    /// Hot by a rule, and still the shard has room in every dimension.
    fn bearable(&mut self, facts: &ShardFacts<'_>, hotspots: Vec<Hotspot>, explained: bool) {
        let settings = self.inputs.settings;
        let case = Case {
            fleet: self.fleet,
            name: self.name,
            facts,
            load: facts.short.used,
            settings,
            memory: self.inputs.memory,
            now: self.now,
        };
        let mut rest = Vec::new();
        for hotspot in hotspots {
            match &hotspot.subject {
                Subject::Slice { slice, .. } => match case.unfair(slice) {
                    Some(answer) => self.tell(vec![hotspot], answer),
                    None => {
                        let borne = borne::tenant(self.fleet, self.name, facts, slice, settings);
                        self.borne(vec![hotspot], borne, "move");
                    }
                },
                _ => rest.push(hotspot),
            }
        }
        if rest.is_empty() {
            return;
        }
        let fill = facts.short.fill().map_or(0.0, |(_, fill)| fill);
        let wait = facts.short.io_wait.unwrap_or_default();
        if wait.share() > settings.level && fill < settings.sick_fill && !explained {
            let of = if wait.fsync >= wait.queue {
                "for the disk"
            } else {
                "behind other writes"
            };
            let evidence = vec![
                format!(
                    "writes wait {} of the time, mostly {of}",
                    percent(wait.share())
                ),
                format!("the shard is only {} full", percent(fill)),
            ];
            let because = "moving will not help, because it is not the tenants: the shard waits with \
                           little to do, and the next tenants would wait too";
            self.push(
                rest,
                Cause::SickShard {
                    wait: wait.share(),
                    fill,
                },
                Cure::Nothing,
                evidence,
                "Look at the shard's disk and its neighbours on the same machine. If it stays so, \
                 drain the shard.",
                vec![Rejected {
                    cure: "move",
                    because: because.to_owned(),
                }],
            );
            return;
        }
        if let Some(held) = self.held.pop() {
            self.findings.push(held.held(self.now, self.name, rest));
            return;
        }
        let borne = borne::shard(self.fleet, self.name, facts, settings);
        if borne.is_some() {
            self.borne(rest, borne, "move");
            return;
        }
        let evidence = vec![format!(
            "the shard is {} full, no dimension is too full",
            percent(fill)
        )];
        let because = "moving will not help, because its tenants are not what fills the shard: \
                       there is room in every dimension";
        self.push(
            rest,
            Cause::Unexplained,
            Cure::Nothing,
            evidence,
            "Look at the rule's numbers in the evidence and at what changed when it began.",
            vec![Rejected {
                cure: "move",
                because: because.to_owned(),
            }],
        );
    }

    fn tell(&mut self, hotspots: Vec<Hotspot>, mut answer: Answer) {
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

    fn push(
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

    fn flood(
        &mut self,
        flood: keys::Flood,
        before: (crate::resources::Dimension, f64),
        load: &crate::resources::Resources,
        facts: &ShardFacts<'_>,
    ) {
        let (dimension, before) = before;
        let after = load[dimension] / facts.book.capacity()[dimension];
        self.push(
            Vec::new(),
            flood.cause,
            flood.cure,
            flood.evidence,
            "If its calls do not get fewer, revoke the key and ask the tenant.",
            vec![Rejected {
                cure: "move",
                because: "moving will not help, because the key would flood the next shard"
                    .to_owned(),
            }],
        );
        if let Some(last) = self.findings.last_mut() {
            let shard = self.name.clone();
            last.expected = vec![Effect {
                shard,
                dimension: Some(dimension),
                before,
                after,
            }];
        }
    }

    /// What is to be said of counters; how many are hot.
    fn counters(&mut self, facts: &ShardFacts<'_>, hotspots: Vec<Hotspot>, busy: bool) -> usize {
        let (fleet, settings) = (self.fleet, self.inputs.settings);
        let mut of_item: BTreeMap<_, Vec<Hotspot>> = BTreeMap::new();
        for hotspot in hotspots {
            if let Subject::Item { item, .. } = &hotspot.subject {
                of_item.entry(item.clone()).or_default().push(hotspot);
            }
        }
        let mut many = 0;
        for counter in counters::hot(fleet, facts, settings) {
            let hotspots = of_item.remove(&counter.name).unwrap_or_default();
            if hotspots.is_empty() && !busy {
                continue;
            }
            many += 1;
            self.counter(counter, hotspots);
        }
        // Lanes are the poll's: of its cool items the first speaks for all. It
        // matters no more how votes of before lie on lanes that are taken away.
        let mut cool: BTreeMap<_, (counters::Counter, Vec<Hotspot>)> = BTreeMap::new();
        for (item, hotspots) in of_item {
            if let Some(counter) = counters::cool(fleet, facts, &item, settings) {
                let poll = (item.slice, item.poll);
                let said = cool.entry(poll).or_insert_with(|| (counter, Vec::new()));
                said.1.extend(hotspots);
            } else if let Some(counter) = counters::skewed(fleet, facts, &item) {
                self.counter(counter, hotspots);
            } else {
                let borne = borne::counter(fleet, facts, &item, settings);
                self.borne(hotspots, borne, "more lanes");
            }
        }
        for (counter, hotspots) in cool.into_values() {
            self.counter(counter, hotspots);
        }
        many
    }

    fn counter(&mut self, counter: counters::Counter, hotspots: Vec<Hotspot>) {
        let (cause, cure) = (counter.cause, counter.cure);
        self.push(
            hotspots,
            cause,
            cure,
            counter.evidence,
            &counter.otherwise,
            counter.rejected,
        );
        let effect = counter.lane.map(|(before, after)| Effect {
            shard: self.name.clone(),
            dimension: Some(crate::resources::Dimension::Votes),
            before,
            after,
        });
        if let Some(last) = self.findings.last_mut() {
            last.expected = effect.into_iter().collect();
        }
    }

    /// A rule calls it hot, and it is less than what is too much.
    fn borne(&mut self, hotspots: Vec<Hotspot>, borne: Option<Borne>, cure: &'static str) {
        let Some(borne) = borne else {
            // It is no longer among what was measured.
            self.passing(hotspots);
            return;
        };
        let because = borne.because;
        self.push(
            hotspots,
            Cause::Borne { fill: borne.fill },
            Cure::Nothing,
            borne.evidence,
            &borne.otherwise,
            vec![Rejected { cure, because }],
        );
    }

    fn passing(&mut self, hotspots: Vec<Hotspot>) {
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

    fn unmeasured(&mut self, hotspots: Vec<Hotspot>) {
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

fn region_full(
    fleet: &Fleet<'_>,
    name: &RegionId,
    shards: Vec<(ShardId, Vec<Hotspot>)>,
    whole_fleet: bool,
    settings: &Settings,
    now: Timestamp,
) -> Option<Finding> {
    let full = region::full(fleet, name, settings.level)?;
    let dimension = full.dimension;
    let hot: Vec<_> = shards.iter().map(|(shard, _)| shard.to_string()).collect();
    let after = full.fill * full.shards as f64 / (full.shards as f64 + f64::from(full.missing));
    let expected = shards.iter().filter_map(|(shard, _)| {
        let facts = fleet.shards.get(shard)?;
        let before = facts.short.used[dimension] / facts.book.capacity()[dimension];
        let (shard, dimension) = (shard.clone(), Some(dimension));
        Some(Effect {
            shard,
            dimension,
            before,
            after,
        })
    });
    let first = shards.first().map(|(shard, _)| Effect {
        shard: shard.clone(),
        dimension: Some(dimension),
        before: full.fill,
        after,
    });
    Some(Finding {
        at: now,
        cause: Cause::RegionFull {
            region: name.clone(),
            dimension,
            fill: full.fill,
            whole_fleet,
        },
        evidence: vec![
            format!(
                "the {} shards of {name} together are {} full ({}) in the short and {} in the long window",
                full.shards,
                percent(full.fill),
                dimension.name(),
                percent(full.fill_long)
            ),
            format!("hot are {}", list(&hot)),
        ],
        cure: Cure::AddShards {
            region: name.clone(),
            count: full.missing,
        },
        expected: first.into_iter().chain(expected).collect(),
        otherwise:
            "New shards take new tenants at once; the others are moved by the next findings. \
                    If load grows as fast, add more at a time."
                .to_owned(),
        rejected: vec![Rejected {
            cure: "move",
            because: format!(
                "moving will not help, because spread evenly every shard would still be {} full",
                percent(full.fill)
            ),
        }],
        hotspots: shards
            .iter()
            .flat_map(|(_, hotspots)| hotspots.clone())
            .collect(),
        shards: shards.into_iter().map(|(shard, _)| shard).collect(),
        why_not: None,
    })
}
