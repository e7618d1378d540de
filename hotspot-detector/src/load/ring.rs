//! A ring of intervals: the newest in fine steps for the short window, older
//! ones added up for the long window.
//!
//! ```text
//!   fine    |10s|10s|10s|10s|10s|10s|            the short window
//!   coarse  |  1m  |  1m  | …       |  1m  |     the long window
//! ```
//! Only intervals in which something was measured take room.

use std::collections::VecDeque;

/// What can be added up over time.
pub trait Merge {
    /// Takes in what was measured later.
    fn merge(&mut self, later: &Self);
}

/// Which of the two windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Window {
    /// The one to react by.
    Short,
    /// The one to be sure by.
    Long,
}

/// How long the steps and the windows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spans {
    /// One step, in milliseconds.
    pub step_ms: u64,
    /// Steps in a short window.
    pub short_steps: u32,
    /// Short windows in a long one.
    pub long_shorts: u32,
}

impl Default for Spans {
    /// Steps of ten seconds, a minute, ten minutes.
    fn default() -> Self {
        Self {
            step_ms: 10_000,
            short_steps: 6,
            long_shorts: 10,
        }
    }
}

impl Spans {
    /// How long a window is, in milliseconds.
    #[must_use]
    pub fn length_ms(&self, window: Window) -> u64 {
        let short = self.step_ms * u64::from(self.short_steps);
        match window {
            Window::Short => short,
            Window::Long => short * u64::from(self.long_shorts),
        }
    }

    /// The step that a moment lies in.
    #[must_use]
    pub fn step_of(&self, unix_ms: i64) -> u32 {
        let step = unix_ms.max(0).unsigned_abs() / self.step_ms.max(1);
        u32::try_from(step).unwrap_or(u32::MAX)
    }

    fn coarse_of(&self, step: u32) -> u32 {
        step / self.short_steps.max(1)
    }
}

/// What was measured in the newest intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct Ring<T> {
    fine: VecDeque<(u32, T)>,
    coarse: VecDeque<(u32, T)>,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self {
            fine: VecDeque::new(),
            coarse: VecDeque::new(),
        }
    }
}

impl<T: Merge + Clone> Ring<T> {
    /// Adds what was measured in a step; steps come in order.
    pub fn push(&mut self, spans: &Spans, step: u32, value: T) {
        let coarse = spans.coarse_of(step);
        match self.coarse.back_mut() {
            Some((last, sum)) if *last == coarse => sum.merge(&value),
            _ => self.coarse.push_back((coarse, value.clone())),
        }
        match self.fine.back_mut() {
            Some((last, sum)) if *last == step => sum.merge(&value),
            _ => self.fine.push_back((step, value)),
        }
        self.forget(spans, step);
    }

    /// Drops what no window reaches any more.
    pub fn forget(&mut self, spans: &Spans, now: u32) {
        let first_fine = now.saturating_sub(spans.short_steps.saturating_sub(1));
        while self
            .fine
            .front()
            .is_some_and(|(step, _)| *step < first_fine)
        {
            self.fine.pop_front();
        }
        let coarse = spans.coarse_of(now);
        let first_coarse = coarse.saturating_sub(spans.long_shorts.saturating_sub(1));
        while self
            .coarse
            .front()
            .is_some_and(|(step, _)| *step < first_coarse)
        {
            self.coarse.pop_front();
        }
    }

    /// What a window that ends with the step `now` holds, oldest first.
    pub fn over(&self, spans: &Spans, window: Window, now: u32) -> impl Iterator<Item = &T> {
        let (ring, now, length) = match window {
            Window::Short => (&self.fine, now, spans.short_steps),
            Window::Long => (&self.coarse, spans.coarse_of(now), spans.long_shorts),
        };
        let first = now.saturating_sub(length.saturating_sub(1));
        let within = move |step: u32| (first..=now).contains(&step);
        ring.iter()
            .filter(move |(step, _)| within(*step))
            .map(|(_, value)| value)
    }

    /// Whether nothing is left in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fine.is_empty() && self.coarse.is_empty()
    }

    /// How many intervals it keeps.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.fine.len() + self.coarse.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Merge for u64 {
        fn merge(&mut self, later: &Self) {
            *self += later;
        }
    }

    fn sum(ring: &Ring<u64>, window: Window, now: u32) -> u64 {
        ring.over(&Spans::default(), window, now).sum()
    }

    #[test]
    fn windows_hold_their_time_and_no_more() {
        let spans = Spans::default();
        let mut ring = Ring::default();
        for step in 600..900 {
            ring.push(&spans, step, 1_u64);
        }
        assert_eq!(sum(&ring, Window::Short, 899), 6);
        assert_eq!(sum(&ring, Window::Long, 899), 60);
        // Half a minute later with nothing measured.
        assert_eq!(sum(&ring, Window::Short, 902), 3);
        assert_eq!(sum(&ring, Window::Long, 902), 54);
        assert_eq!(sum(&ring, Window::Short, 999), 0);
        assert!(ring.kept() <= 16);
        ring.forget(&spans, 2_000);
        assert!(ring.is_empty());
    }

    #[test]
    fn a_step_told_twice_is_added_up() {
        let mut ring = Ring::default();
        ring.push(&Spans::default(), 7, 2_u64);
        ring.push(&Spans::default(), 7, 3_u64);
        assert_eq!(sum(&ring, Window::Short, 7), 5);
        assert_eq!(sum(&ring, Window::Long, 7), 5);
    }
}
