//! `simulate`: predicts the effect of a change from recorded load. Changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ballast_control_plane::hotspots::terms::TermsBody;
use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::shard::Shard;
use ballast_domain::tenant::Tenant;
use ballast_domain::{ShardId, TenantId};
use ballast_hotspot_detector::diagnose::DiagnosisSettings;
use ballast_hotspot_detector::plan::{FleetSnapshot, PlanTerms};
use ballast_hotspot_detector::rules::{Ruleset, defaults, test};
use ballast_hotspot_detector::whatif::{
    FleetChange, RecordedFleet, apply_registry, fleet_from_samples, replay, simulate_changes,
};
use clap::Args;

use super::Remote;
use super::args::PagingArgs;
use super::client::Request;
use super::failure::{CliError, CommandOutcome};
use super::globals::Globals;
use super::hotspot::{fetch_recorded_load, load_rules, parse_samples, read_text_file};
use super::load::TimeRangeArgs;
use super::output::Screen;
use super::view::simulated;

/// Arguments of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// A change: add-shard=ID, weight=ID:2, drain=ID or rules=LIMIT:GOAL (repeatable)
    #[arg(long = "change", value_name = "CHANGE")]
    changes: Vec<String>,
    /// A file of recorded load [default: the server's record]
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
    #[command(flatten)]
    stretch: TimeRangeArgs,
    /// Hotspot rules [default: the server's; with --load, the built-in rules]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// With --load: fetch residency, zones, pins, dials and weights of the shards and tenants in
    /// the file, and rules and terms, from the server; always done without --load
    #[arg(long, requires = "load")]
    registered: bool,
}

/// Records of the server that recorded load lacks.
struct RegisteredFleet {
    shards: Vec<Shard>,
    tenants: Vec<Tenant>,
}

impl RegisteredFleet {
    /// Fetches the server's shards and tenants.
    async fn fetch(remote: &Remote) -> Result<Self, CliError> {
        #[derive(serde::Deserialize)]
        struct Items<T> {
            items: Vec<T>,
        }
        let all = PagingArgs {
            all: true,
            ..PagingArgs::default()
        };
        let list = async |what: &str| {
            let request = Request::get(&[what]);
            remote.client.list(request, &all, PAGE_ITEMS_MAX).await
        };
        let shards: Items<Shard> = list("shards").await?.read()?;
        let tenants: Items<Tenant> = list("tenants").await?.read()?;
        Ok(Self {
            shards: shards.items,
            tenants: tenants.items,
        })
    }

    /// The rate limits of tenants that have one.
    fn limits(&self) -> BTreeMap<TenantId, f64> {
        let limited = self.tenants.iter().filter_map(|tenant| {
            let limit = tenant.limits.votes_per_second?;
            Some((tenant.tenant_id.clone(), limit as f64))
        });
        limited.collect()
    }
}

/// The rules and terms of the simulation.
struct SimulationTerms {
    rules: Ruleset,
    terms: PlanTerms,
    diagnose: DiagnosisSettings,
    /// The limit and the goal of shards, if known.
    limits: Option<(f64, f64)>,
}

impl SimulationTerms {
    /// The server's rules and terms, or the defaults without a server.
    async fn load(remote: Option<&Remote>, rules: Option<&Path>) -> Result<Self, CliError> {
        let mut goes_by = match remote {
            Some(remote) => {
                let reply = remote.client.send(Request::get(&["load", "terms"])).await?;
                let body: TermsBody = reply.read()?;
                let (rules, terms) = body.read().map_err(CliError::local)?;
                Self {
                    rules,
                    terms,
                    diagnose: body.diagnose,
                    limits: Some((body.limit, body.goal)),
                }
            }
            None => Self {
                rules: defaults().map_err(|problems| CliError::local(problems.to_string()))?,
                terms: PlanTerms::default(),
                diagnose: DiagnosisSettings::default(),
                limits: None,
            },
        };
        if let Some(file) = rules {
            goes_by.rules = load_rules(file)?;
        }
        Ok(goes_by)
    }
}

impl SimulateArgs {
    /// Runs the command.
    pub(crate) async fn run(
        self,
        globals: &Globals,
        screen: &Screen,
    ) -> Result<CommandOutcome, CliError> {
        let remote = match self.load.is_none() || self.registered {
            true => Some(Remote::new(globals, screen)?),
            false => None,
        };
        let text = match (&self.load, &remote) {
            (Some(file), _) => read_text_file(file)?,
            (None, Some(remote)) => fetch_recorded_load(remote, &self.stretch).await?,
            (None, None) => String::new(),
        };
        let goes_by = SimulationTerms::load(remote.as_ref(), self.rules.as_deref()).await?;
        let samples = parse_samples(&text)?;
        let registered = match &remote {
            Some(remote) => Some(RegisteredFleet::fetch(remote).await?),
            None => None,
        };
        let Some(RecordedFleet { mut fleet, busiest }) =
            fleet_from_samples(&samples, &goes_by.rules.spans)
        else {
            return Err(CliError::rejected_locally(
                "no-load",
                "There is nothing to simulate",
                "no load was recorded in that time".to_owned(),
                "Ask for a longer time (--from 6h), or name a file (--load FILE).",
            ));
        };
        let limits = registered.as_ref().map(RegisteredFleet::limits);
        let found = test::test(&goes_by.rules, samples.iter().cloned());
        let limits = limits.unwrap_or_default();
        let replayed = replay(&goes_by.rules, &goes_by.diagnose, &limits, samples);
        if let Some(known) = &registered {
            apply_registry(&mut fleet, &known.shards, &known.tenants);
        }
        if let Some((limit, goal)) = goes_by.limits {
            for shard in &mut fleet.shards {
                (shard.limit, shard.goal) = (limit, goal);
            }
        }
        let counted_on = replayed.subtract_throttled_load(&mut fleet);
        let changes = self.changes.iter().map(|text| parse_change(text, &fleet));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        let answer = simulate_changes(&fleet, &goes_by.terms, &changes)
            .map_err(|bad| CliError::usage(bad.to_string(), "--change names shards of the load"))?;
        let came = simulated::SimulationReport {
            answer: &answer,
            rules: &found,
            replayed: &replayed,
            busiest: &busiest,
            counted_on: &counted_on,
        };
        let message = match screen.json {
            true => simulated::simulation_json(&came),
            false => simulated::simulation_text(&came),
        };
        screen.data(message.trim_end().as_bytes())?;
        Ok(CommandOutcome::Done)
    }
}

fn invalid_change(text: &str) -> CliError {
    CliError::usage(
        format!("{text:?} is not a change"),
        "write add-shard=shard-9, weight=shard-1:2, drain=shard-1 or rules=0.7:0.6",
    )
}

fn parse_shard_id(text: &str, name: &str) -> Result<ShardId, CliError> {
    name.parse().map_err(|_| invalid_change(text))
}

/// Parses a change.
fn parse_change(text: &str, fleet: &FleetSnapshot) -> Result<FleetChange, CliError> {
    let (kind, rest) = text.split_once('=').unwrap_or((text, ""));
    let two = || rest.split_once(':').ok_or_else(|| invalid_change(text));
    let number = |part: &str| part.parse::<f64>().map_err(|_| invalid_change(text));
    match kind {
        "add-shard" => {
            let (name, like) = rest.split_once(':').unwrap_or((rest, ""));
            let first = fleet.shards.first().ok_or_else(|| invalid_change(text))?;
            Ok(FleetChange::AddShard {
                shard_id: match name {
                    "" => parse_shard_id(text, "new-shard")?,
                    name => parse_shard_id(text, name)?,
                },
                like: match like {
                    "" => first.id().clone(),
                    like => parse_shard_id(text, like)?,
                },
                region: None,
            })
        }
        "weight" => {
            let (name, weight) = two()?;
            Ok(FleetChange::Weight {
                shard_id: parse_shard_id(text, name)?,
                weight: number(weight)?,
            })
        }
        "drain" => Ok(FleetChange::Drain {
            shard_id: parse_shard_id(text, rest)?,
        }),
        "rules" => {
            let (limit, goal) = two()?;
            Ok(FleetChange::Rules {
                shard_id: None,
                limit: number(limit)?,
                goal: number(goal)?,
            })
        }
        _ => Err(invalid_change(text)),
    }
}

#[cfg(test)]
mod tests {
    use ballast_hotspot_detector::load::Spans;

    use super::*;

    #[test]
    fn changes_are_read_as_they_are_typed() {
        let record = include_str!("../../hotspot-detector/src/load/record/golden.ndjson");
        let fleet = fleet_from_samples(&parse_samples(record).unwrap(), &Spans::default())
            .unwrap()
            .fleet;
        let read = |text: &str| parse_change(text, &fleet).map(|it| it.to_string());
        assert_eq!(read("drain=shard-1").unwrap(), "shard-1 were drained");
        assert_eq!(
            read("weight=shard-1:2").unwrap(),
            "shard-1 had the weight 2"
        );
        let added = read("add-shard=shard-9").unwrap();
        assert_eq!(added, "there were a shard shard-9 like shard-1");
        assert!(read("add-shard").unwrap().contains("new-shard"));
        assert!(read("rules=0.7:0.6").is_ok());
        for wrong in [
            "",
            "weight=shard-1",
            "weight=shard-1:much",
            "drain=",
            "raise=x",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
