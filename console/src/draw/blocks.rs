//! The tenants of a shard as blocks, sized by votes and coloured by vote rate relative to
//! the shard's capacity.

use maud::{Markup, html};

use super::treemap::{Area, treemap};
use crate::census::{Heat, ShardFigures};
use crate::page::format::{counted, number, to_f64};

/// The size of the drawing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Size {
    /// One of many columns.
    Column,
    /// A single large drawing.
    Large,
}

impl Size {
    fn whole(self) -> Area {
        let (width, height) = match self {
            Self::Column => (240.0, 220.0),
            Self::Large => (480.0, 400.0),
        };
        Area {
            x: 0.0,
            y: 0.0,
            width,
            height,
        }
    }
}

/// The weight of a block without votes, so that it is visible.
const LEAST: f64 = 1.0;
/// Blocks of at least this size show their tenant's name.
const NAMED_WIDTH: f64 = 52.0;
const NAMED_HEIGHT: f64 = 16.0;
/// The approximate width of a letter.
const LETTER: f64 = 6.2;
/// Number of heat steps.
const HEATS: u32 = 7;

/// The heat step of a vote rate. If the shard's capacity is known, by the share of it:
/// half of the capacity is the hottest step. Otherwise logarithmic with a factor of four,
/// so that one tenant in a flash crowd stands out among thousands.
pub(crate) fn heat(rate: u64, shard: Option<&Heat>) -> u32 {
    if rate == 0 {
        return 0;
    }
    let most = shard.map_or(0, |heat| heat.votes_max);
    let Some(part) = rate.saturating_mul(1_000).checked_div(most) else {
        return (1 + rate.ilog2() / 2).min(HEATS);
    };
    match part {
        500.. => HEATS,
        300.. => 6,
        200.. => 5,
        100.. => 4,
        50.. => 3,
        20.. => 2,
        _ => 1,
    }
}

/// The blocks of a shard.
pub(crate) fn blocks(shard: &str, figures: &ShardFigures, size: Size) -> Markup {
    let others = (figures.others > 0).then_some(figures.others_votes.max(figures.others));
    let weights: Vec<f64> = figures
        .tenants
        .iter()
        .map(|tenant| tenant.votes)
        .chain(others)
        .map(|votes| to_f64(votes) + LEAST)
        .collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let weight = |place: &usize| weights.get(*place).copied().unwrap_or(0.0);
    order.sort_by(|one, two| weight(two).total_cmp(&weight(one)));
    let sorted: Vec<f64> = order.iter().map(weight).collect();
    let whole = size.whole();
    let areas = treemap(&sorted, whole);
    let label = format!(
        "{shard}: {} with open polls, {}, {} per second",
        counted(figures.tenants.len() as u64 + figures.others, "tenant"),
        counted(figures.votes, "vote"),
        counted(figures.rate, "vote")
    );
    html! {
        svg class="blocks" viewBox=(format!("0 0 {} {}", whole.width, whole.height)) role="group" aria-label=(label) {
            @for (place, area) in order.iter().zip(&areas) {
                (block(figures, *place, area))
            }
        }
    }
}

fn block(figures: &ShardFigures, place: usize, area: &Area) -> Markup {
    let tenant = figures.tenants.get(place);
    let (name, votes, rate) = match tenant {
        Some(tenant) => (tenant.tenant.to_string(), tenant.votes, tenant.rate),
        None => (
            counted(figures.others, "other"),
            figures.others_votes,
            figures.others_rate,
        ),
    };
    let tooltip = format!(
        "{name} · {} · {} per second",
        counted(votes, "vote"),
        number(rate)
    );
    // The summed tenants get the heat of their average.
    let heat = match tenant {
        Some(_) => heat(rate, figures.heat.as_ref()),
        None => heat(rate / figures.others.max(1), figures.heat.as_ref()),
    };
    let class = match tenant {
        Some(_) => format!("h{heat}"),
        None => format!("others h{heat}"),
    };
    let fits = area.width >= NAMED_WIDTH && area.height >= NAMED_HEIGHT;
    let letters = (area.width - 8.0) / LETTER;
    let drawn = html! {
        rect class=(class) x=(unit(area.x + 0.5)) y=(unit(area.y + 0.5))
            width=(unit(area.width - 1.0)) height=(unit(area.height - 1.0)) rx="2" {}
        @if fits {
            text x=(unit(area.x + 5.0)) y=(unit(area.y + 12.5)) class=(format!("on{heat}")) {
                (truncate(&name, letters))
            }
        }
    };
    let page = tenant.map(|tenant| format!("/console/tenants/{}", tenant.tenant));
    html! {
        @match page {
            // Only blocks with a visible name are in the tab order: stepping through
            // thousands of tiny blocks would be useless. The accessible name must
            // contain the visible text.
            Some(page) if fits => {
                a href=(page) data-tip=(tooltip) aria-label=[(truncate(&name, letters) == name).then_some(&tooltip)] { (drawn) }
            }
            page => { g data-tip=(tooltip) data-href=[page] aria-hidden="true" { (drawn) } }
        }
    }
}

fn unit(value: f64) -> String {
    format!("{:.1}", value.max(0.2))
}

/// Truncates a name to the available width.
fn truncate(name: &str, letters: f64) -> String {
    let mut out = String::new();
    let mut room = letters;
    for letter in name.chars() {
        room -= 1.0;
        if room < 1.0 {
            out.push('…');
            break;
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::TenantFigure;

    #[test]
    fn heat_grows_with_the_rate() {
        assert_eq!(
            [0, 1, 3, 4, 16, 1_000, u64::MAX].map(|rate| heat(rate, None)),
            [0, 1, 1, 2, 3, 5, 7]
        );
        let shard = Heat {
            percent: 90,
            fullest: Some("votes"),
            votes_max: 1_000,
        };
        assert_eq!(
            [0, 1, 20, 60, 150, 250, 310, 500, u64::MAX].map(|rate| heat(rate, Some(&shard))),
            [0, 1, 2, 3, 4, 5, 6, 7, 7]
        );
    }

    #[test]
    fn every_tenant_has_a_block_and_the_rest_has_one() {
        let tenant = |name: &str, votes| TenantFigure {
            tenant: name.parse().unwrap(),
            votes,
            rate: 0,
        };
        let figures = ShardFigures {
            tenants: vec![tenant("large", 1_000), tenant("small", 0)],
            others: 3,
            others_votes: 10,
            ..ShardFigures::default()
        };
        let drawn = blocks("shard-1", &figures, Size::Column).into_string();
        assert_eq!(drawn.matches("<rect").count(), 3);
        assert!(drawn.contains("large · 1,000 votes"));
        assert!(drawn.contains("3 others"));
        assert!(drawn.contains("data-href=\"/console/tenants/small\""));
        assert!(drawn.contains("<a href=\"/console/tenants/large\""));
    }
}
