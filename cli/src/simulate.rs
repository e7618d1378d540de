//! `simulate`: what would come of a change, on recorded load. Nothing is changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ballast_control_plane::hotspots::terms::TermsBody;
use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_domain::shard::Shard;
use ballast_domain::tenant::Tenant;
use ballast_domain::{ShardId, TenantId};
use ballast_hotspot_detector::diagnose::DiagnosisSettings;
use ballast_hotspot_detector::plan::{Fleet, Terms};
use ballast_hotspot_detector::rules::{Ruleset, defaults, test};
use ballast_hotspot_detector::whatif::{Change, Recorded, fleet_of, register, replay, what_if};
use clap::Args;

use super::Remote;
use super::args::Paging;
use super::client::Request;
use super::failure::{Failure, Verdict};
use super::globals::Globals;
use super::hotspot::{recorded, rules_of, samples, text_of};
use super::load::StretchArgs;
use super::output::Screen;
use super::view::simulated as told;

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
    /// Rules to look for hotspots with; when absent the server's own, with --load the usual ones
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// With --load: ask the server for residency, zones, pins, dials and weights of the shards and
    /// tenants in the file, and for its rules and terms; without --load that is always done
    #[arg(long, requires = "load")]
    registered: bool,
}

/// What the server knows that is not in a record.
struct Registered {
    shards: Vec<Shard>,
    tenants: Vec<Tenant>,
}

impl Registered {
    /// Shards and tenants as the server has them.
    async fn ask(remote: &Remote) -> Result<Self, Failure> {
        #[derive(serde::Deserialize)]
        struct Items<T> {
            items: Vec<T>,
        }
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
        Ok(Self {
            shards: shards.items,
            tenants: tenants.items,
        })
    }

    /// Calls a second that tenants may make, where they are limited.
    fn limits(&self) -> BTreeMap<TenantId, f64> {
        let limited = self.tenants.iter().filter_map(|tenant| {
            let limit = tenant.limits.votes_per_second?;
            Some((tenant.tenant_id.clone(), limit as f64))
        });
        limited.collect()
    }
}

/// What load is judged and planned by.
struct GoesBy {
    rules: Ruleset,
    terms: Terms,
    diagnose: DiagnosisSettings,
    /// The limit and the goal of shards, where they are known.
    limits: Option<(f64, f64)>,
}

impl GoesBy {
    /// The server's own, or the usual ones where none is asked.
    async fn find(remote: Option<&Remote>, rules: Option<&Path>) -> Result<Self, Failure> {
        let mut goes_by = match remote {
            Some(remote) => {
                let reply = remote.client.send(Request::get(&["load", "terms"])).await?;
                let body: TermsBody = reply.read()?;
                let (rules, terms) = body.read().map_err(Failure::local)?;
                Self {
                    rules,
                    terms,
                    diagnose: body.diagnose,
                    limits: Some((body.limit, body.goal)),
                }
            }
            None => Self {
                rules: defaults().map_err(|problems| Failure::local(problems.to_string()))?,
                terms: Terms::default(),
                diagnose: DiagnosisSettings::default(),
                limits: None,
            },
        };
        if let Some(file) = rules {
            goes_by.rules = rules_of(file)?;
        }
        Ok(goes_by)
    }
}

impl SimulateArgs {
    /// Does it.
    pub(crate) async fn run(self, globals: &Globals, screen: &Screen) -> Result<Verdict, Failure> {
        let remote = match self.load.is_none() || self.registered {
            true => Some(Remote::new(globals, screen)?),
            false => None,
        };
        let text = match (&self.load, &remote) {
            (Some(file), _) => text_of(file)?,
            (None, Some(remote)) => recorded(remote, &self.stretch).await?,
            (None, None) => String::new(),
        };
        let goes_by = GoesBy::find(remote.as_ref(), self.rules.as_deref()).await?;
        let samples = samples(&text)?;
        let registered = match &remote {
            Some(remote) => Some(Registered::ask(remote).await?),
            None => None,
        };
        let Some(Recorded { mut fleet, busiest }) = fleet_of(&samples, &goes_by.rules.spans) else {
            return Err(Failure::refused_here(
                "no-load",
                "There is nothing to simulate",
                "no load was recorded in that time".to_owned(),
                "Ask for a longer time (--from 6h), or name a file (--load FILE).",
            ));
        };
        let limits = registered.as_ref().map(Registered::limits);
        let found = test::test(&goes_by.rules, samples.iter().cloned());
        let limits = limits.unwrap_or_default();
        let replayed = replay(&goes_by.rules, &goes_by.diagnose, &limits, samples);
        if let Some(known) = &registered {
            register(&mut fleet, &known.shards, &known.tenants);
        }
        if let Some((limit, goal)) = goes_by.limits {
            for shard in &mut fleet.shards {
                (shard.limit, shard.goal) = (limit, goal);
            }
        }
        let counted_on = replayed.count_on(&mut fleet);
        let changes = self.changes.iter().map(|text| change(text, &fleet));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        let answer = what_if(&fleet, &goes_by.terms, &changes)
            .map_err(|bad| Failure::usage(bad.to_string(), "--change names shards of the load"))?;
        let came = told::Came {
            answer: &answer,
            rules: &found,
            replayed: &replayed,
            busiest: &busiest,
            counted_on: &counted_on,
        };
        let told = match screen.json {
            true => told::json(&came),
            false => told::text(&came),
        };
        screen.data(told.trim_end().as_bytes())?;
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
    use ballast_hotspot_detector::load::Spans;

    use super::*;

    #[test]
    fn changes_are_read_as_they_are_typed() {
        let record = include_str!("../../hotspot-detector/src/load/record/golden.ndjson");
        let fleet = fleet_of(&samples(record).unwrap(), &Spans::default())
            .unwrap()
            .fleet;
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
