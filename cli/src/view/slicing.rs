//! Renders splits and merges.

use ballast_control_plane::slicing::requests::{PlannedCut, PlannedMove, WholePoll};
use ballast_domain::tenant::Tenant;
use serde::Deserialize;

use crate::body::Versioned;
use crate::output::Screen;
use crate::table::count_noun;

/// What would be done.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecutPlanBody {
    #[serde(rename = "tenantID")]
    tenant_id: String,
    slices: u32,
    into: u32,
    cuts: Vec<PlannedCut>,
    moves: Vec<PlannedMove>,
    #[serde(default)]
    whole_polls: Vec<WholePoll>,
}

/// What a poll with most of a slice's votes means for a split.
fn describe_whole_poll(whole: &WholePoll) -> String {
    let heat = whole.heat.map(|heat| {
        let stays = (heat * whole.share * 100.0).round();
        format!(", about {stays} % of its shard's capacity now")
    });
    format!(
        "poll {} has {:.0} % of the votes of slice {}: a poll stays in one slice, so one of the new \
         slices keeps its load{}, which only a limit or a larger shard helps",
        whole.poll_id,
        whole.share * 100.0,
        whole.slice,
        heat.unwrap_or_default()
    )
}

fn list_slices(slices: &[u32]) -> String {
    let texts: Vec<String> = slices.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [only] => format!("slice {only}"),
        _ => format!("slices {}", texts.join(", ")),
    }
}

/// What would be done, line by line.
pub(crate) fn describe_plan(_: &Screen, plan: &RecutPlanBody) -> String {
    let verb = match plan.into < plan.slices {
        true => "merge",
        false => "split",
    };
    let mut lines = vec![format!(
        "would {verb} {} from {} into {}:",
        plan.tenant_id,
        count_noun(plan.slices.into(), "slice"),
        count_noun(plan.into.into(), "slice"),
    )];
    let cuts = plan.cuts.iter().map(|cut| {
        let (parents, children) = (list_slices(&cut.parents), list_slices(&cut.children));
        let verb = match cut.parents.len() {
            1 => "becomes",
            _ => "become",
        };
        format!("{parents} {verb} {children}, in place on {}", cut.shard_id)
    });
    let moves = plan
        .moves
        .iter()
        .map(|it| format!("move slice {} from {} to {}", it.slice, it.from, it.to));
    for (number, action) in (1..).zip(cuts.chain(moves)) {
        lines.push(format!("  {number}. {action}"));
    }
    if plan.moves.is_empty() && plan.into > plan.slices {
        lines.push("no slice would be moved".to_owned());
    }
    lines.extend(plan.whole_polls.iter().map(describe_whole_poll));
    lines.join("\n")
}

/// The state of a split or merge.
pub(crate) fn describe_slicing(_: &Screen, tenant: &Versioned<Tenant>) -> String {
    let tenant = &tenant.value;
    let id = &tenant.tenant_id;
    if let Some(slicing) = &tenant.slicing {
        let verb = match slicing.is_merge(tenant.slices.len()) {
            true => "merged",
            false => "split",
        };
        let into = count_noun(slicing.into.into(), "slice");
        return format!("{id} is being {verb} into {into}");
    }
    let count = count_noun(tenant.slices.len() as u64, "slice");
    if let Some(why) = tenant.last_slicing.as_ref().and_then(|it| it.why.as_ref()) {
        return format!("{id} has {count}: {why}");
    }
    let slices = tenant.slices.iter().map(|slice| {
        let moving = slice.moving.as_ref();
        let to = moving.filter(|moving| moving.to != slice.shard_id);
        let to = to.map_or_else(String::new, |moving| format!(" → {}", moving.to));
        format!("{} on {}{to}", slice.slice, slice.shard_id)
    });
    let slices: Vec<String> = slices.collect();
    format!("{id} has {count}: {}", slices.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(slices: u32, into: u32, parents: &[u32], children: &[u32]) -> String {
        let body = json!({"tenantID": "acme", "slices": slices, "into": into, "moves": [],
            "cuts": [{"shardID": "shard-1", "parents": parents, "children": children}]});
        describe_plan(&Screen::plain(), &serde_json::from_value(body).unwrap())
    }

    #[test]
    fn a_split_and_a_merge_before_they_begin() {
        assert_eq!(
            plan(1, 2, &[0], &[1, 2]),
            "would split acme from 1 slice into 2 slices:\n  \
             1. slice 0 becomes slices 1, 2, in place on shard-1\nno slice would be moved"
        );
        assert_eq!(
            plan(2, 1, &[1, 2], &[3]),
            "would merge acme from 2 slices into 1 slice:\n  \
             1. slices 1, 2 become slice 3, in place on shard-1"
        );
    }

    #[test]
    fn a_split_and_a_merge_while_they_run() {
        let slicing = |slices: &[u32], into: u32| {
            let slices: Vec<_> = slices
                .iter()
                .map(|slice| {
                    json!({"slice": slice, "shardID": "shard-1", "epoch": 1,
                        "placedAt": "2026-11-16T09:00:00Z"})
                })
                .collect();
            let tenant = json!({
                "tenantID": "acme", "name": "Acme Inc", "status": "active", "homeRegion": "eu",
                "residency": {"policy": "strict"}, "zones": [], "corsOrigins": [],
                "limits": {"votesPerSecond": null, "concurrentQueries": null,
                    "retentionDays": null},
                "slices": slices, "createdAt": "2026-11-16T09:00:00Z", "version": 3,
                "slicing": {"into": into, "askedAt": "2026-11-16T09:00:00Z",
                    "actor": {"type": "ballast", "name": "hotspots"}},
            });
            describe_slicing(&Screen::plain(), &serde_json::from_value(tenant).unwrap())
        };
        assert_eq!(slicing(&[0], 4), "acme is being split into 4 slices");
        assert_eq!(slicing(&[1, 2], 1), "acme is being merged into 1 slice");
    }
}
