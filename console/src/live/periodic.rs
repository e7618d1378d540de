//! A source that renders a page at a fixed interval, for pages without a change signal.

use std::time::Duration;

use maud::Markup;

use super::{LiveUpdate, Source};

/// The parts of a page, by element id.
pub(crate) type PageParts = Vec<(&'static str, Markup)>;

/// Renders a page at a fixed interval.
pub(crate) struct PeriodicSource<F> {
    every: Duration,
    draw: F,
    first: bool,
}

impl<F> PeriodicSource<F> {
    /// Renders with `draw` at every interval.
    pub(crate) fn new(every: Duration, draw: F) -> Self {
        Self {
            every,
            draw,
            first: true,
        }
    }
}

impl<F, D> Source for PeriodicSource<F>
where
    F: FnMut() -> D + Send + 'static,
    D: Future<Output = Option<PageParts>> + Send,
{
    async fn next(&mut self) -> Option<Vec<LiveUpdate>> {
        loop {
            if !std::mem::take(&mut self.first) {
                tokio::time::sleep(self.every).await;
            }
            // On failure the next interval tries again.
            if let Some(parts) = (self.draw)().await {
                return Some(vec![LiveUpdate::Parts(parts)]);
            }
        }
    }
}
