//! The state machine of a move, drawn with the place where it stands.

use ballast_control_plane::migrations::WORKFLOW;
use ballast_control_plane::migrations::body::{MigrationBody, step_of};
use ballast_domain::migration::Status;
use ballast_state_machines::definitions::{BuiltIn, is_helper};
use ballast_state_machines::language::Definition;
use ballast_state_machines::language::draw::{Marks, svg};
use maud::{Markup, PreEscaped, html};

use crate::page::words::span;

/// The drawing. `entered` are the states that were entered, in order.
pub(super) fn drawn(body: &MigrationBody, entered: &[String]) -> Markup {
    let built_in = BuiltIn::find(WORKFLOW);
    let Some(Ok(definition)) = built_in.map(BuiltIn::definition) else {
        return html! {};
    };
    let marks = marks(body, entered, &definition);
    let label = match body.status.is_end() {
        true => format!("The states of the move; it ended in {}", body.phase),
        false => format!("The states of the move; it is in {}", body.phase),
    };
    // The drawing escapes every name in it.
    html! { (PreEscaped(svg(&definition, &marks, &label))) }
}

/// How far a move is: which of how many steps, how much of it, and how long it
/// still takes; `None` when it does not stand in one of the steps.
pub(super) fn how_far(body: &MigrationBody) -> Option<String> {
    let definition = BuiltIn::find(WORKFLOW)?.definition().ok()?;
    let steps: Vec<&str> = steps(&definition).collect();
    let place = steps.iter().position(|step| *step == body.phase)?;
    let told = &body.progress;
    Some(far(
        place + 1,
        steps.len(),
        (told.done, told.total),
        told.eta_seconds,
    ))
}

/// The steps that a move takes when nothing goes wrong, in order.
fn steps(definition: &Definition) -> impl Iterator<Item = &str> {
    let states = definition.machine().states().iter();
    let steps = states.filter(|state| !is_helper(&state.kind) && state.name != "Rollback");
    steps.map(|state| state.name.as_str())
}

fn far(step: usize, steps: usize, done: (u64, Option<u64>), eta: Option<u64>) -> String {
    let mut words = format!("step {step} of {steps}");
    if let (done, Some(total @ 1..)) = done {
        let percent = done.min(total).saturating_mul(100) / total;
        words.push_str(&format!(", {percent} % of it"));
    }
    if let Some(seconds) = eta {
        words.push_str(&format!(", {} to go", span(seconds.saturating_mul(1_000))));
    }
    words
}

fn marks(body: &MigrationBody, entered: &[String], definition: &Definition) -> Marks {
    let mut marks = Marks::default();
    let phase = body.phase.clone();
    marks
        .done
        .extend(entered.iter().map(|state| step_of(state).to_owned()));
    match body.status {
        Status::Running | Status::Waiting => {
            marks.current.insert(phase);
        }
        Status::Failed => {
            marks.failed.insert(phase);
        }
        Status::Completed => {
            // Its execution may be forgotten: that it was completed says all.
            marks.done.extend(steps(definition).map(str::to_owned));
        }
        Status::RolledBack | Status::Reversed | Status::Cancelled => {
            marks.done.insert(phase);
        }
    }
    marks.folding(definition, |state| is_helper(&state.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_is_can_be_read() {
        assert_eq!(far(3, 8, (0, None), None), "step 3 of 8");
        assert_eq!(
            far(3, 8, (630, Some(1_000)), Some(12)),
            "step 3 of 8, 63 % of it, 12 s to go"
        );
        let window = far(7, 8, (60, Some(7_200)), Some(7_140));
        assert_eq!(window, "step 7 of 8, 0 % of it, 1 h 59 min to go");
        let definition = BuiltIn::find(WORKFLOW).unwrap().definition().unwrap();
        let steps: Vec<_> = steps(&definition).collect();
        assert!(steps.contains(&"MonitorDualRead") && !steps.contains(&"Rollback"));
    }
}
