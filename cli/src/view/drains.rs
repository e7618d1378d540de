//! Renders drains and rebalances.

use ballast_domain::Timestamp;
use ballast_domain::migration::MigrationEstimate;
use serde::Deserialize;

use super::finish::FinishBody;
use crate::output::Screen;
use crate::table::{Table, count_noun, format_number, moment_long, sanitize};

/// The drain of a shard, as the server answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DrainBody {
    #[serde(rename = "shardID")]
    shard_id: String,
    status: String,
    slices_left: u64,
    slices_at_start: Option<u64>,
    leaving: u64,
    #[serde(default)]
    copies: u64,
    copies_until: Option<Timestamp>,
    plan: DrainPlan,
}

impl DrainBody {
    /// How many slices stay if no further migration begins.
    fn staying(&self) -> u64 {
        let underway = self.leaving.saturating_sub(self.copies);
        self.slices_left.saturating_sub(underway)
    }

    /// Whether a drain is running.
    pub(crate) fn is_running(&self) -> bool {
        self.status != "no"
    }
}

/// The plan that brings every shard under its limits.
#[derive(Debug, Deserialize)]
pub(crate) struct RebalanceBody {
    #[serde(rename = "planID")]
    plan_id: Option<String>,
    plan: serde_json::Value,
    #[serde(default)]
    finish: FinishBody,
    letter: String,
}

impl RebalanceBody {
    fn moves(&self) -> u64 {
        self.plan["totals"]["moves"].as_u64().unwrap_or(0)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DrainPlan {
    slices: Vec<PlannedSlice>,
    moves_total: u64,
    stuck_total: u64,
    moving_total: u64,
    more: bool,
    price: MigrationEstimate,
    #[serde(default)]
    finish: FinishBody,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlannedSlice {
    #[serde(rename = "tenantID")]
    tenant_id: String,
    slice: u32,
    #[serde(rename = "fromShardID")]
    from: String,
    #[serde(rename = "toShardID")]
    to: Option<String>,
    stays: Option<String>,
}

fn table(screen: &Screen, plan: &DrainPlan) -> String {
    let mut table = Table::new(screen, &["tenant", "#slice", "from", "to"]);
    for slice in &plan.slices {
        let row = [
            slice.tenant_id.clone(),
            slice.slice.to_string(),
            slice.from.clone(),
            match (&slice.to, &slice.stays) {
                (Some(to), _) => to.clone(),
                (None, why) => format!("stays: {}", why.as_deref().unwrap_or("–")),
            },
        ];
        match slice.to {
            Some(_) => table.add_row(row),
            None => table.add_dimmed_row(row),
        }
    }
    let mut text = table.render();
    if plan.more {
        text.push_str(&format!("\n{}", screen.dim("… and more")));
    }
    text
}

/// Summarises a plan.
fn summarize_plan(plan: &DrainPlan) -> String {
    let price = &plan.price;
    let mut text = format!(
        "{} to move: {}, {}, about {}; write pause {} ms each",
        count_slices(plan, plan.moves_total),
        count_noun(price.polls, "poll"),
        count_noun(price.rows, "row"),
        count_noun(price.bytes, "byte"),
        format_number(price.pause_ms)
    );
    if plan.stuck_total > 0 {
        let stuck = format_number(plan.stuck_total);
        text.push_str(&format!("; {stuck} {}", stay(plan.stuck_total)));
    }
    if plan.moving_total > 0 {
        let verb = if plan.moving_total == 1 { "is" } else { "are" };
        let moving = format_number(plan.moving_total);
        text.push_str(&format!("; {moving} {verb} moving already"));
    }
    text
}

/// Counts tenants, or slices if a tenant of the plan is split.
fn count_slices(plan: &DrainPlan, count: u64) -> String {
    let is_split = plan.slices.iter().any(|planned| planned.slice > 0);
    count_noun(count, if is_split { "slice" } else { "tenant" })
}

/// The verb of `1 tenant stays`, `2 tenants stay`.
fn stay(count: u64) -> &'static str {
    if count == 1 { "stays" } else { "stay" }
}

fn describe_plan(screen: &Screen, headline: &str, plan: &DrainPlan) -> String {
    let mut parts = vec![screen.bold(&sanitize(headline))];
    if !plan.slices.is_empty() {
        parts.push(table(screen, plan));
    }
    parts.push(summarize_plan(plan));
    parts.extend(plan.finish.describe(screen));
    parts.join("\n")
}

/// The plan of a drain.
pub(crate) fn describe_drain_plan(screen: &Screen, drain: &DrainBody) -> String {
    if drain.slices_left == 0 && drain.leaving == 0 {
        let shard = sanitize(&drain.shard_id);
        return format!("{shard} is empty: --yes only stops it from accepting tenants");
    }
    let headline = format!("plan to drain {}:", drain.shard_id);
    describe_plan(screen, &headline, &drain.plan)
}

/// Describes a running drain.
pub(crate) fn describe_draining(screen: &Screen, drain: &DrainBody) -> String {
    format!(
        "{} is draining: {}",
        sanitize(&drain.shard_id),
        describe_progress(screen, drain)
    )
}

/// How many slices have left, of those that were there when the drain began, and which copies
/// remain.
fn describe_left(screen: &Screen, drain: &DrainBody) -> String {
    let mut text = match drain.slices_at_start {
        Some(all) => {
            let gone = all.saturating_sub(drain.slices_left);
            let of = count_slices(&drain.plan, all);
            let verb = if all == 1 { "has" } else { "have" };
            format!("{} of {of} {verb} left", format_number(gone))
        }
        None => format!("{} left", count_slices(&drain.plan, drain.slices_left)),
    };
    if drain.copies > 0 {
        let copies = match drain.copies {
            1 => "1 copy is kept".to_owned(),
            copies => format!("{} copies are kept", format_number(copies)),
        };
        let until = drain.copies_until.map(|until| moment_long(screen, until));
        let until = until.map_or_else(
            || " until its window ends".to_owned(),
            |at| format!(" until {at}"),
        );
        text.push_str(&format!(", {copies}{until}"));
    }
    text
}

/// Describes the progress of a drain.
pub(crate) fn describe_progress(screen: &Screen, drain: &DrainBody) -> String {
    let left = count_slices(&drain.plan, drain.slices_left);
    let kept = describe_kept(drain);
    let leaving = match drain.leaving {
        1 => "1 migration is running".to_owned(),
        moves => format!("{} migrations are running", format_number(moves)),
    };
    let stuck = match drain.plan.stuck_total {
        0 => String::new(),
        stuck => format!(", {} cannot leave", format_number(stuck)),
    };
    match drain.status.as_str() {
        "empty" => "empty: it can be removed".to_owned(),
        "running" if drain.slices_left == 0 && drain.leaving == 0 => {
            "empty: it can be removed".to_owned()
        }
        "running" => format!("{}{stuck}, {leaving}", describe_left(screen, drain)),
        "stopping" => format!("cancelled: {kept}, {leaving}"),
        "idle" => format!("{left} left{stuck}, not moving: run ballast shard drain --yes"),
        _ => format!("{left}, no drain is running"),
    }
}

/// What a cancelled drain leaves on the shard: `11 slices stay`.
fn describe_kept(drain: &DrainBody) -> String {
    let kept = drain.staying();
    format!("{} {}", count_slices(&drain.plan, kept), stay(kept))
}

/// Describes a cancel without a drain.
pub(crate) fn describe_nothing_to_cancel(_: &Screen, drain: &DrainBody) -> String {
    let shard = sanitize(&drain.shard_id);
    format!("{shard} has no drain to cancel")
}

/// Describes a cancelled drain.
pub(crate) fn describe_cancelled(_: &Screen, drain: &DrainBody) -> String {
    let under_way = match drain.leaving {
        0 => "no migration is running".to_owned(),
        moves => format!(
            "{}; stop one: ballast migration cancel (before its cutover) or reverse (after it)",
            match moves {
                1 => "1 running migration continues".to_owned(),
                moves => format!("{} running migrations continue", format_number(moves)),
            }
        ),
    };
    format!(
        "{} accepts tenants again; {}, {under_way}",
        sanitize(&drain.shard_id),
        describe_kept(drain)
    )
}

/// The plan of a rebalance.
pub(crate) fn describe_rebalance_plan(screen: &Screen, body: &RebalanceBody) -> String {
    let headline = match (&body.plan_id, body.moves()) {
        (Some(id), _) => format!("{id} is running; remaining migrations:"),
        (None, 0) => {
            "every shard is within its limits and every tenant is placed as well as possible:"
                .to_owned()
        }
        (None, _) => "plan:".to_owned(),
    };
    let headline = screen.bold(&sanitize(&headline));
    let mut parts = vec![format!("{headline}\n\n{}", body.letter.trim_end())];
    parts.extend(body.finish.describe(screen));
    parts.join("\n")
}

/// Describes a started rebalance.
pub(crate) fn describe_rebalancing(_: &Screen, body: &RebalanceBody) -> String {
    match &body.plan_id {
        Some(id) => format!(
            "{} runs {}",
            sanitize(id),
            count_noun(body.moves(), "migration")
        ),
        None => "nothing to move".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan() -> Value {
        json!({"slices": [
                {"tenantID": "acme", "slice": 0, "fromShardID": "shard-1", "toShardID": "shard-3"},
                {"tenantID": "beta", "slice": 1, "fromShardID": "shard-1",
                    "stays": "its tenant is pinned there"}],
            "movesTotal": 12, "stuckTotal": 1, "movingTotal": 2, "more": true,
            "price": {"polls": 40, "rows": 120_000, "bytes": 14_000_000, "durationMs": 3_200,
                "pauseMs": 14, "fromMoves": 7, "neighbours": 21},
            "finish": {"copyingMs": 3_200, "atOnce": 4, "windowMs": 7_200_000,
                "cutoverAt": "2026-11-16T09:00:03.200Z", "endsAt": "2026-11-16T11:00:03.200Z"}})
    }

    fn drain(status: &str) -> DrainBody {
        let body = json!({"shardID": "shard-1", "status": status, "executionID": "drain-shard:1",
            "slicesLeft": 12, "slicesAtStart": 14, "leaving": 2, "copies": 1,
            "copiesUntil": "2026-11-16T11:00:03.200Z", "plan": plan()});
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn what_would_be_done_and_how_far_it_is() {
        let screen = Screen::plain();
        let mut message = vec![describe_drain_plan(&screen, &drain("no"))];
        for status in ["running", "stopping", "idle", "empty", "no"] {
            message.push(describe_draining(&screen, &drain(status)));
        }
        message.push(describe_cancelled(&screen, &drain("stopping")));
        let body = json!({"plan": {"totals": {"moves": 2}}, "letter": "Plan of today\n"});
        let rebalance: RebalanceBody = serde_json::from_value(body).unwrap();
        message.push(describe_rebalance_plan(&screen, &rebalance));
        message.push(describe_rebalancing(&screen, &rebalance));
        insta::assert_snapshot!(message.join("\n\n"));
    }
}
