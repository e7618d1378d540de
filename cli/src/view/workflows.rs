//! Renders workflow definitions.

use ballast_domain::Timestamp;
use ballast_state_machines::definitions::BuiltInWorkflow;
use ballast_state_machines::language::{Definition, DefinitionProblem};
use serde::Deserialize;

use crate::output::Screen;
use crate::table::{self, Table, moment, moment_long, sanitize};

/// A workflow of a running instance.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkflowBody {
    workflow: String,
    #[serde(default)]
    built_in: bool,
    comment: Option<String>,
    start_at: String,
    definition_hash: String,
    deployed_at: Option<Timestamp>,
    #[serde(default)]
    missing_handlers: Vec<String>,
}

/// A deployed workflow, with its warnings.
#[derive(Debug, Deserialize)]
pub(crate) struct DeployedBody {
    #[serde(flatten)]
    workflow: WorkflowBody,
    #[serde(default)]
    problems: Vec<ProblemBody>,
}

#[derive(Debug, Deserialize)]
struct ProblemBody {
    path: String,
    code: String,
    message: String,
}

/// Whether it can be started.
fn describe_readiness(workflow: &WorkflowBody) -> String {
    match workflow.missing_handlers.as_slice() {
        [] => "yes".to_owned(),
        [one] => format!("no: no handler for {one}"),
        [one, rest @ ..] => format!("no: no handler for {one} and {} more", rest.len()),
    }
}

/// The workflows of a running instance.
pub(crate) fn workflow_table(screen: &Screen, workflows: &[WorkflowBody]) -> String {
    let columns = ["workflow", "can start", "deployed", "what it does"];
    let mut table = Table::new(screen, &columns);
    for workflow in workflows {
        let deployed = match workflow.deployed_at {
            _ if workflow.built_in => "built in".to_owned(),
            Some(at) => moment(screen, at),
            None => "–".to_owned(),
        };
        let row = [
            workflow.workflow.clone(),
            describe_readiness(workflow),
            deployed,
            workflow.comment.clone().unwrap_or_default(),
        ];
        if workflow.missing_handlers.is_empty() {
            table.add_row(row);
        } else {
            table.add_dimmed_row(row);
        }
    }
    table.render()
}

/// All about one of them.
pub(crate) fn workflow_facts(screen: &Screen, workflow: &WorkflowBody) -> String {
    let missing = &workflow.missing_handlers;
    let from = if workflow.built_in {
        "Ballast itself"
    } else {
        "a deployed file"
    };
    table::fact_list(
        screen,
        &[
            ("workflow", Some(workflow.workflow.clone())),
            ("what it does", workflow.comment.clone()),
            ("comes from", Some(from.to_owned())),
            ("can start", Some(describe_readiness(workflow))),
            (
                "missing handlers",
                (!missing.is_empty()).then(|| missing.join(", ")),
            ),
            ("begins with", Some(workflow.start_at.clone())),
            (
                "deployed",
                workflow.deployed_at.map(|at| moment_long(screen, at)),
            ),
            ("definition", Some(workflow.definition_hash.clone())),
        ],
    )
}

/// One line on a workflow that was deployed.
pub(crate) fn describe_deployed(_: &Screen, body: &DeployedBody) -> String {
    let workflow = &body.workflow;
    format!(
        "deployed workflow {}; it begins with {}",
        sanitize(&workflow.workflow),
        sanitize(&workflow.start_at)
    )
}

/// Warnings.
pub(crate) fn list_warnings(screen: &Screen, body: &DeployedBody) -> Vec<String> {
    let text = |remark: &ProblemBody| {
        let ProblemBody {
            path,
            code,
            message,
        } = remark;
        let text = sanitize(&format!("{path}: {message} [{code}]"));
        format!("{} {text}", screen.bold("warning:"))
    };
    body.problems.iter().map(text).collect()
}

/// The built-in workflows.
pub(crate) fn built_in_table(screen: &Screen, known: &[(BuiltInWorkflow, Definition)]) -> String {
    let mut table = Table::new(screen, &["workflow", "what it does"]);
    for (known, definition) in known {
        let comment = definition.comment().unwrap_or_default();
        table.add_row([known.name.to_owned(), comment.to_owned()]);
    }
    table.render()
}

/// The problems of a definition.
pub(crate) fn describe_problems(
    screen: &Screen,
    file: &str,
    valid: bool,
    problems: &[DefinitionProblem],
) -> String {
    let mut lines = Vec::new();
    for problem in problems {
        let kind = if problem.is_error() {
            screen.red("error:")
        } else {
            screen.bold("warning:")
        };
        lines.push(format!("{kind} {problem} [{}]", problem.code.as_str()));
    }
    let verdict = if valid {
        screen.green("valid")
    } else {
        screen.red("not valid")
    };
    lines.push(format!("{file}: {verdict}"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_can_be_started_is_told() {
        let workflows: Vec<WorkflowBody> = serde_json::from_value(json!([
            {"workflow": "copy", "builtIn": false, "startAt": "Copy", "definitionHash": "ab",
             "deployedAt": "2026-11-16T09:29:00Z", "missingHandlers": []},
            {"workflow": "move-tenant", "builtIn": true, "comment": "Moves a tenant",
             "startAt": "DetectHotspot", "definitionHash": "cd",
             "missingHandlers": ["ballast:detect", "ballast:plan"]},
        ]))
        .unwrap();
        insta::assert_snapshot!(
            "workflows_of_an_instance",
            workflow_table(&Screen::plain(), &workflows)
        );
        insta::assert_snapshot!(
            "a_workflow_that_cannot_start",
            workflow_facts(&Screen::plain(), &workflows[1])
        );
    }
}
