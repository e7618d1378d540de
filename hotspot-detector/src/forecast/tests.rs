//! Forecasts of generated series with a known continuation.

use std::f64::consts::TAU;

use ballast_domain::PollId;
use ballast_domain::clock::Timestamp;

use super::*;
use crate::fleet::{FleetShape, Generator};
use crate::resources::Dimension;

const HOUR: i64 = 3_600;
const FROM: Timestamp = Timestamp::from_unix_ms(1_794_787_200_000);

/// A pseudo-random number in [-1, 1) from the seed and the step.
fn noise(seed: u64, step: usize) -> f64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (step as u64) << 17;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Grows by 1 per day, with a daily season of 10 and a weekly season of 5.
fn truth(step: usize) -> f64 {
    let hours = step as f64;
    let day = 10.0 * (TAU * hours / 24.0).sin();
    let week = 5.0 * (TAU * hours / (24.0 * 7.0)).cos();
    100.0 + hours / 24.0 + day + week
}

fn hourly(values: Vec<f64>) -> Series {
    Series {
        from: FROM,
        step_seconds: HOUR,
        values,
    }
}

#[test]
fn trend_and_seasons_are_extrapolated() {
    let weeks = 6;
    let known = weeks * 7 * 24;
    let series = hourly(
        (0..known)
            .map(|step| truth(step) + noise(1, step))
            .collect(),
    );
    let points = forecast(&series, 7 * 24, 0.9).unwrap();
    assert_eq!(points.len(), 7 * 24);
    assert_eq!(points[0].at, FROM.plus_seconds(known as i64 * HOUR));
    for (point, step) in points.iter().zip(known..) {
        let off = (point.expected - truth(step)).abs();
        assert!(off < 3.0, "{} is off by {off} at {step}", point.expected);
        assert!(point.low <= point.expected && point.expected <= point.high);
    }
    let first = points[0].high - points[0].low;
    let last = points[points.len() - 1];
    assert!(last.high - last.low > first, "further is less sure");
}

#[test]
fn intervals_reach_their_coverage() {
    let known = 4 * 7 * 24;
    let (mut within, mut all) = (0, 0);
    for seed in 0..12 {
        let real = |step: usize| truth(step) + 4.0 * noise(seed, step);
        let series = hourly((0..known).map(real).collect());
        for (point, step) in forecast(&series, 72, 0.8).unwrap().iter().zip(known..) {
            within += u32::from(point.low <= real(step) && real(step) <= point.high);
            all += 1;
        }
    }
    let share = f64::from(within) / f64::from(all);
    assert!((0.65..=0.95).contains(&share), "{share} of 0.8");
}

#[test]
fn a_generated_shard_is_forecast() {
    let shape = FleetShape {
        tenants: 300,
        swing: 0.5,
        ..FleetShape::default()
    };
    let made = Generator::new(shape.clone()).unwrap();
    let load = |hour: i64| {
        let at = shape.start.plus_seconds(hour * HOUR);
        (0..shape.tenants)
            .map(|n| made.load(n, at).votes)
            .sum::<f64>()
    };
    let known = 5 * 7 * 24;
    let series = hourly((0..known).map(load).collect());
    let points = forecast(&series, 7 * 24, 0.8).unwrap();
    let errors = points.iter().zip(known..).map(|(point, hour)| {
        let real = load(hour);
        (point.expected - real).abs() / real
    });
    let mean = errors.sum::<f64>() / points.len() as f64;
    assert!(mean < 0.10, "off by {mean}");
}

#[test]
fn gaps_are_interpolated_and_short_series_are_rejected() {
    let mut values: Vec<f64> = (0..200).map(|step| 5.0 + step as f64).collect();
    for at in [0, 17, 18, 19, 120, 199] {
        values[at] = f64::NAN;
    }
    assert!((interpolate(&values)[18] - 23.0).abs() < 1e-9);
    let series = Series {
        step_seconds: 7_777,
        ..hourly(values)
    };
    let points = forecast(&series, 10, 0.8).unwrap();
    assert!((points[9].expected - 214.0).abs() < 0.5, "{:?}", points[9]);
    let few = hourly(vec![1.0; 7]);
    assert_eq!(
        forecast(&few, 1, 0.8),
        Err(NoForecast::TooShort { have: 7, needed: 8 })
    );
    assert!(forecast(&hourly(vec![f64::NAN; 50]), 1, 0.8).is_err());
    let flat = forecast(&hourly(vec![0.0; 100]), 5, 0.8).unwrap();
    assert_eq!((flat[4].expected, flat[4].high), (0.0, 0.0));
}

fn growing(per_day: f64) -> Outlook {
    let series = hourly(
        (0..60 * 24)
            .map(|step| 500.0 + per_day * step as f64 / 24.0 + 0.5 * noise(3, step))
            .collect(),
    );
    let shard = "shard-1".parse().unwrap();
    let known = outlook(&shard, Dimension::Storage, (1_000.0, 0.8), &series, 60, 0.8);
    known.unwrap()
}

#[test]
fn days_until_full_have_an_interval() {
    // 500 + 60 × 4 = 740 now; 800 is reached in 15 days.
    let full = growing(4.0);
    let days = full.full_in.unwrap();
    let expected = days.expected.unwrap();
    assert!((14.0..=16.0).contains(&expected), "{days:?}");
    assert!(days.earliest <= expected && expected <= days.latest.unwrap());
    assert!((full.share - 0.74).abs() < 0.01);
    assert_eq!(growing(0.1).full_in, None, "not within 60 days");
}

#[test]
fn the_shards_needed_are_counted() {
    let four: Vec<Outlook> = (0..4).map(|_| growing(4.0)).collect();
    // On day 30 each has 740 + 120 = 860: 3,440 where a shard takes 700.
    let needed = shards_needed(&four, 30, 0.7).unwrap();
    assert_eq!((needed.have, needed.expected), (4, 5));
    assert!(needed.at_most >= needed.expected);
    assert_eq!(shards_needed(&four, 61, 0.7), None);
    assert_eq!(shards_needed(&[], 1, 0.7), None);
}

fn event(opens: i64, closes: i64, audience: u64) -> ScheduledPoll {
    ScheduledPoll {
        tenant_id: "acme".parse().unwrap(),
        poll_id: poll(),
        opens_at: FROM.plus_seconds(opens),
        closes_at: FROM.plus_seconds(closes),
        audience,
        items: 10,
    }
}

fn poll() -> PollId {
    struct Zero;
    impl ballast_domain::Entropy for Zero {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }
    PollId::random(FROM, &Zero)
}

#[test]
fn lanes_are_added_before_a_poll_opens() {
    let ready = PollReadiness::default();
    let days = 86_400;
    // 30 % of 20 million in 10 minutes are 10,000 a second: 20 lanes of 500.
    let large = event(2 * days, 5 * days, 20_000_000);
    let small = event(days, 5 * days, 100);
    let past = event(-5 * days, -1, 1_000_000);
    let found = preparations(&[large.clone(), small, past], &ready, FROM);
    let prepared: Vec<_> = found.iter().map(|it| (it.lanes, it.widen_at)).collect();
    let at = |seconds| FROM.plus_seconds(seconds);
    assert_eq!(
        prepared,
        [(10, at(days - 3_600)), (20, at(2 * days - 3_600))]
    );
    // A poll of a minute has all its voters in it, and more than lanes can do.
    let brief = event(60, 120, 60_000_000);
    let found = preparations(&[brief], &ready, FROM);
    assert_eq!((found[0].lanes, found[0].widen_at), (256, FROM));
    assert!((found[0].short_by - (1_000_000.0 - 256.0 * 500.0)).abs() < 1e-6);
    // Counters are bounded, so a poll of many items has fewer lanes.
    let wide = ScheduledPoll {
        items: 1_000,
        ..large
    };
    assert_eq!(preparations(&[wide], &ready, FROM)[0].lanes, 20);
}

#[test]
fn moves_are_frozen_around_opening_and_closing_only() {
    let ready = PollReadiness::default();
    let days = 86_400;
    let found = freezes(&[event(days, 3 * days, 1)], &ready);
    let spans = found.values().next().unwrap();
    assert_eq!(spans.len(), 2);
    assert!(
        !spans
            .iter()
            .any(|span| span.contains(FROM.plus_seconds(2 * days)))
    );
    for frozen in [days - 3_600, days + 599, 3 * days - 600, 3 * days + 899] {
        assert!(
            spans
                .iter()
                .any(|span| span.contains(FROM.plus_seconds(frozen)))
        );
    }
    let short = freezes(&[event(days, days + 900, 1)], &ready);
    assert_eq!(short.values().next().unwrap().len(), 1, "all of it");
    let never = freezes(&[event(days, days, 1)], &ready);
    assert!(never.is_empty());
}
