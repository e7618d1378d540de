//! The protocol of a move, checked exhaustively within bounds.
//!
//! ```text
//!   world     what there is: the record, two shards, routers, clients,
//!             workers, and what is on its way between them
//!   happen    everything that can happen to a world, and what it becomes
//!   claims    what must be true of every world (INV-n)
//!   rules     the protocol as it is, or with one rule broken, to see that
//!             the claims notice
//! ```
//! What decides is the production code: [`next`](ballast_migration_engine::protocol::next),
//! the record's transitions, and the shards' [`Fence`](ballast_vote_shard::shard::Fence).
//! Around it the model may delay, repeat, reorder and lose every message, stop
//! a worker at any moment and have another take over while the first one's
//! messages are still on their way, and let routers believe what was true long
//! ago.

mod claims;
mod happen;
mod rules;
mod world;

pub use claims::Claim;
pub use happen::{Bounds, Happening, MoveModel};
pub use rules::Rule;
pub use world::{Client, Faults, Shard, World};
