//! A shard as a column on the fleet page: its tenants as blocks, its heat, its
//! density, and when it is expected to be full.

use ballast_domain::shard::Shard;
use maud::{Markup, html};

use super::fleet::state;
use super::links;
use crate::census::{Heat, ShardFigures};
use crate::draw::blocks::{Size, blocks};
use crate::forecasts::FullForecast;
use crate::page::format::{badge, bar, bytes, number, short};

/// The heat from which a shard is shown as hot, in percent of capacity.
const HOT: u64 = 80;

/// The data of one column.
pub(super) struct Column<'a> {
    pub(super) shard: &'a Shard,
    pub(super) figures: &'a ShardFigures,
    pub(super) slices: u64,
    /// The shard's open hotspot.
    pub(super) hotspot: Option<&'a str>,
    /// The forecast; `None` until it has been computed.
    pub(super) ahead: Option<&'a FullForecast>,
}

impl Column<'_> {
    pub(super) fn show(&self) -> Markup {
        let Self { shard, figures, .. } = self;
        let heat = figures.heat.as_ref();
        let hot = self.hotspot.is_some() || heat.is_some_and(|heat| heat.percent >= HOT);
        let class = if hot {
            "card column hot"
        } else {
            "card column"
        };
        html! {
            article class=(class) aria-label=(shard.shard_id) {
                header {
                    (links::shard(&shard.shard_id))
                    @if let Some(id) = self.hotspot {
                        a class="badge bad" href=(format!("/console/hotspots/{id}")) { "hotspot" }
                    } @else if hot { (badge("bad", "hot")) }
                    (state(shard, figures.trouble.is_some()))
                }
                @if let Some(trouble) = &figures.trouble {
                    // No figures are known of a shard that cannot be read.
                    p class="note bad small" { "Cannot be read: " (trouble) }
                    div class="sub" {
                        span { (short(self.slices)) " of " (short(shard.max_slices)) " slices" }
                        span { "weight " (shard.weight) }
                    }
                } @else {
                    div class="sub" {
                        span class="rate" { (number(figures.rate)) " " small { "votes/s" } }
                        span { "weight " (shard.weight) }
                    }
                    (blocks(shard.shard_id.as_str(), figures, Size::Column))
                    (heat_bar(heat))
                    (self.density())
                }
                @if let Some(full) = self.ahead {
                    div class=(if full.is_near() { "sub near" } else { "sub" }) { (full.words()) }
                }
            }
        }
    }

    fn density(&self) -> Markup {
        let (slices, most) = (self.slices, self.shard.max_slices);
        let label = format!("{} of {} slices", number(slices), number(most));
        html! {
            (bar(slices, most, &label))
            div class="sub" {
                span { (short(slices)) " of " (short(most)) " slices" }
                span { (bytes(self.figures.usage.disk_bytes)) }
            }
        }
    }
}

/// The shard's measured heat.
fn heat_bar(heat: Option<&Heat>) -> Markup {
    html! {
        @match heat {
            Some(heat) => {
                @let label = format!("{} % of capacity", heat.percent);
                (bar(heat.percent, 100, &label))
                div class="sub" {
                    span { (heat.percent) " % of capacity" }
                    @if let (Some(fullest), 1..) = (heat.fullest, heat.percent) { span { (fullest) } }
                }
            }
            None => { div class="sub" { "Load not measured yet" } }
        }
    }
}
