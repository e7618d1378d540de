//! The live view of an execution: what is known of it, drawn again whenever
//! something changes. What is drawn is decided in `view/watch`.

use ballast_domain::Timestamp;
use ballast_state_machines::language::Definition;

use super::body::{Execution, HistoryEvent};
use super::story::Story;
use crate::failure::Failure;
use crate::now::now;
use crate::output::Screen;
use crate::paint::Painter;
use crate::view::watch::{Link, Scene, frame};

/// A live view.
pub(super) struct Live<'a> {
    screen: &'a Screen,
    painter: Painter,
    definition: Definition,
    story: Story,
    execution: Option<Execution>,
    link: Link,
}

impl<'a> Live<'a> {
    /// A view that shows nothing yet.
    pub(super) fn new(screen: &'a Screen, definition: Definition) -> Self {
        Self {
            screen,
            painter: Painter::new(),
            definition,
            story: Story::default(),
            execution: None,
            link: Link::Fine,
        }
    }

    /// Shows how it stands now.
    pub(super) fn seen(
        &mut self,
        execution: &Execution,
        events: &[HistoryEvent],
    ) -> Result<(), Failure> {
        for event in events {
            self.story.take(event);
        }
        self.execution = Some(execution.clone());
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
        let Some(execution) = &self.execution else {
            return Ok(());
        };
        let scene = Scene {
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
