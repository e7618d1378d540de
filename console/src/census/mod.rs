//! What is on every shard, looked at once a second: how many votes each
//! tenant's open polls have, and how many came since the last look.
//!
//! ```text
//!   every shard's open counts ──► count (pure) ──► Fleet: sums, the largest
//!                                                  tenants, the hottest polls
//! ```
//! Pages draw from the newest [`Fleet`] and never ask shards themselves, so a
//! page costs the same however many tenants there are and however many people
//! look. Looking takes as long as there are open polls; when it takes long, it
//! is done less often. How hot a shard is comes from the load that the control
//! plane measures, which knows what a shard can do.

mod count;
mod keep;
mod series;

pub(crate) use count::{Fleet, Heat, PollFigure, ShardFigures, TenantFigure};
pub(crate) use keep::Census;
pub(crate) use series::Sample;
