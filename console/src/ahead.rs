//! How full shards will be. To say it the whole record of load is read, so it
//! is worked out when somebody looks, in the background, and kept for a while:
//! pages show what is known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ballast_control_plane::load::outlook::{self, ForecastBody};
use ballast_domain::{ShardId, Timestamp};

use crate::console::Console;

/// How far it is looked.
const DAYS: u32 = 30;
/// How long it is kept, in milliseconds.
const KEPT_MS: i64 = 10 * 60 * 1_000;
/// Working it out takes this part of the time at the most.
const SHARE: i64 = 20;

/// When a shard will be full.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Full {
    /// In so many days: at the earliest, as expected, at the latest, and of
    /// what. What is further off than was looked is `None`.
    In(f64, Option<f64>, Option<f64>, &'static str),
    /// Not within the days that it was looked ahead.
    Later,
    /// Nobody can say.
    TooLittle,
}

impl Full {
    /// As people read it.
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
            Self::TooLittle => "Forecast: too little recorded yet".to_owned(),
        }
    }

    /// Whether somebody should do something soon.
    pub(crate) fn is_near(&self) -> bool {
        matches!(self, Self::In(early, ..) if *early < 7.0)
    }
}

/// What is foreseen of each shard.
#[derive(Debug, Clone, Default)]
pub(crate) struct Foreseen {
    at: Option<Timestamp>,
    shards: BTreeMap<ShardId, Full>,
}

impl Foreseen {
    /// What is foreseen of a shard; `None` until it has been worked out.
    pub(crate) fn of(&self, shard: &ShardId) -> Option<&Full> {
        self.at?;
        Some(self.shards.get(shard).unwrap_or(&Full::TooLittle))
    }
}

/// What is known, and when it is worked out anew.
#[derive(Default)]
pub(crate) struct Ahead(Mutex<Known>);

#[derive(Default)]
struct Known {
    newest: Arc<Foreseen>,
    /// Not before this; `None` when it never was.
    again: Option<Timestamp>,
    running: bool,
}

impl Ahead {
    /// What is known. When it is old, it is worked out anew for the next who
    /// asks.
    pub(crate) fn look(&self, console: &Console) -> Arc<Foreseen> {
        let now = console.plane.now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = known.again.is_none_or(|again| again <= now);
        if due && !known.running && console.plane.load().is_some() {
            known.running = true;
            tokio::spawn(work_out(console.clone()));
        }
        known.newest.clone()
    }

    fn known(&self, shards: BTreeMap<ShardId, Full>, began: Timestamp, now: Timestamp) {
        let took = now.unix_ms() - began.unix_ms();
        let rest = KEPT_MS.max(took.saturating_mul(SHARE));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Known {
            newest: Arc::new(Foreseen {
                at: Some(now),
                shards,
            }),
            again: Some(Timestamp::from_unix_ms(now.unix_ms().saturating_add(rest))),
            running: false,
        };
    }
}

async fn work_out(console: Console) {
    let began = console.plane.now();
    let told = outlook::show(&console.plane, DAYS).await;
    if let Err(error) = &told {
        tracing::debug!(%error, "nobody can say right now how full shards will be");
    }
    let shards = told.as_ref().map(soonest).unwrap_or_default();
    console.ahead.known(shards, began, console.plane.now());
}

/// Of each shard, what is full first.
fn soonest(told: &ForecastBody) -> BTreeMap<ShardId, Full> {
    let mut shards: BTreeMap<ShardId, Full> = BTreeMap::new();
    for outlook in &told.outlooks {
        let full = match outlook.full_in {
            Some(days) => {
                let of = outlook.dimension.name();
                Full::In(days.earliest, days.expected, days.latest, of)
            }
            None => Full::Later,
        };
        let held = shards
            .entry(outlook.shard_id.clone())
            .or_insert(Full::Later);
        let sooner = match (&full, &*held) {
            (Full::In(one, ..), Full::In(two, ..)) => one < two,
            (Full::In(..), _) => true,
            _ => false,
        };
        if sooner {
            *held = full;
        }
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_with_its_interval() {
        let full = |early, expected, late| Full::In(early, expected, late, "storage").words();
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
        assert!(Full::TooLittle.words().contains("too little recorded yet"));
        assert!(Full::In(2.0, None, None, "votes").is_near() && !Full::Later.is_near());
    }

    #[test]
    fn nothing_is_said_before_it_was_worked_out() {
        let shard: ShardId = "shard-1".parse().unwrap();
        assert_eq!(Foreseen::default().of(&shard), None);
        let worked_out = Foreseen {
            at: Some(Timestamp::from_unix_ms(1)),
            shards: BTreeMap::new(),
        };
        assert_eq!(worked_out.of(&shard), Some(&Full::TooLittle));
    }
}
