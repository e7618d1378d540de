//! The progress of a drain: how many tenants have moved away, and how long the shard
//! still holds copies.

use ballast_control_plane::ControlPlane;
use ballast_control_plane::drains::drain::DrainState;
use ballast_control_plane::migrations::{self, MigrationFilter};
use ballast_control_plane::workflows::executions;
use ballast_domain::migration::{Migration, MigrationStage};
use ballast_domain::{Result, ShardId, Timestamp};
use maud::{Markup, html};

use crate::page::format::{moment, number, progress};

/// Migrations read, newest first.
const MIGRATIONS_READ: u32 = 500;

/// The progress of a drain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DrainProgress {
    /// Slices that have moved away since the drain began.
    gone: u64,
    /// Slices that the shard still owns.
    left: u64,
    /// Copies of moved slices that the shard still holds.
    copies: u64,
    /// When the last migration window ends.
    until: Option<Timestamp>,
}

/// The drain's progress; `None` if no drain is running.
pub(super) async fn load_progress(
    plane: &ControlPlane,
    id: &ShardId,
    standing: &DrainState,
) -> Result<Option<DrainProgress>> {
    let Some(execution) = &standing.execution_id else {
        return Ok(None);
    };
    let began = executions::get(plane, execution).await?.summary.started_at;
    let filter = MigrationFilter {
        from: Some(id.clone()),
        ..MigrationFilter::default()
    };
    let moves = migrations::list(plane, &filter, None, MIGRATIONS_READ).await?;
    let moves = moves.iter().map(|body| &body.migration.value);
    Ok(Some(DrainProgress::from_migrations(
        standing.slices_left,
        began,
        moves,
    )))
}

impl DrainProgress {
    fn from_migrations<'a>(
        left: u64,
        began: Timestamp,
        moves: impl Iterator<Item = &'a Migration>,
    ) -> Self {
        let mut drained = Self {
            left,
            ..Self::default()
        };
        for moved in moves {
            let Some(cut_over) = moved.figures.cut_over_at else {
                continue;
            };
            let back = moved.asked.back.is_some();
            drained.gone += u64::from(moved.requested_at >= began && !back);
            if moved.stage == MigrationStage::CutOver && !back {
                let window = i64::try_from(moved.terms.window_ms).unwrap_or(i64::MAX);
                let end = Timestamp::from_unix_ms(cut_over.unix_ms().saturating_add(window));
                drained.copies += 1;
                drained.until = drained.until.max(Some(end));
            }
        }
        drained
    }

    pub(super) fn show(&self, now: Timestamp) -> Markup {
        let all = self.gone + self.left;
        let percent = self.gone.saturating_mul(100).checked_div(all);
        let label = format!("{} of {all} tenants moved", self.gone);
        html! {
            (progress(self.gone, all, &label))
            p class="small" {
                strong { (number(self.gone)) " of " (number(all)) " tenants moved"
                    @if let Some(percent) = percent { ", " (percent) " %" } }
                @if self.copies > 0 {
                    "; the shard keeps copies of " (number(self.copies)) " until their migration windows end"
                    @if let Some(until) = self.until { ", the last " (moment(until, now)) }
                    ". It can be removed after that"
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_share_moved_and_the_copies_kept() {
        let at = Timestamp::from_unix_ms;
        let drained = DrainProgress {
            gone: 12,
            left: 28,
            copies: 9,
            until: Some(at(7_200_000)),
        };
        let shown = drained.show(at(0)).into_string();
        assert!(shown.contains("12 of 40 tenants moved, 30 %"), "{shown}");
        assert!(shown.contains("keeps copies of 9") && shown.contains("in 2 h"));
        let nothing = DrainProgress::from_migrations(3, at(0), std::iter::empty());
        assert!(nothing.show(at(0)).into_string().contains("0 of 3 tenants"));
    }
}
