//! A poll's results for anyone who has the link. The link is encrypted and
//! authenticated, names one poll, expires, and can be revoked.

use axum::extract::{Path, State};
use axum::response::Response;
use ballast_control_plane::shares::{self, Share};
use ballast_domain::token::AdminRole;
use ballast_domain::{Error, ErrorCode, PollId, Result, TenantId};
use maud::html;
use serde::{Deserialize, Serialize};

use super::{links, poll, polls};
use crate::console::Console;
use crate::form_submission::FormSubmission;
use crate::live::{ViewerAccess, stream_updates};
use crate::page::error::ErrorPage;
use crate::page::flash::{redirect_with_message, redirect_with_secret};
use crate::page::format::counted;
use crate::page::layout;
use crate::session::Purpose;

/// The longest lifetime of a link, in days.
const DAYS_MAX: i64 = 3_650;

/// The content of a link.
#[derive(Debug, Serialize, Deserialize)]
struct ShareTicket {
    /// The ID of the share's record, by which it is revoked.
    share: String,
}

/// Creates a link, which is shown once on the poll's page.
pub(super) async fn make(
    State(console): State<Console>,
    Path((tenant, poll)): Path<(String, String)>,
    act: FormSubmission,
) -> Result<Response, ErrorPage> {
    act.visitor.at_least(AdminRole::Operator)?;
    let (tenant, poll): (TenantId, PollId) =
        (links::parse_path_id(&tenant)?, links::parse_path_id(&poll)?);
    polls::one(&console, &tenant, poll).await?;
    let days: i64 = act.fields.required("days")?;
    if !(1..=DAYS_MAX).contains(&days) {
        let message = format!("must be from 1 to {DAYS_MAX}");
        return Err(Error::invalid_field("/days", message).into());
    }
    let plane = &console.plane;
    let seconds = days.saturating_mul(86_400);
    let share = shares::create(plane, &act.intent()?, &tenant, poll, seconds).await?;
    let ticket = ShareTicket {
        share: share.share_id,
    };
    let sealed = console
        .cipher
        .encrypt(Purpose::Share, &ticket, plane.entropy());
    let sealed = sealed.ok_or_else(|| Error::internal("create a link", "encryption failed"))?;
    let link = format!("{}/console/share/{sealed}", console.settings.public_url);
    let message = format!(
        "Expires after {}. Anyone who has the link sees these results, and nothing else.",
        counted(days.unsigned_abs(), "day")
    );
    let to = format!("/console/polls/{tenant}/{poll}");
    Ok(redirect_with_secret(&console, &to, message, link))
}

/// Revokes a link.
pub(super) async fn remove(
    State(console): State<Console>,
    Path((tenant, poll, share)): Path<(String, String, String)>,
    act: FormSubmission,
) -> Result<Response, ErrorPage> {
    act.visitor.at_least(AdminRole::Operator)?;
    let (tenant, poll): (TenantId, PollId) =
        (links::parse_path_id(&tenant)?, links::parse_path_id(&poll)?);
    shares::remove(&console.plane, &act.intent()?, (&tenant, poll), &share).await?;
    let to = format!("/console/polls/{tenant}/{poll}");
    Ok(redirect_with_message(&console, &to, "The link is removed."))
}

async fn load_share(console: &Console, ticket: &str) -> Result<Share> {
    let ticket: Option<ShareTicket> = console.cipher.decrypt(Purpose::Share, ticket);
    let found = match ticket {
        Some(ticket) => shares::find(&console.plane, &ticket.share).await?,
        None => None,
    };
    found.ok_or_else(|| {
        let error = Error::new(
            ErrorCode::NotFound,
            "this link is invalid, expired or was removed",
        );
        error.with_next_step("Ask the person who gave it to you for a new link.")
    })
}

/// The results page.
pub(super) async fn show(
    State(console): State<Console>,
    Path(sealed): Path<String>,
) -> Result<Response, ErrorPage> {
    let share = load_share(&console, &sealed).await?;
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

/// Live updates of the results.
pub(super) async fn live(
    State(console): State<Console>,
    Path(sealed): Path<String>,
) -> Result<Response, ErrorPage> {
    let share = load_share(&console, &sealed).await?;
    let source = poll::PollResultsSource::new(&console, share.tenant_id, share.poll_id, false);
    stream_updates(&console, ViewerAccess::Link(share.share_id), source)
}
