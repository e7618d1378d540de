//! A source that draws anew every so often: for pages of which nobody says
//! when they change.

use std::time::Duration;

use maud::Markup;

use super::{Source, Told};

/// What a page consists of, by ids.
pub(crate) type Parts = Vec<(&'static str, Markup)>;

/// Draws a page again and again.
pub(crate) struct Every<F> {
    every: Duration,
    draw: F,
    first: bool,
}

impl<F> Every<F> {
    /// Draws with this, every so often.
    pub(crate) fn new(every: Duration, draw: F) -> Self {
        Self {
            every,
            draw,
            first: true,
        }
    }
}

impl<F, D> Source for Every<F>
where
    F: FnMut() -> D + Send + 'static,
    D: Future<Output = Option<Parts>> + Send,
{
    async fn next(&mut self) -> Option<Vec<Told>> {
        loop {
            if !std::mem::take(&mut self.first) {
                tokio::time::sleep(self.every).await;
            }
            // What cannot be drawn right now is drawn the next time.
            if let Some(parts) = (self.draw)().await {
                return Some(vec![Told::Parts(parts)]);
            }
        }
    }
}
