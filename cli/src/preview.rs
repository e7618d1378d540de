//! `placement preview`: who would move if the fleet were changed so.

use ballast_domain::bounds::PREVIEW_ITEMS_MAX;
use clap::Subcommand;
use serde_json::json;

use super::args::{Paging, weight};
use super::client::Request;
use super::failure::Failure;
use super::shard::NewShard;
use super::view::{self, preview::Question};
use super::{Remote, help};

/// How many moves a person is shown unless more are asked for.
const MOVES_SHOWN: u32 = 10;

/// Which change of the fleet.
#[derive(Debug, Subcommand)]
pub(crate) enum PreviewCommand {
    /// If a shard were added
    #[command(after_help = help::PREVIEW_ADD)]
    Add {
        #[command(flatten)]
        shard: NewShard,
        #[command(flatten)]
        paging: Paging,
    },
    /// If a shard were removed or drained
    #[command(after_help = help::PREVIEW_REMOVE)]
    Remove {
        /// The shard
        id: String,
        #[command(flatten)]
        paging: Paging,
    },
    /// If a shard had another weight
    #[command(after_help = help::PREVIEW_WEIGHT)]
    Weight {
        /// The shard
        id: String,
        /// The weight it would have
        #[arg(value_parser = weight, allow_negative_numbers = true)]
        weight: f64,
        #[command(flatten)]
        paging: Paging,
    },
}

impl PreviewCommand {
    pub(crate) async fn run(self, remote: &Remote) -> Result<(), Failure> {
        let (body, paging) = match self {
            Self::Add { shard, paging } => (json!({ "add": shard.fields().value() }), paging),
            Self::Remove { id, paging } => (json!({ "remove": id }), paging),
            Self::Weight { id, weight, paging } => (
                json!({ "weight": { "shardID": id, "weight": weight } }),
                paging,
            ),
        };
        let request = Request::post(&["placement", "preview"]).body(body);
        shown(remote, request, &paging, Question::Preview).await
    }
}

/// Asks, and shows the answer.
pub(crate) async fn shown(
    remote: &Remote,
    request: Request,
    paging: &Paging,
    question: Question,
) -> Result<(), Failure> {
    let mut paging = paging.clone();
    if !remote.screen.json && !paging.all {
        paging.limit.get_or_insert(MOVES_SHOWN);
    }
    let reply = remote
        .client
        .list(request, &paging, PREVIEW_ITEMS_MAX)
        .await?;
    view::show(&remote.screen, &reply, |screen, told| {
        view::preview::text(screen, told, question)
    })
}
