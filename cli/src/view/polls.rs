//! Renders polls.

use ballast_domain::Timestamp;
use ballast_domain::poll::PollPhase;
use ballast_domain::poll::lanes::{ImbalanceCause, LaneBalance, LaneSpread};
use serde::Deserialize;

use crate::output::Screen;
use crate::table::{Table, count_noun, format_number, moment_long};

/// A poll as the API shows it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PollBody {
    #[serde(rename = "pollID")]
    poll_id: String,
    title: Option<String>,
    items: Vec<serde_json::Value>,
    state: PollPhase,
    expiration_time: Timestamp,
}

/// Results as the API shows them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResultsBody {
    state: PollPhase,
    items: Vec<ItemResult>,
    total: u64,
    voters: u64,
    as_of: Timestamp,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemResult {
    item_name: String,
    votes_count: u64,
}

/// Lanes as the API shows them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LanesBody {
    #[serde(rename = "pollID")]
    poll_id: String,
    lanes: u16,
    pub(crate) items: Vec<ItemLanes>,
    pub(crate) total: u64,
}

/// The lanes of an item.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemLanes {
    #[serde(rename = "itemID")]
    pub(crate) item_id: String,
    pub(crate) item_name: String,
    pub(crate) votes_count: u64,
    #[serde(flatten)]
    pub(crate) spread: LaneSpread,
}

fn phase_name(phase: PollPhase) -> &'static str {
    match phase {
        PollPhase::Scheduled => "scheduled",
        PollPhase::Open => "open",
        PollPhase::Closed => "closed",
    }
}

/// The ID of a new poll, for scripts.
pub(crate) fn created_id(_: &Screen, poll: &PollBody) -> String {
    poll.poll_id.clone()
}

/// One line on a closed poll.
pub(crate) fn describe_closed(_: &Screen, poll: &PollBody) -> String {
    format!("{} is closed", poll.poll_id)
}

/// Many polls.
pub(crate) fn poll_table(screen: &Screen, polls: &[PollBody]) -> String {
    let mut table = Table::new(screen, &["poll", "title", "state", "#items", "ends"]);
    for poll in polls {
        let row = [
            poll.poll_id.clone(),
            poll.title.clone().unwrap_or_default(),
            phase_name(poll.state).to_owned(),
            format_number(poll.items.len() as u64),
            moment_long(screen, poll.expiration_time),
        ];
        if poll.state == PollPhase::Open {
            table.add_row(row);
        } else {
            table.add_dimmed_row(row);
        }
    }
    table.render()
}

/// The results of a poll.
pub(crate) fn results_table(screen: &Screen, results: &ResultsBody) -> String {
    let mut table = Table::new(screen, &["item", "#votes", "#share", ""]);
    let most = results.items.first().map_or(0, |item| item.votes_count);
    for item in &results.items {
        let share = item.votes_count as f64 * 100.0 / results.total.max(1) as f64;
        let bar = (item.votes_count * 30).checked_div(most).unwrap_or(0);
        table.add_row([
            item.item_name.clone(),
            format_number(item.votes_count),
            format!("{share:.1} %"),
            "█".repeat(usize::try_from(bar).unwrap_or(0)),
        ]);
    }
    format!(
        "{}\n\n{} of {}; {} as of {}",
        table.render(),
        count_noun(results.total, "vote"),
        count_noun(results.voters, "voter"),
        phase_name(results.state),
        results.as_of
    )
}

/// How evenly votes are spread over lanes.
pub(crate) fn lanes_table(screen: &Screen, report: &LanesBody) -> String {
    let columns = [
        "item",
        "#votes",
        "#fewest",
        "#most",
        "#deviation",
        "verdict",
    ];
    let mut table = Table::new(screen, &columns);
    for item in &report.items {
        let spread = &item.spread;
        table.add_row([
            item.item_name.clone(),
            format_number(item.votes_count),
            format_number(spread.lanes.iter().min().copied().unwrap_or(0)),
            format_number(spread.lanes.iter().max().copied().unwrap_or(0)),
            format!("{:.1} %", spread.deviation_percent),
            describe_spread(spread),
        ]);
    }
    format!(
        "{}\n\n{}: {} on {} per item; within 10 % of the mean is even, beyond 30 % skewed",
        table.render(),
        report.poll_id,
        count_noun(report.total, "vote"),
        count_noun(report.lanes.into(), "lane")
    )
}

fn describe_spread(spread: &LaneSpread) -> String {
    let verdict = match spread.verdict {
        LaneBalance::Even => "even",
        LaneBalance::Uneven => "uneven",
        LaneBalance::Skewed => "skewed",
    };
    match spread.cause {
        None => verdict.to_owned(),
        Some(ImbalanceCause::TooFewVotes) => format!("{verdict} (too few votes to tell)"),
        Some(ImbalanceCause::LanesAdded) => format!("{verdict}: lanes were added and are filling"),
        Some(ImbalanceCause::Unknown) => format!("{verdict}: voters are not spread evenly"),
    }
}

/// The result of an import.
pub(crate) fn describe_import(
    screen: &Screen,
    report: &LanesBody,
    [counted, already, carried]: [u64; 3],
    problems: &[String],
) -> String {
    let mut text = lanes_table(screen, report);
    text.push_str(&format!(
        "\n{} counted, {} already present; {} added as totals",
        count_noun(counted, "vote"),
        format_number(already),
        format_number(carried),
    ));
    for problem in problems {
        text.push_str(&format!("\n{} {problem}", screen.red("problem:")));
    }
    if problems.is_empty() {
        let message = format!("verified: the totals of {} are as expected", report.poll_id);
        text.push_str(&format!("\n{}", screen.green(&message)));
    }
    text
}
