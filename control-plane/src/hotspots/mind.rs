//! What is known of hotspots in memory: where every rule stands, what was done
//! before, and what is found now. It is filled from what is recorded, so a
//! process that was killed goes on where it was.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ballast_domain::{ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::detect::{self, Detector, Standing, Subject, explain_shard};
use ballast_hotspot_detector::diagnose::{
    Cure, Finding, Inputs, Memory, PastCure, Settings, diagnose,
};
use ballast_hotspot_detector::load::{Book, Sample};
use ballast_hotspot_detector::rules::Ruleset;

/// What is known. One for all who ask.
#[derive(Default)]
pub struct Mind {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    rules: Option<Arc<Ruleset>>,
    detector: Detector,
    memory: Memory,
    findings: Vec<Finding>,
}

impl Mind {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Each look begins from what is measured: nothing is half done for long.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds out where rules stand from what was recorded, as if they had been
    /// looked at all the time.
    pub fn replay(&self, rules: &Arc<Ruleset>, samples: Vec<Sample>) {
        let mut book = Book::new(rules.spans);
        let mut detector = Detector::default();
        let mut known = self.known();
        for sample in samples {
            if book.take(sample).is_ok() {
                let events = detector.pass(rules, &book);
                known.memory.remember(&events);
            }
        }
        known.detector = detector;
        known.rules = Some(Arc::clone(rules));
    }

    /// Whether these rules are the ones that are looked at.
    pub fn has(&self, rules: &Arc<Ruleset>) -> bool {
        self.known().rules.as_ref() == Some(rules)
    }

    /// Judges every rule on what was measured; whether anything is hot.
    pub fn look(&self, rules: &Ruleset, book: &Book) -> Vec<detect::Hotspot> {
        let mut known = self.known();
        let events = known.detector.pass(rules, book);
        known.memory.remember(&events);
        known.detector.hotspots(rules)
    }

    /// Says what is really hot, and what helps.
    pub fn diagnose(
        &self,
        book: &Book,
        hotspots: &[detect::Hotspot],
        limits: &BTreeMap<TenantId, f64>,
        settings: &Settings,
    ) -> Vec<Finding> {
        let mut known = self.known();
        let findings = diagnose(Inputs {
            book,
            hotspots,
            limits,
            memory: &known.memory,
            settings,
        });
        known.findings.clone_from(&findings);
        findings
    }

    /// Forgets where rules stand: nobody looks any more.
    pub fn rest(&self) {
        let mut known = self.known();
        known.rules = None;
        known.detector = Detector::default();
        known.findings = Vec::new();
    }

    /// What was found at the last look.
    pub fn findings(&self) -> Vec<Finding> {
        self.known().findings.clone()
    }

    /// Where every rule stands on a shard and on what is on it.
    pub fn standings(
        &self,
        rules: &Ruleset,
        book: &Book,
        shard: &ShardId,
    ) -> Vec<(Subject, Standing)> {
        explain_shard(rules, book, &self.known().detector, shard)
    }

    /// Remembers a cure of before.
    pub fn restore(&self, past: PastCure) {
        self.known().memory.restore(past);
    }

    /// Notes that a cure was begun.
    pub fn begin(
        &self,
        shards: Vec<ShardId>,
        cure: Cure,
        promised: Option<(f64, f64)>,
        at: Timestamp,
    ) -> PastCure {
        self.known().memory.begin_cure(shards, cure, promised, at)
    }

    /// Notes that a cure was done.
    pub fn done(&self, past: &PastCure, at: Timestamp) {
        self.known().memory.done(past.id, at);
    }

    /// Forgets a cure that came to nothing.
    pub fn forget(&self, past: &PastCure) {
        self.known().memory.forget(past.id);
    }

    /// Judges cures that were watched for long enough.
    pub fn judge(&self, now: Timestamp, settings: &Settings, book: &Book) -> Vec<PastCure> {
        self.known().memory.judge_by(now, settings, book)
    }
}
