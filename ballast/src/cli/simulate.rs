//! `simulate`: what would come of a change, on recorded load. Nothing is changed.

use std::path::PathBuf;

use ballast_domain::ShardId;
use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::shard::Shard;
use ballast_domain::tenant::Tenant;
use ballast_hotspot_detector::plan::{Fleet, Terms};
use ballast_hotspot_detector::rules::{defaults, test};
use ballast_hotspot_detector::whatif::{Change, fleet_of, register, what_if};
use clap::Args;
use serde_json::json;

use super::Remote;
use super::args::Paging;
use super::client::Request;
use super::failure::{Failure, Verdict};
use super::globals::Globals;
use super::hotspot::{recorded, samples};
use super::load::StretchArgs;
use super::output::Screen;
use super::view::hotspots;
use crate::config::read_rules;

/// What is simulated.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// What is changed: add-shard=ID, weight=ID:2, drain=ID or rules=LIMIT:GOAL; may be repeated
    #[arg(long = "change", value_name = "CHANGE")]
    changes: Vec<String>,
    /// A file of recorded load, instead of asking the server for its own
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
    #[command(flatten)]
    stretch: StretchArgs,
    /// Rules to look for hotspots with; the usual ones when absent
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// With --load: take residency, zones, pins, dials and weights of shards and tenants that the
    /// server knows from there; without --load that is always done
    #[arg(long, requires = "load")]
    registered: bool,
}

/// Shards and tenants as the server has them.
async fn registered(
    globals: &Globals,
    screen: &Screen,
) -> Result<(Vec<Shard>, Vec<Tenant>), Failure> {
    #[derive(serde::Deserialize)]
    struct Items<T> {
        items: Vec<T>,
    }
    let remote = Remote::new(globals, screen)?;
    let all = Paging {
        all: true,
        ..Paging::default()
    };
    let list = async |what: &str| {
        let request = Request::get(&[what]);
        remote.client.list(request, &all, PAGE_ITEMS_MAX).await
    };
    let shards: Items<Shard> = list("shards").await?.read()?;
    let tenants: Items<Tenant> = list("tenants").await?.read()?;
    Ok((shards.items, tenants.items))
}

impl SimulateArgs {
    /// Does it.
    pub(crate) async fn run(self, globals: &Globals, screen: &Screen) -> Result<Verdict, Failure> {
        let text = match &self.load {
            Some(file) => std::fs::read_to_string(file).map_err(|error| {
                Failure::local(format!("{} cannot be read: {error}", file.display()))
            })?,
            None => recorded(&Remote::new(globals, screen)?, &self.stretch).await?,
        };
        let rules = match &self.rules {
            Some(file) => read_rules(file).map_err(|error| Failure::local(format!("{error:#}")))?,
            None => defaults().map_err(|problems| Failure::local(problems.to_string()))?,
        };
        let samples = samples(&text)?;
        let found = test::test(&rules, samples.iter().cloned());
        let Some(mut fleet) = fleet_of(samples) else {
            return Err(Failure::refused_here(
                "no-load",
                "There is nothing to simulate",
                "no load was recorded in that time".to_owned(),
                "Ask for a longer time (--from 6h), or name a file (--load FILE).",
            ));
        };
        if self.load.is_none() || self.registered {
            let (shards, tenants) = registered(globals, screen).await?;
            register(&mut fleet, &shards, &tenants);
        }
        let changes = self.changes.iter().map(|text| change(text, &fleet));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        let answer = what_if(&fleet, &Terms::default(), &changes)
            .map_err(|bad| Failure::usage(bad.to_string(), "--change names shards of the load"))?;
        let told = match screen.json {
            true => json!({ "answer": answer, "found": hotspots::report(&found) }).to_string(),
            false => {
                let fired: Vec<_> = found.rules.iter().filter(|rule| rule.fired > 0).collect();
                let mut told = match fired.is_empty() {
                    true => format!("No rule fired in {} samples.\n", found.samples),
                    false => String::new(),
                };
                for rule in fired {
                    told.push_str(&format!("Rule {} fired {} times.\n", rule.rule, rule.fired));
                }
                format!("{told}\n{}", answer.to_string().trim_end())
            }
        };
        screen.data(told.as_bytes())?;
        Ok(Verdict::Done)
    }
}

fn bad(text: &str) -> Failure {
    Failure::usage(
        format!("{text:?} is no change"),
        "write add-shard=shard-9, weight=shard-1:2, drain=shard-1 or rules=0.7:0.6",
    )
}

fn shard(text: &str, name: &str) -> Result<ShardId, Failure> {
    name.parse().map_err(|_| bad(text))
}

/// A change as it is typed.
fn change(text: &str, fleet: &Fleet) -> Result<Change, Failure> {
    let (kind, rest) = text.split_once('=').unwrap_or((text, ""));
    let two = || rest.split_once(':').ok_or_else(|| bad(text));
    let number = |part: &str| part.parse::<f64>().map_err(|_| bad(text));
    match kind {
        "add-shard" => {
            let (name, like) = rest.split_once(':').unwrap_or((rest, ""));
            let first = fleet.shards.first().ok_or_else(|| bad(text))?;
            Ok(Change::AddShard {
                shard_id: match name {
                    "" => shard(text, "new-shard")?,
                    name => shard(text, name)?,
                },
                like: match like {
                    "" => first.id().clone(),
                    like => shard(text, like)?,
                },
                region: None,
            })
        }
        "weight" => {
            let (name, weight) = two()?;
            Ok(Change::Weight {
                shard_id: shard(text, name)?,
                weight: number(weight)?,
            })
        }
        "drain" => Ok(Change::Drain {
            shard_id: shard(text, rest)?,
        }),
        "rules" => {
            let (limit, goal) = two()?;
            Ok(Change::Rules {
                shard_id: None,
                limit: number(limit)?,
                goal: number(goal)?,
            })
        }
        _ => Err(bad(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_are_typed() {
        let record = include_str!("../../../hotspot-detector/src/load/record/golden.ndjson");
        let fleet = fleet_of(samples(record).unwrap()).unwrap();
        let read = |text: &str| change(text, &fleet).map(|it| it.to_string());
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
