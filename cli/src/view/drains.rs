//! Many moves at once, for people.

use ballast_domain::migration::Price;
use serde::Deserialize;

use super::certificate::took;
use crate::output::Screen;
use crate::table::{Table, clean, counted, number};

/// How the emptying of a shard stands.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Drain {
    #[serde(rename = "shardID")]
    shard_id: String,
    status: String,
    slices_left: u64,
    leaving: u64,
    plan: Plan,
}

impl Drain {
    /// Whether there is anything to call off.
    pub(crate) fn is_on(&self) -> bool {
        self.status != "no"
    }
}

/// What would bring every shard under its limits.
#[derive(Debug, Deserialize)]
pub(crate) struct Rebalance {
    #[serde(rename = "planID")]
    plan_id: Option<String>,
    plan: serde_json::Value,
    letter: String,
}

impl Rebalance {
    fn moves(&self) -> u64 {
        self.plan["totals"]["moves"].as_u64().unwrap_or(0)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Plan {
    slices: Vec<Planned>,
    moves_total: u64,
    stuck_total: u64,
    moving_total: u64,
    more: bool,
    price: Price,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Planned {
    #[serde(rename = "tenantID")]
    tenant_id: String,
    slice: u32,
    #[serde(rename = "fromShardID")]
    from: String,
    #[serde(rename = "toShardID")]
    to: Option<String>,
    stays: Option<String>,
}

fn table(screen: &Screen, plan: &Plan) -> String {
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
            Some(_) => table.row(row),
            None => table.faint(row),
        }
    }
    let mut text = table.text();
    if plan.more {
        text.push_str(&format!("\n{}", screen.dim("… and more")));
    }
    text
}

/// The sum of it all.
fn sum(plan: &Plan) -> String {
    let price = &plan.price;
    let mut text = format!(
        "{} to move: {}, {}, about {}; {} of copying in all, {} ms without votes each",
        slices(plan.moves_total),
        counted(price.polls, "poll"),
        counted(price.rows, "row"),
        counted(price.bytes, "byte"),
        took(price.duration_ms),
        number(price.pause_ms)
    );
    if plan.stuck_total > 0 {
        text.push_str(&format!("; {} stay", number(plan.stuck_total)));
    }
    if plan.moving_total > 0 {
        text.push_str(&format!("; {} moving already", number(plan.moving_total)));
    }
    text
}

fn slices(count: u64) -> String {
    counted(count, "slice")
}

fn planned(screen: &Screen, headline: &str, plan: &Plan) -> String {
    let mut parts = vec![screen.bold(&clean(headline))];
    if !plan.slices.is_empty() {
        parts.push(table(screen, plan));
    }
    parts.push(sum(plan));
    parts.join("\n")
}

/// What would be moved off a shard.
pub(crate) fn drain_plan(screen: &Screen, drain: &Drain) -> String {
    if drain.slices_left == 0 && drain.leaving == 0 {
        let shard = clean(&drain.shard_id);
        return format!("{shard} is empty: with --yes it would only take nothing new");
    }
    let headline = format!("{} would be emptied:", drain.shard_id);
    planned(screen, &headline, &drain.plan)
}

/// That a shard is being emptied.
pub(crate) fn draining(_: &Screen, drain: &Drain) -> String {
    format!(
        "{} is draining: {}",
        clean(&drain.shard_id),
        progress(drain)
    )
}

/// How far the emptying of a shard is, in words.
pub(crate) fn progress(drain: &Drain) -> String {
    // Copies of moves that are not over count as slices, too.
    let left = slices(drain.slices_left);
    let kept = slices(drain.slices_left.saturating_sub(drain.leaving));
    let leaving = match drain.leaving {
        1 => "1 move is not over".to_owned(),
        moves => format!("{} moves are not over", number(moves)),
    };
    let stuck = match drain.plan.stuck_total {
        0 => String::new(),
        stuck => format!(", {} cannot leave", number(stuck)),
    };
    match drain.status.as_str() {
        "empty" => "empty: it can be removed".to_owned(),
        "running" if drain.slices_left == 0 && drain.leaving == 0 => {
            "empty: it can be removed".to_owned()
        }
        "running" => format!("{left} left, copies included{stuck}, {leaving}"),
        "stopping" => format!("called off: {kept} stay, {leaving}"),
        "idle" => format!("{left} left{stuck}, and nobody moves them: ballast shard drain --yes"),
        _ => format!("{left}, not being emptied"),
    }
}

/// That there was nothing to call off.
pub(crate) fn nothing_to_cancel(_: &Screen, drain: &Drain) -> String {
    let shard = clean(&drain.shard_id);
    format!("{shard} was not being emptied: there was nothing to call off")
}

/// That it was called off.
pub(crate) fn cancelled(_: &Screen, drain: &Drain) -> String {
    let under_way = match drain.leaving {
        0 => "no move is under way".to_owned(),
        moves => format!(
            "{} to the end (ballast migration cancel calls one off before its cutover, ballast migration reverse brings it back after it)",
            match moves {
                1 => "1 move under way goes on".to_owned(),
                moves => format!("{} moves under way go on", number(moves)),
            }
        ),
    };
    // Copies of moves that are not over count as slices.
    let kept = drain.slices_left.saturating_sub(drain.leaving);
    format!(
        "{} takes slices again; {} stay, {under_way}",
        clean(&drain.shard_id),
        slices(kept)
    )
}

/// What would be moved, and why.
pub(crate) fn rebalance_plan(screen: &Screen, body: &Rebalance) -> String {
    let headline = match (&body.plan_id, body.moves()) {
        (Some(id), _) => format!("{id} is being carried out; what is left:"),
        (None, 0) => {
            "every shard is under its limits, every slice where it belongs or can be:".to_owned()
        }
        (None, _) => "this would be done:".to_owned(),
    };
    format!(
        "{}\n\n{}",
        screen.bold(&clean(&headline)),
        body.letter.trim_end()
    )
}

/// That slices are being moved.
pub(crate) fn rebalancing(_: &Screen, body: &Rebalance) -> String {
    match &body.plan_id {
        Some(id) => format!("{} moves {}", clean(id), slices(body.moves())),
        None => "nothing is left to be moved".to_owned(),
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
                "pauseMs": 14, "fromMoves": 7, "neighbours": 21}})
    }

    fn drain(status: &str) -> Drain {
        let body = json!({"shardID": "shard-1", "status": status, "executionID": "drain-shard:1",
            "slicesLeft": 13, "leaving": 2, "plan": plan()});
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn what_would_be_done_and_how_far_it_is() {
        let screen = Screen::plain();
        let mut told = vec![drain_plan(&screen, &drain("no"))];
        for status in ["running", "stopping", "idle", "empty", "no"] {
            told.push(draining(&screen, &drain(status)));
        }
        told.push(cancelled(&screen, &drain("stopping")));
        let body = json!({"plan": {"totals": {"moves": 2}}, "letter": "Plan of today\n"});
        let rebalance: Rebalance = serde_json::from_value(body).unwrap();
        told.push(rebalance_plan(&screen, &rebalance));
        told.push(rebalancing(&screen, &rebalance));
        insta::assert_snapshot!(told.join("\n\n"));
    }
}
