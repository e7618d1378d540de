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
    let mut lines = vec![format!(
        "would cut {} from {} into {}:",
        plan.tenant_id,
        count_noun(plan.slices.into(), "slice"),
        count_noun(plan.into.into(), "slice"),
    )];
    let cuts = plan.cuts.iter().map(|cut| {
        let (parents, children) = (list_slices(&cut.parents), list_slices(&cut.children));
        format!("{parents} becomes {children}, in place on {}", cut.shard_id)
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
        return format!("{id} is being cut into {} slices", slicing.into);
    }
    if let Some(why) = tenant.last_slicing.as_ref().and_then(|it| it.why.as_ref()) {
        return format!("{id} has {} slices: {why}", tenant.slices.len());
    }
    let slices = tenant.slices.iter().map(|slice| {
        let moving = slice.moving.as_ref();
        let to = moving.filter(|moving| moving.to != slice.shard_id);
        let to = to.map_or_else(String::new, |moving| format!(" → {}", moving.to));
        format!("{} on {}{to}", slice.slice, slice.shard_id)
    });
    let slices: Vec<String> = slices.collect();
    let noun = match slices.len() {
        1 => "slice",
        _ => "slices",
    };
    format!("{id} has {} {noun}: {}", slices.len(), slices.join(", "))
}
