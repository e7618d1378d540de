//! The trace of a world: hashed, so that two runs can be compared, and printed when a
//! seed is replayed. Also counts events.

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

use ballast_domain::{Clock, Timestamp};

/// The time at which a world starts.
const BEGIN_MS: i64 = 1_794_821_400_000;

/// The counted events of a world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) events: u64,
    pub(crate) operations: u64,
    pub(crate) moved: u64,
    pub(crate) undone: u64,
    pub(crate) left_behind: u64,
    pub(crate) left_copies: u64,
    pub(crate) crashes: u64,
    pub(crate) held_back: u64,
    pub(crate) checkpoints: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.operations += other.operations;
        self.moved += other.moved;
        self.undone += other.undone;
        self.left_behind += other.left_behind;
        self.left_copies += other.left_copies;
        self.crashes += other.crashes;
        self.held_back += other.held_back;
        self.checkpoints += other.checkpoints;
    }
}

thread_local! {
    static HASH: Cell<u64> = const { Cell::new(0) };
    static COUNTS: Cell<Counts> = Cell::default();
    static BEGAN: RefCell<Option<tokio::time::Instant>> = const { RefCell::new(None) };
    static PRINTS: Cell<bool> = const { Cell::new(false) };
}

/// Resets the trace, and sets whether it is printed.
pub(crate) fn begin(prints: bool) {
    HASH.set(0xcbf2_9ce4_8422_2325);
    COUNTS.set(Counts::default());
    PRINTS.set(prints);
    BEGAN.take();
}

/// Returns the hash and the counts.
pub(crate) fn end() -> (u64, Counts) {
    (HASH.get(), COUNTS.get())
}

/// Changes the counts.
pub(crate) fn count(change: impl FnOnce(&mut Counts)) {
    let mut counts = COUNTS.get();
    change(&mut counts);
    COUNTS.set(counts);
}

/// Milliseconds since the world started.
#[allow(
    clippy::disallowed_methods,
    reason = "tokio's time is the simulation's"
)]
pub(crate) fn now_ms() -> u64 {
    let now = tokio::time::Instant::now();
    let began = BEGAN.with_borrow_mut(|began| *began.get_or_insert(now));
    u64::try_from((now - began).as_millis()).unwrap()
}

/// Adds an event to the trace.
pub(crate) fn record_event(what: std::fmt::Arguments<'_>) {
    let line = format!("{:>7} {what}", now_ms());
    let mut hash = HASH.get();
    for byte in line.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    HASH.set(hash);
    count(|counts| counts.events += 1);
    if PRINTS.get() {
        println!("{line}");
    }
}

macro_rules! note {
    ($($what:tt)*) => { $crate::trace::record_event(format_args!($($what)*)) };
}
pub(crate) use note;

/// The simulation's clock for the product.
pub(crate) struct SimClock;

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(BEGIN_MS + i64::try_from(now_ms()).unwrap())
    }
}

/// The seed to replay, from an environment variable.
pub(crate) fn replayed_seed() -> Option<u64> {
    static SEED: OnceLock<Option<u64>> = OnceLock::new();
    *SEED.get_or_init(|| std::env::var("BALLAST_SIM_SEED").ok()?.parse().ok())
}
