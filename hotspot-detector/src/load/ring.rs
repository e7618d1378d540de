//! A ring of intervals: fine steps for the short window, merged steps for the long window.
//!
//! ```text
//!   fine    |10s|10s|10s|10s|10s|10s|            the short window
//!   coarse  |  1m  |  1m  | …       |  1m  |     the long window
//! ```
//! Only intervals with measurements take memory.

use std::collections::VecDeque;

/// Measurements that can be merged over time.
pub trait Merge {
    /// Adds later measurements.
    fn merge(&mut self, later: &Self);
}

/// Which of the two windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Window {
    /// The short window, to react quickly.
    Short,
    /// The long window, to confirm.
    Long,
}

/// The lengths of steps and windows.
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

    /// The step that contains a moment.
    #[must_use]
    pub fn step_at(&self, unix_ms: i64) -> u32 {
        let step = unix_ms.max(0).unsigned_abs() / self.step_ms.max(1);
        u32::try_from(step).unwrap_or(u32::MAX)
    }

    fn coarse_step(&self, step: u32) -> u32 {
        step / self.short_steps.max(1)
    }
}

/// The measurements of the newest intervals.
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
    /// Adds the measurements of a step; steps must be in order.
    pub fn push(&mut self, spans: &Spans, step: u32, value: T) {
        let coarse = spans.coarse_step(step);
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

    /// Drops intervals that no window needs.
    pub fn forget(&mut self, spans: &Spans, now: u32) {
        let first_fine = now.saturating_sub(spans.short_steps.saturating_sub(1));
        while self
            .fine
            .front()
            .is_some_and(|(step, _)| *step < first_fine)
        {
            self.fine.pop_front();
        }
        let coarse = spans.coarse_step(now);
        let first_coarse = coarse.saturating_sub(spans.long_shorts.saturating_sub(1));
        while self
            .coarse
            .front()
            .is_some_and(|(step, _)| *step < first_coarse)
        {
            self.coarse.pop_front();
        }
    }

    /// The intervals of a window that ends with the step `now`, oldest first.
    pub fn over(&self, spans: &Spans, window: Window, now: u32) -> impl Iterator<Item = &T> {
        let (ring, now, length) = match window {
            Window::Short => (&self.fine, now, spans.short_steps),
            Window::Long => (&self.coarse, spans.coarse_step(now), spans.long_shorts),
        };
        let first = now.saturating_sub(length.saturating_sub(1));
        let within = move |step: u32| (first..=now).contains(&step);
        ring.iter()
            .filter(move |(step, _)| within(*step))
            .map(|(_, value)| value)
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fine.is_empty() && self.coarse.is_empty()
    }

    /// The number of intervals in memory.
    #[must_use]
    pub fn interval_count(&self) -> usize {
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
    fn windows_cover_exactly_their_time() {
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
        assert!(ring.interval_count() <= 16);
        ring.forget(&spans, 2_000);
        assert!(ring.is_empty());
    }

    #[test]
    fn two_pushes_of_one_step_are_merged() {
        let mut ring = Ring::default();
        ring.push(&Spans::default(), 7, 2_u64);
        ring.push(&Spans::default(), 7, 3_u64);
        assert_eq!(sum(&ring, Window::Short, 7), 5);
        assert_eq!(sum(&ring, Window::Long, 7), 5);
    }
}
