//! `load generate`: the load of a synthetic fleet, to test rules and plans.

use std::time::Duration;

use ballast_hotspot_detector::fleet::{FleetShape, Generator, SliceSpread};
use ballast_hotspot_detector::load::record::{header, lines};
use clap::Args;

use super::failure::{CliError, CommandOutcome};
use super::output::Screen;

/// Maximum number of lines in a record.
const LINES_MAX: u64 = 100_000_000;
/// Above this many tenants times shards, tenants are placed at random: placement by score takes one
/// draw per shard.
const DRAWS_MAX: u64 = 10_000_000;

/// The shape of the fleet.
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
    /// Length of the record
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = crate::time::parse_duration)]
    length: Duration,
    /// Length of a step
    #[arg(long, value_name = "TIME", default_value = "1min",
        value_parser = crate::time::parse_duration)]
    step: Duration,
    /// Mean utilisation of the fleet, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.55)]
    fill: f64,
    /// Skew between tenants, by Zipf's law: 0 is even, 1 is steep
    #[arg(long, value_name = "EXPONENT", default_value_t = 0.8)]
    skew: f64,
    /// Probability that a tenant has a flash crowd in an hour
    #[arg(long, value_name = "CHANCE", default_value_t = 0.0)]
    crowds: f64,
    /// Random seed; equal arguments and seed give an equal fleet
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl GenerateArgs {
    /// Runs the command.
    pub(crate) fn run(&self, screen: &Screen) -> Result<CommandOutcome, CliError> {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (step_ms, length_ms) = (ms(self.step), ms(self.length));
        if !(1_000..=86_400_000).contains(&step_ms) {
            return Err(usage_error("a step must be from 1 second to 1 day long"));
        }
        let steps = length_ms.div_ceil(step_ms).max(1);
        let each = self.tenants + u64::from(self.shards);
        if steps.saturating_mul(each) > LINES_MAX {
            return Err(usage_error("the record would exceed 100,000,000 lines"));
        }
        let shares = [self.fill, self.skew, self.crowds];
        if shares.iter().any(|share| !(0.0..=2.0).contains(share)) || self.fill <= 0.0 {
            return Err(usage_error(
                "--fill, --skew and --crowds must be from 0 to 2",
            ));
        }
        let shape = FleetShape {
            seed: self.seed,
            tenants: self.tenants,
            shards: self.shards,
            fill: self.fill,
            skew: self.skew,
            crowds: self.crowds,
            spread: match self.tenants.saturating_mul(u64::from(self.shards)) > DRAWS_MAX {
                true => SliceSpread::AtRandom,
                false => SliceSpread::ByScore,
            },
            ..FleetShape::default()
        };
        // A Wednesday at 14:00, half a year after the start.
        let from = shape
            .start
            .plus_seconds((26 * 7 * 24 + 3 * 24 + 14) * 3_600);
        let generator = Generator::new(shape)
            .map_err(|error| CliError::local(format!("the fleet cannot be generated: {error}")))?;
        screen.data(header("ballast load generate").as_bytes())?;
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        for sample in generator.recorded(from, step_ms, steps) {
            screen.data(lines(&sample).as_bytes())?;
        }
        Ok(CommandOutcome::Done)
    }
}

fn usage_error(why: &str) -> CliError {
    CliError::usage(why, "see ballast load generate --help")
}
