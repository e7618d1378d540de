//! `load generate`: the load of a made-up fleet, to try rules and plans on.

use std::time::Duration;

use ballast_hotspot_detector::fleet::{Generator, Shape, Spread};
use ballast_hotspot_detector::load::record::{header, lines};
use clap::Args;

use super::failure::{Failure, Verdict};
use super::output::Screen;

/// Lines of one record, at the most.
const LINES_MAX: u64 = 100_000_000;
/// From so many tenants times shards on, they are spread at random: placing
/// each of them takes a draw per shard.
const DRAWS_MAX: u64 = 10_000_000;

/// What the fleet looks like.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// How many tenants
    #[arg(long, value_name = "N", default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    tenants: u64,
    /// How many shards
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    shards: u32,
    /// For how long
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = crate::time::parse_duration)]
    length: Duration,
    /// In steps of this length
    #[arg(long, value_name = "TIME", default_value = "1min",
        value_parser = crate::time::parse_duration)]
    step: Duration,
    /// How full the fleet is on an average day, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.55)]
    fill: f64,
    /// How unequal tenants are, by Zipf's law: 0 is even, 1 is steep
    #[arg(long, value_name = "EXPONENT", default_value_t = 0.8)]
    skew: f64,
    /// The chance that a tenant has a flash crowd in an hour
    #[arg(long, value_name = "CHANCE", default_value_t = 0.0)]
    crowds: f64,
    /// The same numbers and seed give the same fleet
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl GenerateArgs {
    /// Does it.
    pub(crate) fn run(&self, screen: &Screen) -> Result<Verdict, Failure> {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (step_ms, length_ms) = (ms(self.step), ms(self.length));
        if !(1_000..=86_400_000).contains(&step_ms) {
            return Err(wrong("a step is from a second to a day long"));
        }
        let steps = length_ms.div_ceil(step_ms).max(1);
        let each = self.tenants + u64::from(self.shards);
        if steps.saturating_mul(each) > LINES_MAX {
            return Err(wrong("that would be more than 100,000,000 lines"));
        }
        let shares = [self.fill, self.skew, self.crowds];
        if shares.iter().any(|share| !(0.0..=2.0).contains(share)) || self.fill <= 0.0 {
            return Err(wrong("fill, skew and crowds are from 0 to 2"));
        }
        let shape = Shape {
            seed: self.seed,
            tenants: self.tenants,
            shards: self.shards,
            fill: self.fill,
            skew: self.skew,
            crowds: self.crowds,
            spread: match self.tenants.saturating_mul(u64::from(self.shards)) > DRAWS_MAX {
                true => Spread::AtRandom,
                false => Spread::ByScore,
            },
            ..Shape::default()
        };
        // A Wednesday, two in the afternoon, after half a year.
        let from = shape
            .start
            .plus_seconds((26 * 7 * 24 + 3 * 24 + 14) * 3_600);
        let generator = Generator::new(shape)
            .map_err(|error| Failure::local(format!("no fleet can be made: {error}")))?;
        screen.data(header("ballast load generate").as_bytes())?;
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        for sample in generator.recorded(from, step_ms, steps) {
            screen.data(lines(&sample).as_bytes())?;
        }
        Ok(Verdict::Done)
    }
}

fn wrong(why: &str) -> Failure {
    Failure::usage(why, "see ballast load generate --help")
}
