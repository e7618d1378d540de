//! `poll import`: imports counters and votes into a poll, then reads the result back.
//!
//! ```text
//!   items ──► poll made ──► votes cast ──► what the totals have beyond them,
//!   carried as sums ──► results and lanes read back and compared
//! ```

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::PollOptionArgs;
use super::files::{self, VoteRow};
use crate::client::{Client, Request};
use crate::failure::{CliError, CommandOutcome};
use crate::output::Screen;
use crate::table::count_noun;
use crate::view::polls::{self, LanesBody};

/// Votes per request.
const LINES: usize = 1_000;

/// What to import.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Votes per item: CSV or JSON
    #[arg(long, value_name = "FILE", required_unless_present = "votes")]
    totals: Option<PathBuf>,
    /// Who voted for what: CSV or JSON lines
    #[arg(long, value_name = "FILE")]
    votes: Option<PathBuf>,
    /// An existing poll [default: a new poll]
    #[arg(long, value_name = "POLL", conflicts_with_all = ["title", "expires", "opens", "choices", "changeable", "hidden", "lanes", "expected_voters"])]
    poll: Option<String>,
    /// Title of the new poll
    #[arg(long, default_value = "imported")]
    title: String,
    #[command(flatten)]
    options: PollOptionArgs,
}

/// A poll as the API shows it.
#[derive(Debug, Deserialize)]
struct TargetPoll {
    #[serde(rename = "pollID")]
    poll_id: String,
    items: Vec<TargetItem>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetItem {
    #[serde(rename = "itemID")]
    item_id: String,
    item_name: String,
}

/// The outcomes of the votes.
#[derive(Debug, Default)]
struct CastSummary {
    counted: u64,
    already: u64,
    refused: BTreeMap<String, u64>,
}

impl ImportArgs {
    /// Runs the command.
    pub(super) async fn run(
        self,
        client: &Client,
        screen: &Screen,
    ) -> Result<CommandOutcome, CliError> {
        let totals = self.totals.as_deref().map(files::read_totals).transpose()?;
        let rows = self.votes.as_deref().map(files::read_votes).transpose()?;
        let rows = rows.unwrap_or_default();
        check_votes_within_totals(totals.as_deref(), &rows)?;
        let poll = self
            .find_or_create_poll(client, screen, totals.as_deref(), &rows)
            .await?;
        let places = index_items(&poll);
        // Validate everything before sending anything.
        let wanted = order_totals(totals.as_deref(), &places, &poll)?;
        let lines = encode_votes(&poll, &rows, &places)?;
        let cast = cast_votes(client, screen, &lines).await?;
        let carried = match &wanted {
            Some(wanted) => import_remainder(client, &poll, wanted).await?,
            None => 0,
        };
        let report = client
            .send(Request::get(&["polls", &poll.poll_id, "lanes"]))
            .await?;
        let lanes: LanesBody = report.read()?;
        let problems = find_problems(&lanes, wanted.as_deref(), &cast);
        if screen.json {
            let body = json!({
                "pollID": poll.poll_id,
                "counted": cast.counted,
                "already": cast.already,
                "carried": carried,
                "refused": cast.refused,
                "total": lanes.total,
                "lanes": report.read::<Value>()?,
                "problems": problems,
            });
            screen.data(body.to_string().as_bytes())?;
        } else {
            let message = polls::describe_import(
                screen,
                &lanes,
                [cast.counted, cast.already, carried],
                &problems,
            );
            screen.data(message.as_bytes())?;
        }
        Ok(match problems.is_empty() {
            true => CommandOutcome::Done,
            false => CommandOutcome::Negative,
        })
    }

    /// The poll named by --poll, or a new one.
    async fn find_or_create_poll(
        &self,
        client: &Client,
        screen: &Screen,
        totals: Option<&[(String, u64)]>,
        rows: &[VoteRow],
    ) -> Result<TargetPoll, CliError> {
        if let Some(poll) = &self.poll {
            return client.send(Request::get(&["polls", poll])).await?.read();
        }
        let mut names: Vec<String> = Vec::new();
        let listed = totals.unwrap_or_default().iter().map(|(item, _)| item);
        for name in listed.chain(rows.iter().map(|row| &row.item)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let body = self.options.body(&self.title, &names, screen)?;
        client
            .send(Request::post(&["polls"]).body(body))
            .await?
            .read()
    }
}

/// Refuses votes that exceed the totals, before anything is created.
fn check_votes_within_totals(
    totals: Option<&[(String, u64)]>,
    rows: &[VoteRow],
) -> Result<(), CliError> {
    let Some(totals) = totals else {
        return Ok(());
    };
    // Only a voter's first vote counts; later ones may be repetitions.
    let mut voters: HashMap<&str, &str> = HashMap::new();
    for row in rows {
        voters.entry(&row.voter).or_insert(&row.item);
    }
    let mut votes: BTreeMap<&str, u64> = BTreeMap::new();
    for item in voters.into_values() {
        *votes.entry(item).or_default() += 1;
    }
    for (item, votes) in votes {
        let total = totals.iter().find(|(name, _)| name == item);
        let total = total.map_or(0, |(_, total)| *total);
        if votes > total {
            let votes = count_noun(votes, "vote");
            let text = format!("{item:?} has {votes}, more than its total of {total}");
            let next = "the votes must be part of the totals: add what is missing to the totals";
            return Err(CliError::usage(text, next));
        }
    }
    Ok(())
}

/// The index of each item, by its name and by its ID.
fn index_items(poll: &TargetPoll) -> HashMap<&str, usize> {
    let items = poll.items.iter().enumerate();
    items
        .flat_map(|(place, item)| [(item.item_name.as_str(), place), (&item.item_id, place)])
        .collect()
}

fn find_item(places: &HashMap<&str, usize>, item: &str) -> Result<usize, CliError> {
    places.get(item).copied().ok_or_else(|| {
        let text = format!("the poll has no item {item:?}");
        CliError::usage(text, "name items as the poll does (ballast poll results)")
    })
}

/// The expected totals, in the poll's order.
fn order_totals(
    totals: Option<&[(String, u64)]>,
    places: &HashMap<&str, usize>,
    poll: &TargetPoll,
) -> Result<Option<Vec<u64>>, CliError> {
    let Some(totals) = totals else {
        return Ok(None);
    };
    let mut wanted = vec![0; poll.items.len()];
    for (item, votes) in totals {
        wanted[find_item(places, item)?] = *votes;
    }
    Ok(Some(wanted))
}

fn encode_votes(
    poll: &TargetPoll,
    rows: &[VoteRow],
    places: &HashMap<&str, usize>,
) -> Result<Vec<String>, CliError> {
    let line = |row: &VoteRow| {
        let item = &poll.items[find_item(places, &row.item)?].item_id;
        let vote = json!({ "pollID": poll.poll_id, "itemID": item, "voterID": row.voter });
        Ok(vote.to_string() + "\n")
    };
    rows.iter().map(line).collect()
}

async fn cast_votes(
    client: &Client,
    screen: &Screen,
    lines: &[String],
) -> Result<CastSummary, CliError> {
    let mut cast = CastSummary::default();
    for (done, some) in lines.chunks(LINES).enumerate() {
        let request = Request::post(&["votes"]).lines(some.concat());
        let reply = client.send(request).await?;
        for line in reply.bytes.split(|byte| *byte == b'\n') {
            let Ok(outcome) = serde_json::from_slice::<Value>(line) else {
                continue;
            };
            match outcome["outcome"].as_str() {
                Some("counted") => cast.counted += 1,
                Some("already") => cast.already += 1,
                _ => {
                    let code = outcome["code"].as_str().unwrap_or("refused").to_owned();
                    *cast.refused.entry(code).or_default() += 1;
                }
            }
        }
        if screen.terminal && lines.len() > LINES {
            let sent = ((done + 1) * LINES).min(lines.len());
            screen.hint(&screen.dim(&format!("{sent} of {} votes sent", lines.len())));
        }
    }
    Ok(cast)
}

/// Imports the difference between the totals and the counted votes. The idempotency key depends on
/// the totals, so that repeating the import adds nothing.
async fn import_remainder(
    client: &Client,
    poll: &TargetPoll,
    wanted: &[u64],
) -> Result<u64, CliError> {
    let path = ["polls", &poll.poll_id, "lanes"];
    let lanes: LanesBody = client.send(Request::get(&path)).await?.read()?;
    let mut missing = serde_json::Map::new();
    for (item, wanted) in lanes.items.iter().zip(wanted) {
        if item.votes_count > *wanted {
            let text = format!(
                "{:?} has {} already, more than the total of {wanted}",
                item.item_name,
                count_noun(item.votes_count, "vote")
            );
            return Err(CliError::usage(
                text,
                "the votes must be part of the totals",
            ));
        }
        if item.votes_count < *wanted {
            missing.insert(item.item_id.clone(), json!(wanted - item.votes_count));
        }
    }
    let carried = missing.values().filter_map(Value::as_u64).sum();
    if missing.is_empty() {
        return Ok(0);
    }
    let before: Vec<u64> = lanes.items.iter().map(|item| item.votes_count).collect();
    let name = format!("import {wanted:?} over {before:?}");
    let name = blake3::hash(name.as_bytes()).to_hex().to_string();
    let request = Request::post(&["polls", &poll.poll_id, "import"])
        .body(json!({ "totals": missing }))
        .idempotency_key(Some(name));
    client.send(request).await?;
    Ok(carried)
}

/// Lists the differences from the expected result.
fn find_problems(lanes: &LanesBody, wanted: Option<&[u64]>, cast: &CastSummary) -> Vec<String> {
    let mut problems = Vec::new();
    for (item, wanted) in lanes.items.iter().zip(wanted.unwrap_or_default()) {
        if item.votes_count != *wanted {
            problems.push(format!(
                "{:?} has {}, and should have {wanted}",
                item.item_name,
                count_noun(item.votes_count, "vote")
            ));
        }
    }
    for (code, count) in &cast.refused {
        problems.push(format!("{} refused: {code}", count_noun(*count, "vote")));
    }
    problems
}
