//! `workflow list`: the workflows of the running instance, or the built-in ones if it is
//! unreachable.

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_state_machines::definitions::{self, BuiltInWorkflow};
use ballast_state_machines::language::Definition;
use serde_json::{Value, json};

use super::files::print_json;
use crate::Remote;
use crate::args::PagingArgs;
use crate::client::{Reply, Request};
use crate::failure::{CliError, CommandOutcome};
use crate::output::Screen;
use crate::view::{self, workflows};

/// Lists the workflows.
pub(super) async fn list(
    remote: Result<Remote, CliError>,
    paging: &PagingArgs,
    screen: &Screen,
) -> Result<CommandOutcome, CliError> {
    match fetch_workflows(remote, paging).await {
        Ok(reply) => view::list(
            screen,
            &reply,
            workflows::workflow_table,
            "no workflows yet",
        )?,
        // Fall back to the built-in workflows.
        Err(failure) => {
            list_built_in(screen)?;
            let why = failure.detail();
            let asked = match failure.exit() {
                1 => "the instance refused the request",
                _ => "no instance answered",
            };
            let hint = format!("built-in workflows only; {asked}: {why}");
            screen.hint(&screen.dim(&hint));
        }
    }
    Ok(CommandOutcome::Done)
}

async fn fetch_workflows(
    remote: Result<Remote, CliError>,
    paging: &PagingArgs,
) -> Result<Reply, CliError> {
    let request = Request::get(&["workflows"]);
    remote?.client.list(request, paging, PAGE_ITEMS_MAX).await
}

fn list_built_in(screen: &Screen) -> Result<(), CliError> {
    let known: Vec<(BuiltInWorkflow, Definition)> = definitions::ALL
        .into_iter()
        .filter_map(|known| Some((known, known.definition().ok()?)))
        .collect();
    if !screen.json {
        return screen.data(workflows::built_in_table(screen, &known).as_bytes());
    }
    let item = |(known, definition): &(BuiltInWorkflow, Definition)| {
        json!({"workflow": known.name, "name": known.name, "builtIn": true,
            "comment": definition.comment(), "startAt": definition.start_at()})
    };
    let items: Vec<Value> = known.iter().map(item).collect();
    print_json(screen, &json!({ "items": items }))
}
