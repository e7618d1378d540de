//! `placement preview`: which tenants would move after a change of the fleet.

use ballast_domain::bounds::PREVIEW_ITEMS_MAX;
use clap::Subcommand;
use serde_json::json;

use super::args::{PagingArgs, parse_weight};
use super::client::Request;
use super::failure::CliError;
use super::shard::NewShardArgs;
use super::view::{self, preview::PreviewKind};
use super::{Remote, help};

/// How many moves are shown by default.
const MOVES_SHOWN: u32 = 10;

/// Changes of the fleet.
#[derive(Debug, Subcommand)]
pub(crate) enum PreviewCommand {
    /// If a shard were added
    #[command(after_help = help::PREVIEW_ADD)]
    Add {
        #[command(flatten)]
        shard: NewShardArgs,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// If a shard were removed or drained
    #[command(after_help = help::PREVIEW_REMOVE)]
    Remove {
        /// The shard
        id: String,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// If a shard had another weight
    #[command(after_help = help::PREVIEW_WEIGHT)]
    Weight {
        /// The shard
        id: String,
        /// The weight it would have
        #[arg(value_parser = parse_weight, allow_negative_numbers = true)]
        weight: f64,
        #[command(flatten)]
        paging: PagingArgs,
    },
}

impl PreviewCommand {
    pub(crate) async fn run(self, remote: &Remote) -> Result<(), CliError> {
        let (body, paging) = match self {
            Self::Add { shard, paging } => (json!({ "add": shard.fields().value() }), paging),
            Self::Remove { id, paging } => (json!({ "remove": id }), paging),
            Self::Weight { id, weight, paging } => (
                json!({ "weight": { "shardID": id, "weight": weight } }),
                paging,
            ),
        };
        let request = Request::post(&["placement", "preview"]).body(body);
        show_preview(remote, request, &paging, PreviewKind::Change).await
    }
}

/// Sends the request and shows the preview.
pub(crate) async fn show_preview(
    remote: &Remote,
    request: Request,
    paging: &PagingArgs,
    question: PreviewKind,
) -> Result<(), CliError> {
    let mut paging = paging.clone();
    if !remote.screen.json && !paging.all {
        paging.limit.get_or_insert(MOVES_SHOWN);
    }
    let reply = remote
        .client
        .list(request, &paging, PREVIEW_ITEMS_MAX)
        .await?;
    view::show(&remote.screen, &reply, |screen, preview_body| {
        view::preview::preview_text(screen, preview_body, question)
    })
}
