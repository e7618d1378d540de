//! In-memory hotspot state: the state of every rule, past cures and current
//! findings. It is rebuilt from recorded load and plans after a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ballast_domain::{ShardId, TenantId, Timestamp};
use ballast_hotspot_detector::detect::{
    self, Detector, HotspotSubject, RuleExplanation, explain_shard,
};
use ballast_hotspot_detector::diagnose::{
    Cure, CureHistory, CureRecord, DiagnosisInputs, DiagnosisSettings, Finding, diagnose,
};
use ballast_hotspot_detector::load::{LoadHistory, LoadSample};
use ballast_hotspot_detector::rules::Ruleset;

/// Shared in-memory hotspot state.
#[derive(Default)]
pub struct HotspotState {
    memory: Mutex<HotspotMemory>,
}

#[derive(Default)]
struct HotspotMemory {
    rules: Option<Arc<Ruleset>>,
    detector: Detector,
    memory: CureHistory,
    findings: Vec<Finding>,
}

impl HotspotState {
    fn lock(&self) -> MutexGuard<'_, HotspotMemory> {
        // Every evaluation starts from the measurements, so a poisoned state heals.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rebuilds the state of the rules from recorded samples.
    pub fn replay(&self, rules: &Arc<Ruleset>, samples: Vec<LoadSample>) {
        let mut book = LoadHistory::new(rules.spans);
        let mut detector = Detector::default();
        let mut known = self.lock();
        for sample in samples {
            if book.add_sample(sample).is_ok() {
                let events = detector.pass(rules, &book);
                known.memory.remember(&events);
            }
        }
        known.detector = detector;
        known.rules = Some(Arc::clone(rules));
    }

    /// Whether these are the rules being evaluated.
    pub fn uses_rules(&self, rules: &Arc<Ruleset>) -> bool {
        self.lock().rules.as_ref() == Some(rules)
    }

    /// Evaluates every rule on the measurements; returns what is hot.
    pub fn evaluate_rules(&self, rules: &Ruleset, book: &LoadHistory) -> Vec<detect::Hotspot> {
        let mut known = self.lock();
        let events = known.detector.pass(rules, book);
        known.memory.remember(&events);
        known.detector.hotspots(rules)
    }

    /// Diagnoses causes and cures.
    pub fn diagnose(
        &self,
        book: &LoadHistory,
        hotspots: &[detect::Hotspot],
        limits: &BTreeMap<TenantId, f64>,
        settings: &DiagnosisSettings,
    ) -> Vec<Finding> {
        let mut known = self.lock();
        let findings = diagnose(DiagnosisInputs {
            history: book,
            hotspots,
            limits,
            memory: &known.memory,
            settings,
        });
        known.findings.clone_from(&findings);
        findings
    }

    /// Resets the state of all rules, when detection is switched off.
    pub fn reset(&self) {
        let mut known = self.lock();
        known.rules = None;
        known.detector = Detector::default();
        known.findings = Vec::new();
    }

    /// The findings of the last diagnosis.
    pub fn findings(&self) -> Vec<Finding> {
        self.lock().findings.clone()
    }

    /// Explains the state of every rule for a shard and for what is on it.
    pub fn explain_rules(
        &self,
        rules: &Ruleset,
        book: &LoadHistory,
        shard: &ShardId,
    ) -> Vec<(HotspotSubject, RuleExplanation)> {
        explain_shard(rules, book, &self.lock().detector, shard)
    }

    /// Restores a past cure after a restart.
    pub fn restore_cure(&self, past: CureRecord) {
        self.lock().memory.restore(past);
    }

    /// Remembers that a cure was begun.
    pub fn begin_cure(
        &self,
        shards: Vec<ShardId>,
        cure: Cure,
        promised: Option<(f64, f64)>,
        at: Timestamp,
    ) -> CureRecord {
        self.lock().memory.begin_cure(shards, cure, promised, at)
    }

    /// Remembers that a cure was carried out.
    pub fn record_cure_done(&self, past: &CureRecord, at: Timestamp) {
        self.lock().memory.record_completion(past.id, at);
    }

    /// Forgets a cure that failed.
    pub fn forget_cure(&self, past: &CureRecord) {
        self.lock().memory.forget(past.id);
    }

    /// Judges the cures that have been observed for long enough.
    pub fn judge_cures(
        &self,
        now: Timestamp,
        settings: &DiagnosisSettings,
        book: &LoadHistory,
    ) -> Vec<CureRecord> {
        self.lock().memory.judge_by_history(now, settings, book)
    }
}
