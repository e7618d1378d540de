//! A poll's results for anyone who has the link. The link is sealed: it names
//! one poll, cannot be made or changed by others, ends, and can be taken back.

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::shares::{self, Share};
use ballast_domain::token::Role;
use ballast_domain::{Error, ErrorCode, PollId, Result, TenantId};
use maud::html;
use serde::{Deserialize, Serialize};

use super::{names, poll, polls};
use crate::act::Act;
use crate::console::Console;
use crate::live::{Right, streamed};
use crate::page::error::Broken;
use crate::page::flash::{done, shown_once};
use crate::page::layout;
use crate::session::Purpose;

/// Days that a link may work.
const DAYS_MAX: i64 = 3_650;

/// What a link says.
#[derive(Debug, Serialize, Deserialize)]
struct Ticket {
    /// Which link: it is written down, so that it can be taken back.
    share: String,
}

/// Makes a link, which is shown once on the poll's page.
pub(super) async fn make(
    State(console): State<Console>,
    Path((tenant, poll)): Path<(String, String)>,
    act: Act,
) -> Result<Response, Broken> {
    act.visitor.at_least(Role::Operator)?;
    let (tenant, poll): (TenantId, PollId) = (names::named(&tenant)?, names::named(&poll)?);
    polls::one(&console, &tenant, poll).await?;
    let days: i64 = act.fields.required("days")?;
    if !(1..=DAYS_MAX).contains(&days) {
        let message = format!("it must be from 1 to {DAYS_MAX}");
        return Err(Error::invalid_field("/days", message).into());
    }
    let plane = &console.plane;
    let seconds = days.saturating_mul(86_400);
    let share = shares::make(plane, &act.intent()?, &tenant, poll, seconds).await?;
    let ticket = Ticket {
        share: share.share_id,
    };
    let sealed = console.seal.seal(Purpose::Share, &ticket, plane.entropy());
    let sealed = sealed.ok_or_else(|| Error::internal("make a link", "it could not be sealed"))?;
    let link = format!("{}/console/share/{sealed}", console.settings.public_url);
    let said =
        format!("Works for {days} days. Whoever has it sees these results, and nothing else.");
    let to = format!("/console/polls/{tenant}/{poll}");
    Ok(shown_once(&console, &to, said, link))
}

/// Takes a link back.
pub(super) async fn remove(
    State(console): State<Console>,
    Path((tenant, poll, share)): Path<(String, String, String)>,
    act: Act,
) -> Result<Response, Broken> {
    act.visitor.at_least(Role::Operator)?;
    let (tenant, poll): (TenantId, PollId) = (names::named(&tenant)?, names::named(&poll)?);
    shares::remove(&console.plane, &act.intent()?, (&tenant, poll), &share).await?;
    let to = format!("/console/polls/{tenant}/{poll}");
    Ok(done(&console, &to, "The link works no more."))
}

async fn opened(console: &Console, ticket: &str) -> Result<Share> {
    let ticket: Option<Ticket> = console.seal.open(Purpose::Share, ticket);
    let found = match ticket {
        Some(ticket) => shares::find(&console.plane, &ticket.share).await?,
        None => None,
    };
    found.ok_or_else(|| {
        let error = Error::new(
            ErrorCode::NotFound,
            "this link does not work, or works no more",
        );
        error.next("Ask whoever gave it to you for a new one.")
    })
}

/// The results.
pub(super) async fn show(
    State(console): State<Console>,
    Path(sealed): Path<String>,
) -> Result<Response, Broken> {
    let share = opened(&console, &sealed).await?;
    let found = polls::one(&console, &share.tenant_id, share.poll_id).await?;
    let now = console.plane.now();
    let main = html! {
        section class="card wide" aria-labelledby="title" {
            div class="head" { h1 id="title" { bdi { (polls::title(&found.poll)) } } (polls::phase(&found.poll, now)) }
            div id="poll-results" { (poll::results(&found, now, false)) }
        }
    };
    let stream = format!("/console/share/{sealed}/live");
    Ok(layout::shared(&polls::title(&found.poll), &stream, &main))
}

/// The results as they change.
pub(super) async fn live(
    State(console): State<Console>,
    Path(sealed): Path<String>,
) -> Result<Response, Broken> {
    let share = opened(&console, &sealed).await?;
    let source = poll::Live::new(&console, share.tenant_id, share.poll_id, false);
    streamed(&console, Right::Link(share.share_id), source)
}
