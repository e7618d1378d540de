//! The live view of a move, drawn again whenever something changes. What is
//! drawn is decided in `view/moving`.

use ballast_domain::Timestamp;

use super::body::Migration;
use crate::failure::Failure;
use crate::now::now;
use crate::output::Screen;
use crate::paint::Painter;
use crate::view::moving::{Scene, frame};
use crate::view::watch::Link;

/// A live view.
pub(super) struct Live<'a> {
    screen: &'a Screen,
    painter: Painter,
    migration: Option<Migration>,
    link: Link,
}

impl<'a> Live<'a> {
    /// A view that shows nothing yet.
    pub(super) fn new(screen: &'a Screen) -> Self {
        Self {
            screen,
            painter: Painter::new(),
            migration: None,
            link: Link::Fine,
        }
    }

    /// Shows how it stands now.
    pub(super) fn seen(&mut self, migration: &Migration) -> Result<(), Failure> {
        self.migration = Some(migration.clone());
        let at = now();
        self.link = self.link.back(at);
        self.draw_at(at)
    }

    /// Shows that nothing is heard.
    pub(super) fn lost(&mut self) -> Result<(), Failure> {
        let at = now();
        self.link = self.link.lost(at);
        self.draw_at(at)
    }

    /// Shows what has changed with time alone.
    pub(super) fn draw(&mut self) -> Result<(), Failure> {
        self.draw_at(now())
    }

    fn draw_at(&mut self, now: Timestamp) -> Result<(), Failure> {
        let Some(migration) = &self.migration else {
            return Ok(());
        };
        let scene = Scene {
            migration,
            link: self.link,
            now,
        };
        let (columns, rows) = self.painter.size(self.screen);
        let lines = frame(&scene, columns, rows);
        self.painter.draw(self.screen, columns, &lines)
    }
}
