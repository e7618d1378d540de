//! Polls every shard once a second for its open polls' counts: votes per tenant, and
//! the rate since the previous round.
//!
//! ```text
//!   every shard's open counts ──► count (pure) ──► FleetFigures: sums, the largest
//!                                                          tenants, the hottest polls
//! ```
//! Pages render the newest [`FleetFigures`] and never query shards themselves, so a
//! page's cost does not depend on the number of tenants or viewers. A round's cost
//! grows with the number of open polls; when rounds take long, they run less often.
//! A shard's heat comes from the control plane's load measurements, which know the
//! shard's capacity.

mod count;
mod series;
mod task;

pub(crate) use count::{FleetFigures, Heat, PollFigure, ShardFigures, TenantFigure};
pub(crate) use series::RateSample;
pub(crate) use task::Census;
