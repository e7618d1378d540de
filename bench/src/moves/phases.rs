//! A migration's phases, by the clock of the run.

use std::time::Duration;

use super::operator::Moved;

/// When a migration was in which phase.
pub(super) struct Course {
    pub(super) begun: Duration,
    pub(super) ended: Duration,
    phases: Vec<(Duration, String)>,
}

impl Course {
    pub(super) fn new(begun: Duration, ended: Duration, moved: &Moved) -> Self {
        Self {
            begun,
            ended,
            phases: moved.phases.clone(),
        }
    }

    /// The span of each phase.
    pub(super) fn spans(&self) -> impl Iterator<Item = (&str, Duration, Duration)> {
        let ends = self.phases.iter().skip(1);
        let ends = ends.map(|(since, _)| self.begun + *since);
        let ends = ends.chain([self.ended]);
        let phases = self.phases.iter().zip(ends);
        phases.map(|((since, phase), end)| (phase.as_str(), self.begun + *since, end))
    }
}

/// The phases of these migrations, in the order in which they were first seen.
pub(super) fn names<'a>(courses: impl Iterator<Item = &'a Course>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (phase, ..) in courses.flat_map(Course::spans) {
        if !names.contains(&phase) {
            names.push(phase);
        }
    }
    names
}
