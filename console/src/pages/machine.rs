//! The state machine of a move, drawn with the place where it stands.

use ballast_control_plane::migrations::WORKFLOW;
use ballast_control_plane::migrations::body::{MigrationBody, step_of};
use ballast_domain::migration::Status;
use ballast_state_machines::definitions::{BuiltIn, is_helper};
use ballast_state_machines::language::Definition;
use ballast_state_machines::language::draw::{Marks, svg};
use maud::{Markup, PreEscaped, html};

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
            let steps = definition.machine().states().iter();
            let steps = steps.filter(|state| !is_helper(&state.kind) && state.name != "Rollback");
            marks.done.extend(steps.map(|state| state.name.clone()));
        }
        Status::RolledBack | Status::Reversed | Status::Cancelled => {
            marks.done.insert(phase);
        }
    }
    marks.folding(definition, |state| is_helper(&state.kind))
}
