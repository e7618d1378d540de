//! `poll import`: counters and votes from elsewhere become a poll, and what
//! became of them is read back.
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

use super::NewOptions;
use super::files::{self, Row};
use crate::client::{Client, Request};
use crate::failure::{Failure, Verdict};
use crate::output::Screen;
use crate::view::polls::{self, Lanes};

/// Votes sent in one request.
const LINES: usize = 1_000;

/// What to take over.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// Votes per item: CSV or JSON
    #[arg(long, value_name = "FILE", required_unless_present = "votes")]
    totals: Option<PathBuf>,
    /// Who voted for what: CSV or JSON lines
    #[arg(long, value_name = "FILE")]
    votes: Option<PathBuf>,
    /// A poll that is there already; one is made when absent
    #[arg(long, value_name = "POLL", conflicts_with_all = ["title", "expires", "opens", "choices", "changeable", "hidden", "lanes", "expected_voters"])]
    poll: Option<String>,
    /// What people call the poll that is made
    #[arg(long, default_value = "imported")]
    title: String,
    #[command(flatten)]
    options: NewOptions,
}

/// A poll as the API shows it.
#[derive(Debug, Deserialize)]
struct Poll {
    #[serde(rename = "pollID")]
    poll_id: String,
    items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    #[serde(rename = "itemID")]
    item_id: String,
    item_name: String,
}

/// What became of the votes.
#[derive(Debug, Default)]
struct Cast {
    counted: u64,
    already: u64,
    refused: BTreeMap<String, u64>,
}

impl Source {
    /// Does it.
    pub(super) async fn run(self, client: &Client, screen: &Screen) -> Result<Verdict, Failure> {
        let totals = self.totals.as_deref().map(files::totals).transpose()?;
        let rows = self.votes.as_deref().map(files::rows).transpose()?;
        let rows = rows.unwrap_or_default();
        check_parts(totals.as_deref(), &rows)?;
        let poll = self.poll(client, screen, totals.as_deref(), &rows).await?;
        let places = places(&poll);
        // Everything is known to fit before anything is sent.
        let wanted = wanted(totals.as_deref(), &places, &poll)?;
        let lines = lines(&poll, &rows, &places)?;
        let cast = cast(client, screen, &lines).await?;
        let carried = match &wanted {
            Some(wanted) => carry(client, &poll, wanted).await?,
            None => 0,
        };
        let report = client
            .send(Request::get(&["polls", &poll.poll_id, "lanes"]))
            .await?;
        let lanes: Lanes = report.read()?;
        let problems = problems(&lanes, wanted.as_deref(), &cast);
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
            let told = polls::imported(
                screen,
                &lanes,
                [cast.counted, cast.already, carried],
                &problems,
            );
            screen.data(told.as_bytes())?;
        }
        Ok(match problems.is_empty() {
            true => Verdict::Done,
            false => Verdict::Negative,
        })
    }

    /// The poll that is named, or one that is made.
    async fn poll(
        &self,
        client: &Client,
        screen: &Screen,
        totals: Option<&[(String, u64)]>,
        rows: &[Row],
    ) -> Result<Poll, Failure> {
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

/// The votes must be part of the totals: refused before anything is made.
fn check_parts(totals: Option<&[(String, u64)]>, rows: &[Row]) -> Result<(), Failure> {
    let Some(totals) = totals else {
        return Ok(());
    };
    // A voter's first vote counts; what follows may be a repetition.
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
            let text = format!("{item:?} has {votes} votes, more than its total of {total}");
            let next = "the votes must be part of the totals: add what is missing to the totals";
            return Err(Failure::usage(text, next));
        }
    }
    Ok(())
}

/// The place of each item, by its name and by its ID.
fn places(poll: &Poll) -> HashMap<&str, usize> {
    let items = poll.items.iter().enumerate();
    items
        .flat_map(|(place, item)| [(item.item_name.as_str(), place), (&item.item_id, place)])
        .collect()
}

fn place_of(places: &HashMap<&str, usize>, item: &str) -> Result<usize, Failure> {
    places.get(item).copied().ok_or_else(|| {
        let text = format!("the poll has no item {item:?}");
        Failure::usage(text, "name items as the poll does (ballast poll results)")
    })
}

/// The totals that are to be, in the poll's order.
fn wanted(
    totals: Option<&[(String, u64)]>,
    places: &HashMap<&str, usize>,
    poll: &Poll,
) -> Result<Option<Vec<u64>>, Failure> {
    let Some(totals) = totals else {
        return Ok(None);
    };
    let mut wanted = vec![0; poll.items.len()];
    for (item, votes) in totals {
        wanted[place_of(places, item)?] = *votes;
    }
    Ok(Some(wanted))
}

fn lines(poll: &Poll, rows: &[Row], places: &HashMap<&str, usize>) -> Result<Vec<String>, Failure> {
    let line = |row: &Row| {
        let item = &poll.items[place_of(places, &row.item)?].item_id;
        let vote = json!({ "pollID": poll.poll_id, "itemID": item, "voterID": row.voter });
        Ok(vote.to_string() + "\n")
    };
    rows.iter().map(line).collect()
}

async fn cast(client: &Client, screen: &Screen, lines: &[String]) -> Result<Cast, Failure> {
    let mut cast = Cast::default();
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

/// Carries what the totals have beyond the votes that are counted. The name of
/// the request says which totals: asked again, nothing is added.
async fn carry(client: &Client, poll: &Poll, wanted: &[u64]) -> Result<u64, Failure> {
    let path = ["polls", &poll.poll_id, "lanes"];
    let lanes: Lanes = client.send(Request::get(&path)).await?.read()?;
    let mut missing = serde_json::Map::new();
    for (item, wanted) in lanes.items.iter().zip(wanted) {
        if item.votes_count > *wanted {
            let text = format!(
                "{:?} has {} votes already, more than the total of {wanted}",
                item.item_name, item.votes_count
            );
            return Err(Failure::usage(text, "the votes must be part of the totals"));
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
        .named(Some(name));
    client.send(request).await?;
    Ok(carried)
}

/// What is not as it should be.
fn problems(lanes: &Lanes, wanted: Option<&[u64]>, cast: &Cast) -> Vec<String> {
    let mut problems = Vec::new();
    for (item, wanted) in lanes.items.iter().zip(wanted.unwrap_or_default()) {
        if item.votes_count != *wanted {
            problems.push(format!(
                "{:?} has {} votes, and should have {wanted}",
                item.item_name, item.votes_count
            ));
        }
    }
    for (code, count) in &cast.refused {
        problems.push(format!("{count} votes were refused: {code}"));
    }
    problems
}
