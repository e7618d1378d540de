//! `workflow graph`: draws a definition, optionally with the position of an execution.

use std::path::Path;

use ballast_domain::error::FieldProblem;
use ballast_state_machines::definitions::{self, BuiltInWorkflow, is_helper};
use ballast_state_machines::language::draw::{self, Marks};
use ballast_state_machines::language::{Definition, DefinitionProblem, ProblemCode};
use serde_json::json;

use super::DrawingFormat;
use super::files::{print_json, read_text};
use crate::Remote;
use crate::client::Request;
use crate::execution::body::{DefinitionBody, Execution};
use crate::execution::state_history::StateHistory;
use crate::execution::{fetch_definition, fetch_history_after};
use crate::failure::{CliError, CommandOutcome};
use crate::output::Screen;

/// Draws a built-in, local or deployed workflow.
pub(super) async fn draw_workflow(
    workflow: &Path,
    format: DrawingFormat,
    all: bool,
    remote: impl FnOnce() -> Result<Remote, CliError>,
    screen: &Screen,
) -> Result<CommandOutcome, CliError> {
    let known = workflow.to_str().and_then(BuiltInWorkflow::find);
    let parsed = match known {
        Some(known) => known.definition(),
        None => match read_text(workflow) {
            Ok(text) => Definition::parse(&text),
            Err(why) => Definition::parse(&fetch_deployed(workflow, why, remote).await?),
        },
    };
    let definition = parsed.map_err(|problems| invalid_definition(&problems))?;
    // Only built-in workflows have helper states.
    let folded = known.is_some() && !all;
    let marks = Marks::default().folding(&definition, |state| folded && is_helper(&state.kind));
    print_drawing(&definition, &marks, format, screen)
}

/// The names of the built-in workflows.
pub(super) fn built_in_names() -> String {
    definitions::ALL.map(|known| known.name).join(", ")
}

/// Fetches a deployed definition, because there is no such file.
async fn fetch_deployed(
    workflow: &Path,
    why: String,
    remote: impl FnOnce() -> Result<Remote, CliError>,
) -> Result<String, CliError> {
    let asked = async {
        let name = workflow.to_str().unwrap_or_default();
        let request = Request::get(&["workflows", name]);
        let body: DefinitionBody = remote()?.client.send(request).await?.read()?;
        Ok::<_, CliError>(body.definition.to_string())
    };
    asked.await.map_err(|_| {
        let next = format!(
            "Give a file, a deployed workflow, or a built-in workflow: {}.",
            built_in_names()
        );
        let title = "Workflow not found";
        CliError::rejected_locally("workflow-not-found", title, why, &next)
    })
}

/// Draws the definition of an execution.
pub(super) async fn draw_execution(
    id: &str,
    format: DrawingFormat,
    all: bool,
    remote: &Remote,
) -> Result<CommandOutcome, CliError> {
    let client = &remote.client;
    let reply = client.send(Request::get(&["executions", id])).await?;
    let execution: Execution = reply.read()?;
    let definition = fetch_definition(client, id).await?;
    let mut story = StateHistory::default();
    for event in fetch_history_after(client, id, 0, execution.history_length).await? {
        story.apply(&event);
    }
    let mut marks = story.drawing_marks(&execution, &definition);
    if all {
        marks.folded.clear();
    }
    print_drawing(&definition, &marks, format, &remote.screen)
}

pub(super) fn invalid_definition(problems: &[DefinitionProblem]) -> CliError {
    let is_valid = !problems.iter().any(DefinitionProblem::is_error);
    // A valid definition has unfilled substitutions.
    let relevant = problems
        .iter()
        .filter(|problem| problem.is_error() || is_valid && problem.code == ProblemCode::Unfilled);
    let places = relevant.clone().map(|problem| FieldProblem {
        pointer: problem.path.clone(),
        message: problem.message.clone(),
    });
    let places = places.collect();
    let relevant: Vec<_> = relevant.map(ToString::to_string).collect();
    let next = "ballast workflow check FILE lists every problem.";
    CliError::rejected_locally(
        "invalid-definition",
        "Invalid definition",
        relevant.join("\n"),
        next,
    )
    .with_field_problems(places)
}

fn print_drawing(
    definition: &Definition,
    marks: &Marks,
    format: DrawingFormat,
    screen: &Screen,
) -> Result<CommandOutcome, CliError> {
    let drawn = match format {
        DrawingFormat::Text => draw::text(definition, marks),
        DrawingFormat::Mermaid => draw::mermaid(definition, marks),
        DrawingFormat::Dot => draw::dot(definition, marks),
    };
    if screen.json {
        let source = definition.source();
        print_json(screen, &json!({"drawing": drawn, "definition": source}))?;
    } else {
        screen.data(drawn.as_bytes())?;
    }
    Ok(CommandOutcome::Done)
}
