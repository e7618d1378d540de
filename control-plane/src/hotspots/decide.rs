//! Decides whether to act on a finding. Pure.

use ballast_domain::Timestamp;
use ballast_hotspot_detector::diagnose::Finding;

use super::records::{NoActionReason, PlanRecord, PlanStatus};
use super::settings::HotspotMode;

/// Retry interval after a failed plan.
const FAILED_MS: u64 = 60_000;

/// What to do about a finding.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    /// Nothing, for this reason; a cure that is no action explains itself.
    Nothing(Option<NoActionReason>),
    /// Record a plan and ask for approval.
    Propose,
    /// Record a plan and carry it out.
    Do,
}

/// Decides. `plan` is an open plan for the finding or for one of its shards;
/// `awaits` is what speaks against acting now: the calendar, or that an operator
/// rejected the last such plan, or that it failed.
pub(crate) fn decide(
    mode: HotspotMode,
    finding: &Finding,
    plan: Option<&PlanRecord>,
    awaits: Option<NoActionReason>,
) -> Decision {
    if !finding.cure.acts() {
        return Decision::Nothing(None);
    }
    if let Some(plan) = plan {
        return Decision::Nothing(Some(NoActionReason::new(describe_plan(plan))));
    }
    if let Some(why_not) = &finding.why_not {
        return Decision::Nothing(Some(NoActionReason {
            because: why_not.because.clone(),
            until: why_not.until,
        }));
    }
    if awaits.is_some() {
        return Decision::Nothing(awaits);
    }
    match mode {
        HotspotMode::Off | HotspotMode::Observe => {
            let because = format!(
                "hotspots are only observed (hotspots.mode is {}): nothing is proposed or done",
                mode.name()
            );
            Decision::Nothing(Some(NoActionReason::new(because)))
        }
        HotspotMode::Propose => Decision::Propose,
        HotspotMode::Auto => Decision::Do,
    }
}

/// Why a plan like the last one is not made again for now: an operator rejected
/// it, or it failed.
pub(crate) fn explain_no_repeat(
    last: &PlanRecord,
    finding: &Finding,
    rest_ms: u64,
    now: Timestamp,
) -> Option<NoActionReason> {
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
            let why = last.note.as_deref().unwrap_or("unknown reason");
            let at = last.done_at.unwrap_or(last.made_at);
            (format!("{id} failed: {why}"), after(at, FAILED_MS))
        }
        _ => return None,
    };
    let is_same = last.does == finding.cure.name();
    (is_same && now < until).then_some(NoActionReason {
        because,
        until: Some(until),
    })
}

/// Describes an open plan's status.
pub(crate) fn describe_plan(plan: &PlanRecord) -> String {
    let id = &plan.plan_id;
    match plan.status {
        PlanStatus::Proposed => {
            format!("{id} waits for approval (ballast plan approve {id})")
        }
        PlanStatus::Approved => format!("{id} is approved and about to start"),
        PlanStatus::Running => match &plan.shards_needed {
            Some(needed) => format!("{id} waits for {needed}"),
            None => format!("{id} is being carried out"),
        },
        PlanStatus::Judging => format!("{id} was carried out; its effect is being measured"),
        ended => format!("{id} is {}", ended.name()),
    }
}

#[cfg(test)]
mod tests {
    use ballast_hotspot_detector::diagnose::{self, Cure, HotspotCause};

    use super::*;

    fn finding(cure: Cure, why_not: Option<&str>) -> Finding {
        Finding {
            at: Timestamp::from_unix_ms(0),
            shards: vec!["shard-1".parse().unwrap()],
            hotspots: Vec::new(),
            cause: HotspotCause::Unexplained,
            evidence: Vec::new(),
            cure,
            expected: Vec::new(),
            otherwise: String::new(),
            rejected: Vec::new(),
            why_not: why_not.map(|because| diagnose::CureDeferral {
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
        assert_eq!(decided(HotspotMode::Auto, None), Decision::Do);
        assert_eq!(decided(HotspotMode::Propose, None), Decision::Propose);
        for (mode, why_not, said) in [
            (HotspotMode::Observe, None, "observe"),
            (HotspotMode::Auto, Some("it is judged"), "it is judged"),
            (HotspotMode::Propose, Some("it is judged"), "it is judged"),
        ] {
            match decided(mode, why_not) {
                Decision::Nothing(Some(why)) => assert!(why.because.contains(said), "{why:?}"),
                other => panic!("{other:?}"),
            }
        }
        let awaits = NoActionReason::new("a poll opens");
        let awaited = decide(
            HotspotMode::Auto,
            &finding(add(), None),
            None,
            Some(awaits.clone()),
        );
        assert_eq!(awaited, Decision::Nothing(Some(awaits)));
        let nothing = decide(HotspotMode::Auto, &finding(Cure::Nothing, None), None, None);
        assert_eq!(nothing, Decision::Nothing(None));
    }
}
