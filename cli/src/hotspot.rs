//! `hotspot`: what is hot, why, what helps — and why nothing is done.

use std::path::PathBuf;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_hotspot_detector::load::record::RecordReader;
use ballast_hotspot_detector::rules::{Ruleset, defaults, test};
use clap::Subcommand;
use serde_json::json;

use super::args::Paging;
use super::client::Request;
use super::failure::{Failure, Verdict};
use super::globals::Globals;
use super::load::StretchArgs;
use super::output::Screen;
use super::view::{self, hotspots};
use super::{Remote, help};
use crate::rules_file::read_rules;

/// What can be asked about hotspots.
#[derive(Debug, Subcommand)]
#[command(after_help = help::HOTSPOT)]
pub(crate) enum HotspotCommand {
    /// List hotspots, the newest first
    #[command(after_help = help::HOTSPOT_LIST)]
    List {
        /// Only those that are there
        #[arg(long, conflicts_with = "over")]
        open: bool,
        /// Only those that are over
        #[arg(long)]
        over: bool,
        /// Only those of this shard
        #[arg(long, value_name = "ID")]
        shard: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a hotspot as a letter: finding, evidence, cause, cure, what to expect
    #[command(after_help = help::HOTSPOT_SHOW)]
    Show {
        /// The hotspot
        id: String,
    },
    /// Say why nothing is done about a shard, or what is
    #[command(after_help = help::HOTSPOT_WHY_NOT)]
    WhyNot {
        /// The shard
        shard: String,
    },
    /// Check rules, and try them on recorded load
    #[command(subcommand)]
    Rules(RulesCommand),
}

/// What can be done with rules.
#[derive(Debug, Subcommand)]
#[command(after_help = help::HOTSPOT_RULES)]
pub(crate) enum RulesCommand {
    /// Say what is wrong with a file of rules, all of it at once
    #[command(after_help = help::HOTSPOT_RULES_CHECK)]
    Check {
        /// The file
        file: PathBuf,
    },
    /// Say what rules would have found in recorded load, and why not
    #[command(after_help = help::HOTSPOT_RULES_TEST)]
    Test {
        /// The file of rules; the usual ones when absent
        file: Option<PathBuf>,
        /// A file of recorded load, instead of asking the server for its own
        #[arg(long, value_name = "FILE")]
        load: Option<PathBuf>,
        #[command(flatten)]
        stretch: StretchArgs,
    },
}

impl HotspotCommand {
    /// Does it.
    pub(crate) async fn run(self, globals: &Globals, screen: &Screen) -> Result<Verdict, Failure> {
        let remote = || Remote::new(globals, screen);
        match self {
            Self::List {
                open,
                over,
                shard,
                paging,
            } => {
                let open = (open || over).then_some(open);
                let request = Request::get(&["hotspots"])
                    .query("open", open)
                    .query("shardID", shard);
                let reply = remote()?
                    .client
                    .list(request, &paging, PAGE_ITEMS_MAX)
                    .await?;
                let empty =
                    "no hotspots; ballast hotspot why-not SHARD says how far a shard is from one";
                view::list(screen, &reply, hotspots::table, empty)?;
            }
            Self::Show { id } => {
                let reply = remote()?
                    .client
                    .send(Request::get(&["hotspots", &id]))
                    .await?;
                view::show(screen, &reply, hotspots::one)?;
            }
            Self::WhyNot { shard } => {
                let request = Request::get(&["shards", &shard, "why-not"]);
                let reply = remote()?.client.send(request).await?;
                view::show(screen, &reply, hotspots::why_not)?;
            }
            Self::Rules(RulesCommand::Check { file }) => return check(&file, screen),
            Self::Rules(RulesCommand::Test {
                file,
                load,
                stretch,
            }) => {
                let rules = match &file {
                    Some(file) => rules_of(file)?,
                    None => defaults().map_err(|problems| Failure::local(problems.to_string()))?,
                };
                let text = match load {
                    Some(file) => text_of(&file)?,
                    None => recorded(&remote()?, &stretch).await?,
                };
                return tested(&rules, &text, screen);
            }
        }
        Ok(Verdict::Done)
    }
}

/// What the server has recorded.
pub(crate) async fn recorded(remote: &Remote, stretch: &StretchArgs) -> Result<String, Failure> {
    let request = stretch.of(remote, Request::get(&["load", "record"]));
    let reply = remote.client.send(request).await?;
    String::from_utf8(reply.bytes)
        .map_err(|_| Failure::local("the server's record is no text".to_owned()))
}

fn check(file: &std::path::Path, screen: &Screen) -> Result<Verdict, Failure> {
    match read_rules(file) {
        Ok(rules) => {
            let told = match screen.json {
                true => json!({ "valid": true, "rules": rules.rules.len() }).to_string(),
                false => format!(
                    "{}: {} rules, nothing wrong",
                    file.display(),
                    rules.rules.len()
                ),
            };
            screen.data(told.as_bytes())?;
            Ok(Verdict::Done)
        }
        Err(error) => {
            let problems: Vec<_> = error.to_string().lines().map(str::to_owned).collect();
            let told = match screen.json {
                true => json!({ "valid": false, "problems": problems }).to_string(),
                false => problems.join("\n"),
            };
            screen.data(told.as_bytes())?;
            Ok(Verdict::Negative)
        }
    }
}

/// A file of recorded load.
pub(crate) fn text_of(file: &std::path::Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::local(format!("{} cannot be read: {error}", file.display())))
}

/// A file of rules.
pub(crate) fn rules_of(file: &std::path::Path) -> Result<Ruleset, Failure> {
    read_rules(file).map_err(|error| {
        Failure::refused_here(
            "bad-rules",
            "The rules cannot be used",
            format!("{error:#}"),
            "Correct them: ballast hotspot rules check says what is wrong.",
        )
    })
}

/// The samples of a record.
pub(crate) fn samples(text: &str) -> Result<Vec<ballast_hotspot_detector::load::Sample>, Failure> {
    let bad = |error: ballast_hotspot_detector::load::record::BadLine| {
        Failure::refused_here(
            "bad-load",
            "The recorded load cannot be read",
            error.to_string(),
            "Correct that line; docs/load-format.md says what is in a record.",
        )
    };
    let mut reader = RecordReader::default();
    let mut samples = Vec::new();
    for line in text.lines() {
        samples.extend(reader.line(line).map_err(bad)?);
    }
    samples.extend(reader.finish().map_err(bad)?);
    Ok(samples)
}

fn tested(rules: &Ruleset, text: &str, screen: &Screen) -> Result<Verdict, Failure> {
    let report = test::test(rules, samples(text)?);
    let told = match screen.json {
        true => hotspots::report(&report).to_string(),
        false => test::told(&report).trim_end().to_owned(),
    };
    screen.data(told.as_bytes())?;
    Ok(Verdict::Done)
}
