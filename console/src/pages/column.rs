//! A shard as a column of the fleet: its tenants as blocks, how hot and how
//! full it is, and when it will be full.

use ballast_domain::shard::Shard;
use maud::{Markup, html};

use super::fleet::state;
use super::names;
use crate::ahead::Full;
use crate::census::{Heat, ShardFigures};
use crate::draw::blocks::{Size, blocks};
use crate::page::words::{badge, bar, bytes, number, short};

/// From here on a shard is drawn as hot, in percent of what it can do.
const HOT: u64 = 80;

/// What a column is drawn from.
pub(super) struct Column<'a> {
    pub(super) shard: &'a Shard,
    pub(super) figures: &'a ShardFigures,
    pub(super) slices: u64,
    /// The hotspot that is open for it.
    pub(super) hotspot: Option<&'a str>,
    /// What is foreseen; `None` until it is worked out.
    pub(super) ahead: Option<&'a Full>,
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
                    (names::shard(&shard.shard_id))
                    @if let Some(id) = self.hotspot {
                        a class="badge bad" href=(format!("/console/hotspots/{id}")) { "hotspot" }
                    } @else if hot { (badge("bad", "hot")) }
                    (state(shard, figures.trouble.is_some()))
                }
                @if let Some(trouble) = &figures.trouble {
                    // Of what cannot be looked at nothing is known: no figure
                    // stands for that.
                    p class="note bad small" { "It cannot be read: " (trouble) }
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
                    (warmth(heat))
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

/// How hot it is, by the load that is measured.
fn warmth(heat: Option<&Heat>) -> Markup {
    html! {
        @match heat {
            Some(heat) => {
                @let label = format!("{} % of what it can do", heat.percent);
                (bar(heat.percent, 100, &label))
                div class="sub" {
                    span { (heat.percent) " % of what it can do" }
                    @if let (Some(fullest), 1..) = (heat.fullest, heat.percent) { span { (fullest) } }
                }
            }
            None => { div class="sub" { "Its load is not known yet" } }
        }
    }
}
