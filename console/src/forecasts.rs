//! A cache of capacity forecasts. A forecast reads the whole load record, so it is
//! computed in the background when a page asks for it, and pages show the newest one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ballast_control_plane::load::outlook::{self, ForecastBody};
use ballast_domain::{ShardId, Timestamp};

use crate::console::Console;

/// The forecast horizon.
const DAYS: u32 = 30;
/// How long a forecast is cached, in milliseconds.
const TTL_MS: i64 = 10 * 60 * 1_000;
/// Computing forecasts takes at most one twentieth of the time.
const SHARE: i64 = 20;

/// When a shard will be full.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FullForecast {
    /// In so many days: earliest, expected, latest, and the dimension. A day beyond
    /// the horizon is `None`.
    In(f64, Option<f64>, Option<f64>, &'static str),
    /// Not within the horizon.
    Later,
    /// Too little load is recorded.
    TooLittleData,
}

impl FullForecast {
    /// The forecast in words.
    pub(crate) fn words(&self) -> String {
        let days = |days: f64| match days {
            ..1.0 => "a day".to_owned(),
            days => format!("{days:.0} days"),
        };
        match self {
            Self::In(early, Some(expected), Some(late), of) => format!(
                "Full in {} ({early:.0} to {late:.0}; {of})",
                days(*expected)
            ),
            Self::In(early, Some(expected), None, of) => {
                format!(
                    "Full in {} ({early:.0} at the earliest; {of})",
                    days(*expected)
                )
            }
            Self::In(early, None, _, of) => {
                format!("Full in {} at the earliest ({of})", days(*early))
            }
            Self::Later => format!("Not full within {DAYS} days"),
            Self::TooLittleData => "Forecast: too little load recorded yet".to_owned(),
        }
    }

    /// Whether the shard may be full within a week.
    pub(crate) fn is_near(&self) -> bool {
        matches!(self, Self::In(early, ..) if *early < 7.0)
    }
}

/// The forecast of each shard.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forecasts {
    at: Option<Timestamp>,
    shards: BTreeMap<ShardId, FullForecast>,
}

impl Forecasts {
    /// A shard's forecast; `None` until it has been computed.
    pub(crate) fn shard(&self, shard: &ShardId) -> Option<&FullForecast> {
        self.at?;
        Some(
            self.shards
                .get(shard)
                .unwrap_or(&FullForecast::TooLittleData),
        )
    }
}

/// The newest forecasts, and when to compute them again.
#[derive(Default)]
pub(crate) struct ForecastCache(Mutex<CachedForecasts>);

#[derive(Default)]
struct CachedForecasts {
    newest: Arc<Forecasts>,
    /// When to compute again; `None` if it never was.
    again: Option<Timestamp>,
    running: bool,
}

impl ForecastCache {
    /// The newest forecasts. If they are stale, starts computing new ones.
    pub(crate) fn newest(&self, console: &Console) -> Arc<Forecasts> {
        let now = console.plane.now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = known.again.is_none_or(|again| again <= now);
        if due && !known.running && console.plane.load_monitor().is_some() {
            known.running = true;
            tokio::spawn(compute_forecasts(console.clone()));
        }
        known.newest.clone()
    }

    fn store(&self, shards: BTreeMap<ShardId, FullForecast>, began: Timestamp, now: Timestamp) {
        let took = now.unix_ms() - began.unix_ms();
        let rest = TTL_MS.max(took.saturating_mul(SHARE));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = CachedForecasts {
            newest: Arc::new(Forecasts {
                at: Some(now),
                shards,
            }),
            again: Some(Timestamp::from_unix_ms(now.unix_ms().saturating_add(rest))),
            running: false,
        };
    }
}

async fn compute_forecasts(console: Console) {
    let began = console.plane.now();
    let forecast = outlook::show(&console.plane, DAYS).await;
    if let Err(error) = &forecast {
        tracing::debug!(%error, "forecast failed");
    }
    let shards = forecast.as_ref().map(soonest).unwrap_or_default();
    console.forecasts.store(shards, began, console.plane.now());
}

/// The dimension of each shard that is full first.
fn soonest(forecast: &ForecastBody) -> BTreeMap<ShardId, FullForecast> {
    let mut shards: BTreeMap<ShardId, FullForecast> = BTreeMap::new();
    for outlook in &forecast.outlooks {
        let full = match outlook.full_in {
            Some(days) => {
                let of = outlook.dimension.name();
                FullForecast::In(days.earliest, days.expected, days.latest, of)
            }
            None => FullForecast::Later,
        };
        let soonest = shards
            .entry(outlook.shard_id.clone())
            .or_insert(FullForecast::Later);
        let sooner = match (&full, &*soonest) {
            (FullForecast::In(one, ..), FullForecast::In(two, ..)) => one < two,
            (FullForecast::In(..), _) => true,
            _ => false,
        };
        if sooner {
            *soonest = full;
        }
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_is_shown_with_its_interval() {
        let full =
            |early, expected, late| FullForecast::In(early, expected, late, "storage").words();
        assert_eq!(
            full(9.2, Some(12.4), Some(20.0)),
            "Full in 12 days (9 to 20; storage)"
        );
        assert_eq!(
            full(9.0, Some(12.0), None),
            "Full in 12 days (9 at the earliest; storage)"
        );
        assert_eq!(
            full(0.3, None, None),
            "Full in a day at the earliest (storage)"
        );
        assert!(
            FullForecast::TooLittleData
                .words()
                .contains("too little load recorded yet")
        );
        assert!(
            FullForecast::In(2.0, None, None, "votes").is_near() && !FullForecast::Later.is_near()
        );
    }

    #[test]
    fn there_is_no_forecast_before_the_first_is_computed() {
        let shard: ShardId = "shard-1".parse().unwrap();
        assert_eq!(Forecasts::default().shard(&shard), None);
        let worked_out = Forecasts {
            at: Some(Timestamp::from_unix_ms(1)),
            shards: BTreeMap::new(),
        };
        assert_eq!(worked_out.shard(&shard), Some(&FullForecast::TooLittleData));
    }
}
