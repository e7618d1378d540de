//! Renders previews: one sentence, what each shard gains and loses, and the first moves.

use crate::body::{PreviewBody, ShardTraffic};
use crate::output::Screen;
use crate::table::{Table, count_noun, format_number};

/// Number of shards to list; the rest is counted.
const SHARDS_SHOWN: usize = 30;

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreviewKind {
    /// What would move after a change.
    Change,
    /// What is due to move now.
    Drift,
}

/// The whole preview.
pub(crate) fn preview_text(
    screen: &Screen,
    preview_body: &PreviewBody,
    question: PreviewKind,
) -> String {
    let mut parts = vec![screen.bold(&headline(preview_body, question))];
    let homeless =
        preview_body.moves_total - total_gains(preview_body).min(preview_body.moves_total);
    if homeless > 0 {
        let words = match (homeless, preview_body.moves_total) {
            (1, 1) => "No shard may hold it.".to_owned(),
            (all, moves) if all == moves => "No shard may hold them.".to_owned(),
            (some, _) => format!("{} of them would fit nowhere.", format_number(some)),
        };
        parts.push(screen.red(&words));
    }
    if preview_body.moves_total > 0 {
        parts.push(traffic_table(screen, preview_body));
    }
    if !preview_body.items.is_empty() {
        parts.push(move_table(screen, preview_body));
    }
    if question == PreviewKind::Change {
        parts.push(screen.dim("This is a preview: nothing was changed."));
    }
    parts.join("\n\n")
}

fn total_gains(preview_body: &PreviewBody) -> u64 {
    preview_body.shards.iter().map(|shard| shard.gains).sum()
}

fn headline(preview_body: &PreviewBody, question: PreviewKind) -> String {
    let (moves, slices) = (preview_body.moves_total, preview_body.slices_total);
    let is_split = preview_body.items.iter().any(|item| item.slice > 0);
    let noun = match (is_split, slices) {
        (true, 1) => "slice",
        (true, _) => "slices",
        (false, 1) => "tenant",
        (false, _) => "tenants",
    };
    if moves == 0 {
        return match question {
            _ if slices == 0 => "There are no tenants yet, so nothing would move.".to_owned(),
            PreviewKind::Change if slices == 1 => {
                format!("The only {noun} would stay where it is.")
            }
            PreviewKind::Change => {
                format!("None of the {} {noun} would move.", format_number(slices))
            }
            PreviewKind::Drift if slices == 1 => format!("The only {noun} is where it belongs."),
            PreviewKind::Drift => {
                format!(
                    "All {} {noun} are where they belong.",
                    format_number(slices)
                )
            }
        };
    }
    let percent = moves as f64 * 100.0 / slices.max(1) as f64;
    let verb = match question {
        PreviewKind::Change => "would move",
        PreviewKind::Drift if moves == 1 => "is due to move",
        PreviewKind::Drift => "are due to move",
    };
    let only = |side: fn(&ShardTraffic) -> u64, word: &str| {
        let mut shards = preview_body.shards.iter().filter(|shard| side(shard) > 0);
        match (shards.next(), shards.next()) {
            (Some(one), None) if side(one) == moves && moves > 1 => {
                format!(", all {word} {}", one.shard_id)
            }
            (Some(one), None) if side(one) == moves => format!(", {word} {}", one.shard_id),
            _ => String::new(),
        }
    };
    format!(
        "{} of {} {noun} {verb} ({percent:.1} %){}{}.",
        format_number(moves),
        format_number(slices),
        only(|shard| shard.losses, "from"),
        only(|shard| shard.gains, "to"),
    )
}

fn traffic_table(screen: &Screen, preview_body: &PreviewBody) -> String {
    let mut touched: Vec<&ShardTraffic> = preview_body
        .shards
        .iter()
        .filter(|shard| shard.gains + shard.losses > 0)
        .collect();
    touched.sort_by_key(|shard| std::cmp::Reverse(shard.gains + shard.losses));
    let mut table = Table::new(
        screen,
        &["shard", "#gains", "#loses", "#would hold", "#limit"],
    );
    let signed = |sign: &str, n: u64| match n {
        0 => "–".to_owned(),
        n => format!("{sign}{}", format_number(n)),
    };
    for shard in touched.iter().take(SHARDS_SHOWN) {
        table.add_row([
            shard.shard_id.clone(),
            signed("+", shard.gains),
            signed("−", shard.losses),
            format_number(shard.slices_after),
            format_number(shard.max_slices),
        ]);
    }
    let mut text = table.render();
    if touched.len() > SHARDS_SHOWN {
        let rest = touched.len() - SHARDS_SHOWN;
        let more = count_noun(rest as u64, "more shard");
        text.push_str(&format!("\n… and {more}"));
    }
    text
}

fn move_table(screen: &Screen, preview_body: &PreviewBody) -> String {
    let sliced = preview_body.items.iter().any(|item| item.slice > 0);
    let due = preview_body.items.iter().any(|item| item.already_due);
    let mut columns = vec!["tenant"];
    columns.extend(sliced.then_some("#slice"));
    columns.extend(["from", "to"]);
    columns.extend(due.then_some(""));
    let mut table = Table::new(screen, &columns);
    for item in &preview_body.items {
        let mut row = vec![item.tenant_id.clone()];
        row.extend(sliced.then(|| item.slice.to_string()));
        row.push(item.from_shard_id.clone());
        row.push(
            item.to_shard_id
                .clone()
                .unwrap_or_else(|| "nowhere".to_owned()),
        );
        row.extend(due.then(|| if item.already_due { "due already" } else { "" }.to_owned()));
        table.add_row(row);
    }
    let mut text = table.render();
    let rest = preview_body
        .moves_total
        .saturating_sub(preview_body.items.len() as u64);
    if rest > 0 {
        let more = format!("… and {} more; --all lists them", format_number(rest));
        text.push_str(&format!("\n{}", screen.dim(&more)));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn(body: serde_json::Value, question: PreviewKind) -> String {
        preview_text(
            &Screen::plain(),
            &serde_json::from_value(body).unwrap(),
            question,
        )
    }

    #[test]
    fn a_fifth_shard() {
        let body = json!({
            "items": [
                {"tenantID": "acme", "slice": 0, "fromShardID": "shard-1", "toShardID": "shard-5", "alreadyDue": false},
                {"tenantID": "bolt", "slice": 0, "fromShardID": "shard-2", "toShardID": "shard-5", "alreadyDue": false},
            ],
            "nextCursor": "c1.bolt", "slicesTotal": 10_000, "movesTotal": 2_013,
            "shards": [
                {"shardID": "shard-1", "gains": 0, "losses": 1_001, "slicesAfter": 4_003, "maxSlices": 1_000_000},
                {"shardID": "shard-2", "gains": 0, "losses": 1_012, "slicesAfter": 3_984, "maxSlices": 1_000_000},
                {"shardID": "shard-3", "gains": 0, "losses": 0, "slicesAfter": 0, "maxSlices": 1_000_000},
                {"shardID": "shard-5", "gains": 2_013, "losses": 0, "slicesAfter": 2_013, "maxSlices": 1_000_000},
            ],
        });
        insta::assert_snapshot!(drawn(body, PreviewKind::Change));
    }

    #[test]
    fn the_last_shard_gone() {
        let body = json!({
            "items": [{"tenantID": "acme", "slice": 0, "fromShardID": "shard-1", "toShardID": null, "alreadyDue": true}],
            "nextCursor": null, "slicesTotal": 1, "movesTotal": 1,
            "shards": [{"shardID": "shard-1", "gains": 0, "losses": 1, "slicesAfter": 0, "maxSlices": 10}],
        });
        insta::assert_snapshot!(drawn(body, PreviewKind::Change));
    }

    #[test]
    fn nothing_to_move() {
        let body = json!({"items": [], "nextCursor": null, "slicesTotal": 12_345, "movesTotal": 0, "shards": []});
        insta::assert_snapshot!(drawn(body, PreviewKind::Drift), @"All 12,345 tenants are where they belong.");
    }
}
