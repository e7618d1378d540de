//! The live view of a migration, redrawn on every change. `view/moving` decides what it shows.

use ballast_domain::Timestamp;

use super::body::MigrationBody;
use crate::failure::CliError;
use crate::now::now;
use crate::output::Screen;
use crate::paint::Painter;
use crate::view::moving::{MigrationScene, frame};
use crate::view::watch::Connection;

/// A live view.
pub(super) struct LiveMigration<'a> {
    screen: &'a Screen,
    painter: Painter,
    migration: Option<MigrationBody>,
    link: Connection,
}

impl<'a> LiveMigration<'a> {
    /// An empty view.
    pub(super) fn new(screen: &'a Screen) -> Self {
        Self {
            screen,
            painter: Painter::new(),
            migration: None,
            link: Connection::Up,
        }
    }

    /// Shows the new state.
    pub(super) fn update(&mut self, migration: &MigrationBody) -> Result<(), CliError> {
        self.migration = Some(migration.clone());
        let at = now();
        self.link = self.link.restore(at);
        self.draw_at(at)
    }

    /// Shows that the connection is lost.
    pub(super) fn mark_disconnected(&mut self) -> Result<(), CliError> {
        let at = now();
        self.link = self.link.lose(at);
        self.draw_at(at)
    }

    /// Redraws, because elapsed times changed.
    pub(super) fn redraw(&mut self) -> Result<(), CliError> {
        self.draw_at(now())
    }

    fn draw_at(&mut self, now: Timestamp) -> Result<(), CliError> {
        let Some(migration) = &self.migration else {
            return Ok(());
        };
        let scene = MigrationScene {
            migration,
            link: self.link,
            now,
        };
        let (columns, rows) = self.painter.size(self.screen);
        let lines = frame(&scene, columns, rows);
        self.painter.draw(self.screen, columns, &lines)
    }
}
