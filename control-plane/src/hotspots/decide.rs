//! Whether something is done about a finding: pure.

use ballast_domain::Timestamp;
use ballast_hotspot_detector::diagnose::Finding;

use super::records::{PlanRecord, PlanStatus, WhyNot};
use super::settings::Mode;

/// What failed is tried again after so long.
const FAILED_MS: u64 = 60_000;

/// What is done about a finding.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    /// Nothing, because of this; a cure that is no act says itself why.
    Nothing(Option<WhyNot>),
    /// A plan is written down, and somebody is asked.
    Propose,
    /// A plan is written down and carried out.
    Do,
}

/// Decides. `plan` is the one that is open for it, or for one of its shards;
/// `awaits` is what the calendar of polls has against it.
pub(crate) fn decide(
    mode: Mode,
    finding: &Finding,
    plan: Option<&PlanRecord>,
    awaits: Option<WhyNot>,
) -> Decision {
    if !finding.cure.acts() {
        return Decision::Nothing(None);
    }
    if let Some(plan) = plan {
        return Decision::Nothing(Some(WhyNot::new(stands(plan))));
    }
    if let Some(why_not) = &finding.why_not {
        return Decision::Nothing(Some(WhyNot {
            because: why_not.because.clone(),
            until: why_not.until,
        }));
    }
    if awaits.is_some() {
        return Decision::Nothing(awaits);
    }
    match mode {
        Mode::Off | Mode::Observe => {
            let because = format!(
                "hotspots are only observed (hotspots.mode is {}): nothing is proposed or done",
                mode.name()
            );
            Decision::Nothing(Some(WhyNot::new(because)))
        }
        Mode::Propose => Decision::Propose,
        Mode::Auto => Decision::Do,
    }
}

/// Why a plan like the last one for a hotspot is not made again for now: somebody
/// rejected it, or nothing came of it.
pub(crate) fn declined(
    last: &PlanRecord,
    finding: &Finding,
    rest_ms: u64,
    now: Timestamp,
) -> Option<WhyNot> {
    let id = &last.plan_id;
    let after = |at: Timestamp, ms: u64| {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        Timestamp::from_unix_ms(at.unix_ms().saturating_add(ms))
    };
    let (because, until) = match (last.status, &last.decided) {
        (PlanStatus::Rejected, Some(said)) => {
            let reason = said.reason.as_ref();
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            let who = &said.actor.name;
            (
                format!("{who} rejected {id}{reason}"),
                after(said.at, rest_ms),
            )
        }
        (PlanStatus::Failed, _) => {
            let why = last.note.as_deref().unwrap_or("nobody knows why");
            let at = last.done_at.unwrap_or(last.made_at);
            (format!("{id} failed: {why}"), after(at, FAILED_MS))
        }
        _ => return None,
    };
    let is_same = last.does == finding.cure.name();
    (is_same && now < until).then_some(WhyNot {
        because,
        until: Some(until),
    })
}

/// What a plan waits for.
pub(crate) fn stands(plan: &PlanRecord) -> String {
    let id = &plan.plan_id;
    match plan.status {
        PlanStatus::Proposed => {
            format!("{id} waits for somebody's word (ballast plan approve {id})")
        }
        PlanStatus::Approved => format!("{id} is approved and begins"),
        PlanStatus::Running => match &plan.shards_needed {
            Some(needed) => format!("{id} waits for {needed}"),
            None => format!("{id} is being carried out"),
        },
        PlanStatus::Judging => format!("{id} was carried out, and it is watched whether it helped"),
        ended => format!("{id} is {}", ended.name()),
    }
}

#[cfg(test)]
mod tests {
    use ballast_hotspot_detector::diagnose::{self, Cause, Cure};

    use super::*;

    fn finding(cure: Cure, why_not: Option<&str>) -> Finding {
        Finding {
            at: Timestamp::from_unix_ms(0),
            shards: vec!["shard-1".parse().unwrap()],
            hotspots: Vec::new(),
            cause: Cause::Unexplained,
            evidence: Vec::new(),
            cure,
            expected: Vec::new(),
            otherwise: String::new(),
            rejected: Vec::new(),
            why_not: why_not.map(|because| diagnose::WhyNot {
                because: because.to_owned(),
                until: None,
            }),
        }
    }

    #[test]
    fn every_non_action_has_a_reason() {
        let add = || Cure::AddShards {
            region: "eu".parse().unwrap(),
            count: 1,
        };
        let decided = |mode, why_not| decide(mode, &finding(add(), why_not), None, None);
        assert_eq!(decided(Mode::Auto, None), Decision::Do);
        assert_eq!(decided(Mode::Propose, None), Decision::Propose);
        for (mode, why_not, said) in [
            (Mode::Observe, None, "observe"),
            (Mode::Auto, Some("it is judged"), "it is judged"),
            (Mode::Propose, Some("it is judged"), "it is judged"),
        ] {
            match decided(mode, why_not) {
                Decision::Nothing(Some(why)) => assert!(why.because.contains(said), "{why:?}"),
                other => panic!("{other:?}"),
            }
        }
        let awaits = WhyNot::new("a poll opens");
        let awaited = decide(
            Mode::Auto,
            &finding(add(), None),
            None,
            Some(awaits.clone()),
        );
        assert_eq!(awaited, Decision::Nothing(Some(awaits)));
        let nothing = decide(Mode::Auto, &finding(Cure::Nothing, None), None, None);
        assert_eq!(nothing, Decision::Nothing(None));
    }
}
