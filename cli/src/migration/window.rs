//! `--window`: how long both sides of a move are kept, and who acknowledges
//! meanwhile.

use std::str::FromStr;
use std::time::Duration;

use crate::time::parse_duration;

/// What it may be, for somebody who typed something else.
const FORMS: &str = "a window is a duration such as 10min or 2h, or sync, or sync:2h; 0s is none";

/// A time, `sync`, or `sync:` and a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    time: Option<Duration>,
    sync: bool,
}

impl Window {
    /// How long, in milliseconds; as usual when absent.
    pub(crate) fn ms(self) -> Option<u64> {
        self.time.map(ms)
    }

    /// That a vote counts only when both sides have it, if it is so.
    pub(crate) fn sync(self) -> Option<bool> {
        self.sync.then_some(true)
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sync, time) = match text.strip_prefix("sync") {
            Some("") => (true, None),
            Some(rest) => {
                let time = rest.strip_prefix(':');
                let time = time.ok_or(FORMS)?;
                (true, Some(time))
            }
            None => (false, Some(text)),
        };
        let time = time.map(parse_duration).transpose();
        let time = time.map_err(|_| FORMS)?;
        Ok(Self { time, sync })
    }
}

/// Whole milliseconds; what is less is the least there is.
pub(super) fn ms(time: Duration) -> u64 {
    let whole = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    whole.max(u64::from(!time.is_zero()))
}
