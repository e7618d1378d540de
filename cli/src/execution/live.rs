//! The live view of an execution, redrawn on every change. `view/watch` decides what it shows.

use ballast_domain::Timestamp;
use ballast_state_machines::language::Definition;

use super::body::{Execution, HistoryEvent};
use super::state_history::StateHistory;
use crate::failure::CliError;
use crate::now::now;
use crate::output::Screen;
use crate::paint::Painter;
use crate::view::watch::{Connection, ExecutionScene, frame};

/// A live view.
pub(super) struct LiveExecution<'a> {
    screen: &'a Screen,
    painter: Painter,
    definition: Definition,
    story: StateHistory,
    execution: Option<Execution>,
    link: Connection,
}

impl<'a> LiveExecution<'a> {
    /// An empty view.
    pub(super) fn new(screen: &'a Screen, definition: Definition) -> Self {
        Self {
            screen,
            painter: Painter::new(),
            definition,
            story: StateHistory::default(),
            execution: None,
            link: Connection::Up,
        }
    }

    /// Shows the new state.
    pub(super) fn update(
        &mut self,
        execution: &Execution,
        events: &[HistoryEvent],
    ) -> Result<(), CliError> {
        for event in events {
            self.story.apply(event);
        }
        self.execution = Some(execution.clone());
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
        let Some(execution) = &self.execution else {
            return Ok(());
        };
        let scene = ExecutionScene {
            execution,
            definition: &self.definition,
            story: &self.story,
            link: self.link,
            now,
        };
        let (columns, rows) = self.painter.size(self.screen);
        let lines = frame(&scene, columns, rows);
        self.painter.draw(self.screen, columns, &lines)
    }
}
