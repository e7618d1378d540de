//! `workflow graph`: a definition drawn, also with where an execution stands.

use std::path::Path;

use ballast_domain::error::FieldProblem;
use ballast_state_machines::definitions::{self, BuiltIn, is_helper};
use ballast_state_machines::language::draw::{self, Marks};
use ballast_state_machines::language::{Code, Definition, Problem};
use serde_json::json;

use super::Format;
use super::files::{read, tell};
use crate::Remote;
use crate::client::Request;
use crate::execution::body::{Definition as Body, Execution};
use crate::execution::story::Story;
use crate::execution::{definition_of, history_after};
use crate::failure::{Failure, Verdict};
use crate::output::Screen;

/// Draws a workflow that comes with Ballast, one in a file, or one that is
/// deployed.
pub(super) async fn of_workflow(
    workflow: &Path,
    format: Format,
    all: bool,
    remote: impl FnOnce() -> Result<Remote, Failure>,
    screen: &Screen,
) -> Result<Verdict, Failure> {
    let known = workflow.to_str().and_then(BuiltIn::find);
    let parsed = match known {
        Some(known) => known.definition(),
        None => match read(workflow) {
            Ok(text) => Definition::parse(&text),
            Err(why) => Definition::parse(&deployed(workflow, why, remote).await?),
        },
    };
    let definition = parsed.map_err(|problems| invalid(&problems))?;
    // Of somebody else's workflow nothing is taken for a helper.
    let folded = known.is_some() && !all;
    let marks = Marks::default().folding(&definition, |state| folded && is_helper(&state.kind));
    drawn(&definition, &marks, format, screen)
}

/// The workflows that come with Ballast, in one line.
pub(super) fn built_in_names() -> String {
    definitions::ALL.map(|known| known.name).join(", ")
}

/// The definition of a workflow that is deployed, for want of a file.
async fn deployed(
    workflow: &Path,
    why: String,
    remote: impl FnOnce() -> Result<Remote, Failure>,
) -> Result<String, Failure> {
    let asked = async {
        let name = workflow.to_str().unwrap_or_default();
        let request = Request::get(&["workflows", name]);
        let body: Body = remote()?.client.send(request).await?.read()?;
        Ok::<_, Failure>(body.definition.to_string())
    };
    asked.await.map_err(|_| {
        let next = format!(
            "Give a file, a deployed workflow, or one of those that come with Ballast: {}.",
            built_in_names()
        );
        let title = "There is no such workflow";
        Failure::refused_here("workflow-not-found", title, why, &next)
    })
}

/// Draws what an execution runs.
pub(super) async fn of_execution(
    id: &str,
    format: Format,
    all: bool,
    remote: &Remote,
) -> Result<Verdict, Failure> {
    let client = &remote.client;
    let reply = client.send(Request::get(&["executions", id])).await?;
    let execution: Execution = reply.read()?;
    let definition = definition_of(client, id).await?;
    let mut story = Story::default();
    for event in history_after(client, id, 0, execution.history_length).await? {
        story.take(&event);
    }
    let mut marks = story.marks(&execution, &definition);
    if all {
        marks.folded.clear();
    }
    drawn(&definition, &marks, format, &remote.screen)
}

pub(super) fn invalid(problems: &[Problem]) -> Failure {
    let is_valid = !problems.iter().any(Problem::is_error);
    // One that is valid lacks what its substitutions stand for.
    let told = problems
        .iter()
        .filter(|problem| problem.is_error() || is_valid && problem.code == Code::Unfilled);
    let places = told.clone().map(|problem| FieldProblem {
        pointer: problem.path.clone(),
        message: problem.message.clone(),
    });
    let places = places.collect();
    let told: Vec<_> = told.map(ToString::to_string).collect();
    let next = "ballast workflow check FILE tells everything that is wrong with it.";
    Failure::refused_here(
        "invalid-definition",
        "The definition is not valid",
        told.join("\n"),
        next,
    )
    .at(places)
}

fn drawn(
    definition: &Definition,
    marks: &Marks,
    format: Format,
    screen: &Screen,
) -> Result<Verdict, Failure> {
    let drawn = match format {
        Format::Text => draw::text(definition, marks),
        Format::Mermaid => draw::mermaid(definition, marks),
        Format::Dot => draw::dot(definition, marks),
    };
    if screen.json {
        let source = definition.source();
        tell(screen, &json!({"drawing": drawn, "definition": source}))?;
    } else {
        screen.data(drawn.as_bytes())?;
    }
    Ok(Verdict::Done)
}
