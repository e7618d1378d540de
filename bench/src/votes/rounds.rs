//! Several ways to count the same votes, by turns; the median round counts.

use std::time::Duration;

use async_trait::async_trait;

use super::work::{Shape, Took, Work};

/// Rounds of each contender: forwards and backwards.
const ROUNDS: usize = 6;
/// How long the disk may settle between them.
const REST: Duration = Duration::from_millis(300);
/// How long a round should take.
const ROUND_SECONDS: f64 = 0.7;

/// A way to count votes.
#[async_trait]
pub(super) trait Contender {
    /// Casts the votes. Everything that can be prepared is, before the clock starts.
    async fn cast(&mut self, work: &Work) -> anyhow::Result<Took>;

    /// How many votes it has counted; `None` if it does not count.
    async fn counted(&mut self) -> anyhow::Result<Option<u64>>;
}

/// The figures of the median round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    /// Votes per second.
    pub(super) rate: f64,
    /// Microseconds of the processor per vote.
    pub(super) cpu_us: f64,
}

impl Figures {
    /// Figures without any measurement.
    pub(super) const NONE: Self = Self {
        rate: f64::NAN,
        cpu_us: f64::NAN,
    };
}

/// A contender during its rounds.
struct Turn<'a> {
    entry: Entry<'a>,
    /// Votes per round.
    votes: usize,
    rates: Vec<f64>,
    cpu: Vec<f64>,
}

impl<'a> Turn<'a> {
    fn new(entry: Entry<'a>) -> Self {
        let votes = (entry.shape.batch * entry.shape.calls * 4).min(entry.most);
        Self {
            entry,
            votes,
            rates: Vec::new(),
            cpu: Vec::new(),
        }
    }

    /// Warms the contender up, and finds out how many votes make a round.
    async fn warm(&mut self) -> anyhow::Result<()> {
        let least = self.entry.shape.batch * self.entry.shape.calls;
        for _ in 0..2 {
            let rate = self.take().await?;
            let calls = (rate * ROUND_SECONDS) as usize / least;
            self.votes = (least * calls.max(1)).min(self.entry.most);
        }
        self.rates.clear();
        self.cpu.clear();
        Ok(())
    }

    async fn take(&mut self) -> anyhow::Result<f64> {
        let work = Work {
            shape: self.entry.shape,
            first: self.entry.stored,
            votes: self.votes,
        };
        let took = self.entry.contender.cast(&work).await?;
        self.entry.stored += self.votes as u64;
        let (votes, seconds) = (self.votes as f64, took.wall.as_secs_f64());
        self.cpu.push(took.cpu.as_secs_f64() * 1e6 / votes);
        self.rates.push(votes / seconds);
        Ok(votes / seconds)
    }
}

/// A contender, its work, and what it has counted already.
pub(super) struct Entry<'a> {
    pub(super) contender: &'a mut dyn Contender,
    pub(super) shape: Shape,
    /// Votes it has counted already.
    pub(super) stored: u64,
    /// A round has no more votes than this.
    pub(super) most: usize,
}

impl<'a> Entry<'a> {
    /// A contender that starts empty.
    pub(super) fn fresh(contender: &'a mut dyn Contender, shape: Shape) -> Self {
        Self {
            contender,
            shape,
            stored: 0,
            most: usize::MAX,
        }
    }
}

/// Measures contenders by turns. A contender that counts wrongly is an error.
pub(super) async fn measure(entries: Vec<Entry<'_>>) -> anyhow::Result<Vec<Figures>> {
    let mut turns: Vec<Turn<'_>> = entries.into_iter().map(Turn::new).collect();
    for turn in &mut turns {
        turn.warm().await?;
    }
    for _ in 0..ROUNDS {
        for turn in &mut turns {
            tokio::time::sleep(REST).await;
            turn.take().await?;
        }
        // Alternate the order, so that a contender does not always follow the same one.
        turns.reverse();
    }
    let mut figures = Vec::new();
    for turn in turns {
        if let Some(counted) = turn.entry.contender.counted().await? {
            let cast = turn.entry.stored;
            anyhow::ensure!(counted == cast, "{cast} votes cast, {counted} counted");
        }
        figures.push(Figures {
            rate: median(turn.rates),
            cpu_us: median(turn.cpu),
        });
    }
    Ok(figures)
}

/// The median.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let upper = figures.get(figures.len() / 2).copied();
    let lower = figures.get(figures.len().saturating_sub(1) / 2).copied();
    upper
        .zip(lower)
        .map_or(f64::NAN, |(upper, lower)| f64::midpoint(upper, lower))
}
