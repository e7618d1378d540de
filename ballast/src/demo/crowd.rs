//! The voters: people spread over the tenants, most of them at a few, and a flash crowd. Each voter
//! votes once and retries until the vote is acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::{Client, StatusCode};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior};

use super::api::FleetApi;
use super::people::DemoTenant;
use super::size::{CROWD_VOTES, FAVOURITES_PERCENT, PEOPLE_VOTES, beat};

/// Voters with a steady rate.
const PEOPLE: usize = 24;
/// A flash crowd.
const CROWD: usize = 24;
/// Attempts after which a vote counts as failed.
const GIVE_UP: usize = 600;
/// Delay before a vote is retried.
const AGAIN: Duration = Duration::from_millis(100);

/// All voters, and the responses they received.
pub(super) struct Voters {
    pub(super) tenants: Vec<Arc<DemoTenant>>,
    /// The tenants with most votes.
    favourites: Vec<usize>,
    http: Client,
    url: String,
    /// The tenant that the crowd is at.
    hot: watch::Sender<Option<Arc<DemoTenant>>>,
    stopping: AtomicBool,
    voters: AtomicU64,
    pub(super) acknowledged: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) sent_again: AtomicU64,
    /// The slowest vote, in milliseconds.
    pub(super) slowest_ms: AtomicU64,
}

impl Voters {
    pub(super) fn new(
        tenants: Vec<Arc<DemoTenant>>,
        favourites: Vec<usize>,
        api: &FleetApi,
    ) -> Self {
        Self {
            tenants,
            favourites,
            http: api.http.clone(),
            url: api.url.clone(),
            hot: watch::Sender::new(None),
            stopping: AtomicBool::new(false),
            voters: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            sent_again: AtomicU64::new(0),
            slowest_ms: AtomicU64::new(0),
        }
    }

    /// Sends the crowd to a tenant, or stops it.
    pub(super) fn send_to(&self, tenant: Option<Arc<DemoTenant>>) {
        self.hot.send_replace(tenant);
    }

    /// Lets every voter finish the current vote and stop.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.hot.send_replace(None);
    }

    /// Votes until `stop`.
    pub(super) fn vote(self: Arc<Self>) -> JoinHandle<()> {
        let mut all = Vec::new();
        for number in 0..PEOPLE {
            all.push(tokio::spawn(self.clone().vote_steadily(number)));
        }
        for number in 0..CROWD {
            all.push(tokio::spawn(self.clone().vote_as_crowd(number)));
        }
        tokio::spawn(async move {
            for one in all {
                let _ = one.await;
            }
        })
    }

    fn is_running(&self) -> bool {
        !self.stopping.load(Ordering::SeqCst)
    }

    async fn vote_steadily(self: Arc<Self>, number: usize) {
        let mut beat = vote_interval(number, PEOPLE, PEOPLE_VOTES).await;
        let mut turn = number as u64;
        while self.is_running() {
            beat.tick().await;
            turn = turn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let any = || skewed_index(turn >> 33, self.tenants.len());
            let place = match (turn >> 50) % 100 < FAVOURITES_PERCENT {
                true => self.pick_favourite(turn >> 33).unwrap_or_else(any),
                false => any(),
            };
            if let Some(tenant) = self.tenants.get(place).cloned() {
                self.cast(&tenant, turn >> 40).await;
            }
        }
    }

    fn pick_favourite(&self, chance: u64) -> Option<usize> {
        let many = self.favourites.len() as u64;
        let place = usize::try_from(chance.checked_rem(many)?).ok()?;
        self.favourites.get(place).copied()
    }

    async fn vote_as_crowd(self: Arc<Self>, number: usize) {
        let mut hot = self.hot.subscribe();
        let mut beat = vote_interval(number, CROWD, CROWD_VOTES).await;
        let mut turn = number as u64;
        while self.is_running() {
            let tenant = hot.borrow_and_update().clone();
            match tenant {
                Some(tenant) => {
                    beat.tick().await;
                    turn += 1;
                    self.cast(&tenant, turn * turn).await;
                }
                None => {
                    let _ = tokio::time::timeout(AGAIN, hot.changed()).await;
                }
            }
        }
    }

    /// Casts one vote; retries until it is acknowledged.
    async fn cast(&self, tenant: &DemoTenant, choice: u64) {
        let many = tenant.items.len() as u64;
        let place = usize::try_from(choice % many.max(1)).unwrap_or(0);
        let Some(item) = tenant.items.get(place) else {
            return;
        };
        let voter = format!("v{}", self.voters.fetch_add(1, Ordering::SeqCst));
        let url = format!("{}/polls/{}/votes/{}", self.url, tenant.poll, item.id);
        let watch = crate::machine::stopwatch();
        item.begun.fetch_add(1, Ordering::SeqCst);
        for attempt in 0..GIVE_UP {
            if attempt > 0 {
                self.sent_again.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(AGAIN).await;
            }
            let request = self
                .http
                .patch(&url)
                .header("x-api-key", &tenant.key)
                .header("voter-id", &voter);
            match request.send().await {
                Ok(answer) if answer.status() == StatusCode::OK => {
                    item.acknowledged.fetch_add(1, Ordering::SeqCst);
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                    let ms = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
                    self.slowest_ms.fetch_max(ms, Ordering::SeqCst);
                    return;
                }
                // The process is down: retry.
                Err(_) => {}
                Ok(_) => {
                    self.failed.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
        self.failed.fetch_add(1, Ordering::SeqCst);
    }
}

/// The ticks of one of `many` voters, spread evenly. Missed ticks are not made up.
async fn vote_interval(number: usize, many: usize, votes: u64) -> Interval {
    let beat = beat(many, votes);
    let many = u32::try_from(many).unwrap_or(1).max(1);
    tokio::time::sleep(beat / many * u32::try_from(number).unwrap_or(0)).await;
    let mut interval = tokio::time::interval(beat);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// An index below `many`; about half of them in the first tenth.
fn skewed_index(chance: u64, many: usize) -> usize {
    let many = many as u64;
    if many == 0 {
        return 0;
    }
    let (a, b) = (chance % many, (chance / many) % many);
    usize::try_from(a * b / many).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::skewed_index;

    #[test]
    fn most_are_at_a_few() {
        let many = 100;
        let mut first = 0;
        for chance in 0..10_000 {
            let place = skewed_index(chance, many);
            assert!(place < many);
            first += usize::from(place < many / 5);
        }
        assert!(first > 4_000, "{first}");
        assert_eq!(skewed_index(7, 0), 0);
    }
}
