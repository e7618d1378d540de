//! `workflow list`: of the running instance if it can be asked, else those
//! that come with Ballast.

use ballast_domain::bounds::PAGE_ITEMS_MAX;
use ballast_state_machines::definitions::{self, BuiltIn};
use ballast_state_machines::language::Definition;
use serde_json::{Value, json};

use super::files::tell;
use crate::Remote;
use crate::args::Paging;
use crate::client::{Reply, Request};
use crate::failure::{Failure, Verdict};
use crate::output::Screen;
use crate::view::{self, workflows};

/// Lists what there is.
pub(super) async fn list(
    remote: Result<Remote, Failure>,
    paging: &Paging,
    screen: &Screen,
) -> Result<Verdict, Failure> {
    match asked(remote, paging).await {
        Ok(reply) => view::list(screen, &reply, workflows::table, "no workflows yet")?,
        // What comes with Ballast is known here too, whoever cannot be asked.
        Err(failure) => {
            built_in(screen)?;
            let why = failure.detail();
            let asked = match failure.exit() {
                1 => "the instance did not tell of its own",
                _ => "no instance was asked",
            };
            let hint = format!("only those that come with Ballast; {asked}: {why}");
            screen.hint(&screen.dim(&hint));
        }
    }
    Ok(Verdict::Done)
}

async fn asked(remote: Result<Remote, Failure>, paging: &Paging) -> Result<Reply, Failure> {
    let request = Request::get(&["workflows"]);
    remote?.client.list(request, paging, PAGE_ITEMS_MAX).await
}

fn built_in(screen: &Screen) -> Result<(), Failure> {
    let known: Vec<(BuiltIn, Definition)> = definitions::ALL
        .into_iter()
        .filter_map(|known| Some((known, known.definition().ok()?)))
        .collect();
    if !screen.json {
        return screen.data(workflows::built_in(screen, &known).as_bytes());
    }
    let item = |(known, definition): &(BuiltIn, Definition)| {
        json!({"workflow": known.name, "name": known.name, "builtIn": true,
            "comment": definition.comment(), "startAt": definition.start_at()})
    };
    let items: Vec<Value> = known.iter().map(item).collect();
    tell(screen, &json!({ "items": items }))
}
