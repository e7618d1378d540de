//! `hotspot`: what is hot, why, what helps — and why nothing is done.

use std::path::PathBuf;

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_hotspot_detector::load::record::RecordReader;
use ballast_hotspot_detector::rules::{Ruleset, defaults, test};
use clap::Subcommand;
use serde_json::json;

use super::args::PagingArgs;
use super::client::Request;
use super::failure::{CliError, CommandOutcome};
use super::globals::Globals;
use super::load::TimeRangeArgs;
use super::output::Screen;
use super::view::{self, hotspots};
use super::{Remote, help};
use crate::rules_file::read_rules;
use crate::table::count_noun;

/// Commands on hotspots.
#[derive(Debug, Subcommand)]
#[command(after_help = help::HOTSPOT)]
pub(crate) enum HotspotCommand {
    /// List hotspots, the newest first
    #[command(after_help = help::HOTSPOT_LIST)]
    List {
        /// Only open hotspots
        #[arg(long, conflicts_with = "over")]
        open: bool,
        /// Only closed hotspots
        #[arg(long)]
        over: bool,
        /// Only hotspots of this shard
        #[arg(long, value_name = "ID")]
        shard: Option<String>,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Show the diagnosis of a hotspot: finding, evidence, cause, cure, prediction
    #[command(after_help = help::HOTSPOT_SHOW)]
    Show {
        /// The hotspot
        id: String,
    },
    /// Explain what is done about a shard, or why nothing is
    #[command(after_help = help::HOTSPOT_WHY_NOT)]
    WhyNot {
        /// The shard
        shard: String,
    },
    /// Check rules and test them on recorded load
    #[command(subcommand)]
    Rules(RulesCommand),
}

/// Commands on hotspot rules.
#[derive(Debug, Subcommand)]
#[command(after_help = help::HOTSPOT_RULES)]
pub(crate) enum RulesCommand {
    /// Check a rules file and report every problem
    #[command(after_help = help::HOTSPOT_RULES_CHECK)]
    Check {
        /// The file
        file: PathBuf,
    },
    /// Show what rules would have found in recorded load, and why not
    #[command(after_help = help::HOTSPOT_RULES_TEST)]
    Test {
        /// The rules file [default: the built-in rules]
        file: Option<PathBuf>,
        /// A file of recorded load [default: the server's record]
        #[arg(long, value_name = "FILE")]
        load: Option<PathBuf>,
        #[command(flatten)]
        stretch: TimeRangeArgs,
    },
}

impl HotspotCommand {
    /// Runs the command.
    pub(crate) async fn run(
        self,
        globals: &Globals,
        screen: &Screen,
    ) -> Result<CommandOutcome, CliError> {
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
                    "no hotspots; ballast hotspot why-not SHARD shows how close a shard is to one";
                view::list(screen, &reply, hotspots::hotspot_table, empty)?;
            }
            Self::Show { id } => {
                let reply = remote()?
                    .client
                    .send(Request::get(&["hotspots", &id]))
                    .await?;
                view::show(screen, &reply, hotspots::describe_hotspot)?;
            }
            Self::WhyNot { shard } => {
                let request = Request::get(&["shards", &shard, "why-not"]);
                let reply = remote()?.client.send(request).await?;
                view::show(screen, &reply, hotspots::describe_inaction)?;
            }
            Self::Rules(RulesCommand::Check { file }) => return check_rules(&file, screen),
            Self::Rules(RulesCommand::Test {
                file,
                load,
                stretch,
            }) => {
                let rules = match &file {
                    Some(file) => load_rules(file)?,
                    None => defaults().map_err(|problems| CliError::local(problems.to_string()))?,
                };
                let text = match load {
                    Some(file) => read_text_file(&file)?,
                    None => fetch_recorded_load(&remote()?, &stretch).await?,
                };
                return test_rules(&rules, &text, screen);
            }
        }
        Ok(CommandOutcome::Done)
    }
}

/// What the server has recorded.
pub(crate) async fn fetch_recorded_load(
    remote: &Remote,
    stretch: &TimeRangeArgs,
) -> Result<String, CliError> {
    let request = stretch.apply_to(remote, Request::get(&["load", "record"]));
    let reply = remote.client.send(request).await?;
    String::from_utf8(reply.bytes)
        .map_err(|_| CliError::local("the server's record is not UTF-8 text".to_owned()))
}

fn check_rules(file: &std::path::Path, screen: &Screen) -> Result<CommandOutcome, CliError> {
    match read_rules(file) {
        Ok(rules) => {
            let message = match screen.json {
                true => json!({ "valid": true, "rules": rules.rules.len() }).to_string(),
                false => format!(
                    "{}: {}, no problems",
                    file.display(),
                    count_noun(rules.rules.len() as u64, "rule")
                ),
            };
            screen.data(message.as_bytes())?;
            Ok(CommandOutcome::Done)
        }
        Err(error) => {
            let problems: Vec<_> = error.to_string().lines().map(str::to_owned).collect();
            let message = match screen.json {
                true => json!({ "valid": false, "problems": problems }).to_string(),
                false => problems.join("\n"),
            };
            screen.data(message.as_bytes())?;
            Ok(CommandOutcome::Negative)
        }
    }
}

/// A file of recorded load.
pub(crate) fn read_text_file(file: &std::path::Path) -> Result<String, CliError> {
    std::fs::read_to_string(file)
        .map_err(|error| CliError::local(format!("{} cannot be read: {error}", file.display())))
}

/// A file of rules.
pub(crate) fn load_rules(file: &std::path::Path) -> Result<Ruleset, CliError> {
    read_rules(file).map_err(|error| {
        CliError::rejected_locally(
            "bad-rules",
            "Invalid rules",
            format!("{error:#}"),
            "Fix them: ballast hotspot rules check lists the problems.",
        )
    })
}

/// The samples of a record.
pub(crate) fn parse_samples(
    text: &str,
) -> Result<Vec<ballast_hotspot_detector::load::LoadSample>, CliError> {
    let bad = |error: ballast_hotspot_detector::load::record::BadLine| {
        CliError::rejected_locally(
            "bad-load",
            "Invalid recorded load",
            error.to_string(),
            "Fix that line; docs/load-format.md describes the format.",
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

fn test_rules(rules: &Ruleset, text: &str, screen: &Screen) -> Result<CommandOutcome, CliError> {
    let report = test::test(rules, parse_samples(text)?);
    let message = match screen.json {
        true => hotspots::report_json(&report).to_string(),
        false => test::format_report(&report).trim_end().to_owned(),
    };
    screen.data(message.as_bytes())?;
    Ok(CommandOutcome::Done)
}
