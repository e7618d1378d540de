//! The open connections, and which of them is closed for a new one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::oneshot;

use crate::machine::stopwatch;

/// A request that is being answered protects its connection, unless nothing was sent or received
/// for this long: longer than requests are held.
const STALLED: Duration = Duration::from_secs(15);
/// Descriptors for everything but connections: at least this many, and a quarter of all.
const RESERVED_MIN: u64 = 512;
const RESERVED_SHARE: u64 = 4;
/// Connections of a process without a limit of descriptors.
const UNLIMITED: usize = 1 << 20;

/// The open connections.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    open: Mutex<OpenConnections>,
    most: usize,
    started: Instant,
    /// Connections that were closed for new ones, and new ones that were refused.
    shed: AtomicU64,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    entries: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    connection: Arc<Connection>,
    /// Dropping it closes the connection.
    _close: oneshot::Sender<()>,
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: IpAddr,
    /// When something was last sent or received, in milliseconds since the table began.
    active_ms: AtomicU64,
    /// Requests that are being answered.
    in_flight: AtomicU32,
    had_request: AtomicBool,
    table: Arc<ConnectionTable>,
}

/// A place in the table; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct ConnectionPlace {
    number: u64,
    pub(crate) connection: Arc<Connection>,
}

/// What decides whether a connection is closed for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    number: u64,
    peer: IpAddr,
    had_request: bool,
    idle: Duration,
    is_answering: bool,
}

impl ConnectionTable {
    /// A table for as many connections as the process has descriptors to spare.
    pub(crate) fn for_this_process() -> Arc<Self> {
        Arc::new(Self::with_room_for(connections_max(
            raise_descriptor_limit(),
        )))
    }

    fn with_room_for(most: usize) -> Self {
        Self {
            open: Mutex::default(),
            most,
            started: stopwatch(),
            shed: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.lock().entries.len()
    }

    /// The maximum.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Connections that were closed for others, or refused.
    pub(crate) fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes a place for a new connection, if necessary that of another one. The receiver ends when
    /// the connection must close. `None`: every place is taken by a request.
    pub(crate) fn enter(
        self: &Arc<Self>,
        peer: IpAddr,
    ) -> Option<(ConnectionPlace, oneshot::Receiver<()>)> {
        let now_ms = self.now_ms();
        let mut open = self.lock();
        if open.entries.len() >= self.most {
            self.shed.fetch_add(1, Ordering::Relaxed);
            let victim = choose_victim(&open.candidates(now_ms))?;
            open.entries.remove(&victim);
        }
        let connection = Arc::new(Connection {
            peer,
            active_ms: now_ms.into(),
            in_flight: AtomicU32::new(0),
            had_request: AtomicBool::new(false),
            table: self.clone(),
        });
        let (close, closed) = oneshot::channel();
        let number = open.next;
        open.next += 1;
        let entry = Entry {
            connection: connection.clone(),
            _close: close,
        };
        open.entries.insert(number, entry);
        Some((ConnectionPlace { number, connection }, closed))
    }
}

impl OpenConnections {
    fn candidates(&self, now_ms: u64) -> Vec<Candidate> {
        let entries = self.entries.iter();
        let candidate = |(number, entry): (&u64, &Entry)| {
            let connection = &entry.connection;
            let active_ms = connection.active_ms.load(Ordering::Relaxed);
            Candidate {
                number: *number,
                peer: connection.peer,
                had_request: connection.had_request.load(Ordering::Relaxed),
                idle: Duration::from_millis(now_ms.saturating_sub(active_ms)),
                is_answering: connection.in_flight.load(Ordering::Relaxed) > 0,
            }
        };
        entries.map(candidate).collect()
    }
}

impl Connection {
    /// Records that something was sent or received.
    pub(super) fn record_activity(&self) {
        self.active_ms.store(self.table.now_ms(), Ordering::Relaxed);
    }

    /// Records that a request is being answered, until the guard is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.had_request.store(true, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestGuard(self.clone())
    }
}

/// A request that is being answered.
pub(crate) struct RequestGuard(Arc<Connection>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.connection.table.lock().entries.remove(&self.number);
    }
}

/// The connection to close for a new one: of the address that has most, first one that never sent a
/// request, then the one that is idle for longest.
fn choose_victim(open: &[Candidate]) -> Option<u64> {
    let can_close = |it: &&Candidate| !it.is_answering || it.idle >= STALLED;
    let mut per_address: HashMap<IpAddr, usize> = HashMap::new();
    for candidate in open {
        *per_address.entry(candidate.peer).or_default() += 1;
    }
    let usefulness = |it: &&Candidate| {
        let others = per_address.get(&it.peer).copied().unwrap_or(0);
        (others, !it.had_request, it.idle)
    };
    let victim = open.iter().filter(can_close).max_by_key(usefulness);
    victim.map(|it| it.number)
}

/// Raises the soft limit of descriptors to the hard one; returns the limit in force.
fn raise_descriptor_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "cannot raise the limit of open files");
            limit.current
        }
    }
}

/// How many connections fit beside everything else.
fn connections_max(descriptors: Option<u64>) -> usize {
    let Some(all) = descriptors else {
        return UNLIMITED;
    };
    let reserved = RESERVED_MIN.max(all / RESERVED_SHARE).min(all / 2);
    usize::try_from(all - reserved)
        .unwrap_or(UNLIMITED)
        .clamp(1, UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(number: u64, peer: u8, had_request: bool, idle: u64) -> Candidate {
        Candidate {
            number,
            peer: IpAddr::from([10, 0, 0, peer]),
            had_request,
            idle: Duration::from_secs(idle),
            is_answering: false,
        }
    }

    #[test]
    fn the_address_with_most_connections_loses_its_least_useful_one() {
        let open = [
            candidate(1, 1, false, 500),
            candidate(2, 2, true, 90),
            candidate(3, 2, false, 1),
            candidate(4, 2, false, 2),
            candidate(5, 2, true, 400),
        ];
        assert_eq!(choose_victim(&open), Some(4));
        assert_eq!(choose_victim(&open[..1]), Some(1));
        let asked: Vec<_> = [open[1], open[4]].into();
        assert_eq!(choose_victim(&asked), Some(5), "idle for longest");
    }

    #[test]
    fn requests_are_protected_until_they_stall() {
        let mut busy = candidate(1, 1, true, 14);
        busy.is_answering = true;
        assert_eq!(choose_victim(&[busy]), None);
        busy.idle = STALLED;
        assert_eq!(choose_victim(&[busy]), Some(1));
    }

    #[test]
    fn a_full_table_closes_one_for_another_and_frees_places() {
        let table = Arc::new(ConnectionTable::with_room_for(2));
        let peer = IpAddr::from([127, 0, 0, 1]);
        let (first, mut first_closed) = table.enter(peer).unwrap();
        let answering = first.connection.begin_request();
        let (second, mut second_closed) = table.enter(peer).unwrap();
        assert!(second_closed.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        let (third, _third_closed) = table.enter(peer).unwrap();
        assert!(second_closed.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        assert!(first_closed.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        assert_eq!((table.open(), table.shed()), (2, 1));
        drop(second);
        assert_eq!(table.open(), 2, "its place was given away");
        let _third = third.connection.begin_request();
        assert!(table.enter(peer).is_none(), "both are being answered");
        drop(answering);
        drop(first);
        assert_eq!(table.open(), 1);
    }

    #[test]
    fn descriptors_are_left_for_everything_else() {
        assert_eq!(connections_max(Some(1_024)), 512);
        assert_eq!(connections_max(Some(256)), 128);
        assert_eq!(connections_max(Some(1 << 20)), (1 << 20) - (1 << 18));
        assert_eq!(connections_max(None), UNLIMITED);
        assert_eq!(connections_max(Some(0)), 1);
    }
}
