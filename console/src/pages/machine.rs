//! The diagram of a migration's state machine with its current state.

use ballast_control_plane::migrations::WORKFLOW;
use ballast_control_plane::migrations::body::{MigrationBody, step_for_state};
use ballast_domain::migration::MigrationStatus;
use ballast_state_machines::definitions::{BuiltInWorkflow, is_helper};
use ballast_state_machines::language::Definition;
use ballast_state_machines::language::draw::{Marks, svg};
use maud::{Markup, PreEscaped, html};

use crate::page::format::span;

/// The diagram. `entered` has the states entered so far, in order.
pub(super) fn diagram(body: &MigrationBody, entered: &[String]) -> Markup {
    let built_in = BuiltInWorkflow::find(WORKFLOW);
    let Some(Ok(definition)) = built_in.map(BuiltInWorkflow::definition) else {
        return html! {};
    };
    let marks = marks(body, entered, &definition);
    let label = match body.status.is_end() {
        true => format!("The states of the migration; it ended in {}", body.phase),
        false => format!("The states of the migration; it is in {}", body.phase),
    };
    // `svg` escapes every name.
    html! { (PreEscaped(svg(&definition, &marks, &label))) }
}

/// The migration's progress: step, share of the step, and remaining time; `None` if its
/// state is not one of the steps.
pub(super) fn progress_text(body: &MigrationBody) -> Option<String> {
    let definition = BuiltInWorkflow::find(WORKFLOW)?.definition().ok()?;
    let steps: Vec<&str> = steps(&definition).collect();
    let place = steps.iter().position(|step| *step == body.phase)?;
    let progress = &body.progress;
    Some(format_progress(
        place + 1,
        steps.len(),
        (progress.done, progress.total),
        progress.eta_seconds,
    ))
}

/// The steps of a migration without failures, in order.
fn steps(definition: &Definition) -> impl Iterator<Item = &str> {
    let states = definition.machine().states().iter();
    let steps = states.filter(|state| !is_helper(&state.kind) && state.name != "Rollback");
    steps.map(|state| state.name.as_str())
}

fn format_progress(
    step: usize,
    steps: usize,
    done: (u64, Option<u64>),
    eta: Option<u64>,
) -> String {
    let mut words = format!("step {step} of {steps}");
    if let (done, Some(total @ 1..)) = done {
        let percent = done.min(total).saturating_mul(100) / total;
        words.push_str(&format!(", {percent} % of this step"));
    }
    if let Some(seconds) = eta {
        words.push_str(&format!(", {} left", span(seconds.saturating_mul(1_000))));
    }
    words
}

fn marks(body: &MigrationBody, entered: &[String], definition: &Definition) -> Marks {
    let mut marks = Marks::default();
    let phase = body.phase.clone();
    marks
        .done
        .extend(entered.iter().map(|state| step_for_state(state).to_owned()));
    match body.status {
        MigrationStatus::Running | MigrationStatus::Waiting => {
            marks.current.insert(phase);
        }
        MigrationStatus::Failed => {
            marks.failed.insert(phase);
        }
        MigrationStatus::Completed => {
            // The execution's history may have been deleted; a completed migration took all steps.
            marks.done.extend(steps(definition).map(str::to_owned));
        }
        MigrationStatus::RolledBack | MigrationStatus::Reversed | MigrationStatus::Cancelled => {
            marks.done.insert(phase);
        }
    }
    marks.folding(definition, |state| is_helper(&state.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_formatted() {
        assert_eq!(format_progress(3, 8, (0, None), None), "step 3 of 8");
        assert_eq!(
            format_progress(3, 8, (630, Some(1_000)), Some(12)),
            "step 3 of 8, 63 % of this step, 12 s left"
        );
        let window = format_progress(7, 8, (60, Some(7_200)), Some(7_140));
        assert_eq!(window, "step 7 of 8, 0 % of this step, 1 h 59 min left");
        let definition = BuiltInWorkflow::find(WORKFLOW)
            .unwrap()
            .definition()
            .unwrap();
        let steps: Vec<_> = steps(&definition).collect();
        assert!(steps.contains(&"MonitorDualRead") && !steps.contains(&"Rollback"));
    }
}
