//! How far the emptying of a shard is: how many of how many slices have left,
//! and until when it still holds copies.

use ballast_control_plane::ControlPlane;
use ballast_control_plane::drains::drain::Standing;
use ballast_control_plane::migrations::{self, MigrationFilter};
use ballast_control_plane::workflows::executions;
use ballast_domain::migration::{Migration, Stage};
use ballast_domain::{Result, ShardId, Timestamp};
use maud::{Markup, html};

use crate::page::words::{moment, number, progress};

/// Moves that are looked at, the newest first.
const LOOKED_AT: u32 = 500;

/// How far it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Emptying {
    /// Slices that have left since it began.
    gone: u64,
    /// Slices that it still owns.
    left: u64,
    /// Of those that have left, how many copies it still holds.
    copies: u64,
    /// When the last of their windows is over.
    until: Option<Timestamp>,
}

/// How far it is; `None` while nobody empties it.
pub(super) async fn look(
    plane: &ControlPlane,
    id: &ShardId,
    standing: &Standing,
) -> Result<Option<Emptying>> {
    let Some(execution) = &standing.execution_id else {
        return Ok(None);
    };
    let began = executions::get(plane, execution).await?.summary.started_at;
    let filter = MigrationFilter {
        from: Some(id.clone()),
        ..MigrationFilter::default()
    };
    let moves = migrations::list(plane, &filter, None, LOOKED_AT).await?;
    let moves = moves.iter().map(|body| &body.migration.value);
    Ok(Some(Emptying::of(standing.slices_left, began, moves)))
}

impl Emptying {
    fn of<'a>(left: u64, began: Timestamp, moves: impl Iterator<Item = &'a Migration>) -> Self {
        let mut told = Self {
            left,
            ..Self::default()
        };
        for moved in moves {
            let Some(cut_over) = moved.figures.cut_over_at else {
                continue;
            };
            let back = moved.asked.back.is_some();
            told.gone += u64::from(moved.requested_at >= began && !back);
            if moved.stage == Stage::CutOver && !back {
                let window = i64::try_from(moved.terms.window_ms).unwrap_or(i64::MAX);
                let end = Timestamp::from_unix_ms(cut_over.unix_ms().saturating_add(window));
                told.copies += 1;
                told.until = told.until.max(Some(end));
            }
        }
        told
    }

    pub(super) fn show(&self, now: Timestamp) -> Markup {
        let all = self.gone + self.left;
        let percent = self.gone.saturating_mul(100).checked_div(all);
        let label = format!("{} of {all} slices have left", self.gone);
        html! {
            (progress(self.gone, all, &label))
            p class="small" {
                strong { (number(self.gone)) " of " (number(all)) " slices have left"
                    @if let Some(percent) = percent { ", " (percent) " %" } }
                @if self.copies > 0 {
                    "; of " (number(self.copies)) " it keeps a copy until their windows are over"
                    @if let Some(until) = self.until { ", the last " (moment(until, now)) }
                    ": it can be removed only then"
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_of_how_many_and_until_when() {
        let at = Timestamp::from_unix_ms;
        let told = Emptying {
            gone: 12,
            left: 28,
            copies: 9,
            until: Some(at(7_200_000)),
        };
        let shown = told.show(at(0)).into_string();
        assert!(shown.contains("12 of 40 slices have left, 30 %"), "{shown}");
        assert!(shown.contains("of 9 it keeps a copy") && shown.contains("in 2 h"));
        let nothing = Emptying::of(3, at(0), std::iter::empty());
        assert!(nothing.show(at(0)).into_string().contains("0 of 3 slices"));
    }
}
