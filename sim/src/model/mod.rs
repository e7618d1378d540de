//! The migration protocol, checked exhaustively within bounds.
//!
//! ```text
//!   world        the state: the record, two shards, clients, workers, and messages in flight
//!   small        the product's types as a few bytes, and calls into the product
//!   happen       every event that can happen to a world
//!   act          what workers do next
//!   arrive       the effect of a message that arrives
//!   forget       drops state that no longer matters
//!   calm         checks that every world comes to rest
//!   invariants   what must be true of every world (INV-n)
//!   rules        the protocol as shipped, or with one rule broken, which the
//!                invariants must notice
//! ```
//! The production code decides: [`next_action`](ballast_migration_engine::protocol::next_action),
//! the record's transitions, and the shards' [`Fence`](ballast_vote_shard::shard::Fence).
//!
//! # What can happen, and why so few events cover it
//!
//! Only a small state space can be explored exhaustively. So the model contains each
//! failure in its worst form, which covers the weaker forms, or expresses it through
//! events that happen anyway.
//!
//! - **Routers**: any number, each arbitrarily stale. A vote can arrive at any moment at
//!   any shard, with any epoch at which the record ever named that shard the owner. This
//!   covers a router that never learned of a change as well as a vote that was delayed
//!   on its way. So the model needs no routers.
//! - **Retries, repeated and lost votes**: a vote can arrive again at any moment. A lost
//!   vote is one that does not arrive; a refused vote changes nothing. An accepted vote
//!   counts as acknowledged at once, which demands the most of the shards: if its answer
//!   was lost, the client retries, and that is a vote that arrives again. (`calm` checks
//!   that the retry is answered.)
//! - **Intents**: at every observation a worker can have any intent, and two workers can
//!   have different ones. So rollback and reverse are possible wherever the protocol
//!   allows them. The bounds limit what they lead to: migrations that start, forward or
//!   reverse, and postponed seals.
//! - **Takeover**: all workers run from the start, each with a later lease than the one
//!   before, and none knows of the others. This covers every moment at which a worker is
//!   declared dead. A worker's message is in flight for arbitrarily long, so every
//!   message can be late and reordered.
//! - **Worker crashes, lost or refused messages**: a worker keeps nothing between two
//!   observations, so this is as if it had not observed. **A worker that crashes or gives
//!   up while its message is in flight, or a repeated message**: the message becomes a
//!   *stray* without a sender, which can arrive at any time, any number of times, or
//!   never. The bounds limit the number of strays.
//! - **A shard or the registry crashes and restarts**: durable state stays, messages in
//!   flight are lost, and an answer can be lost: a message that does not arrive, or one
//!   that arrives and whose sender observes again. Both happen anyway. That acknowledged
//!   writes are durable is shown elsewhere, by the engine's conformance suite and by the
//!   simulation's disks.
//! - **An owner is abandoned**: in its worst form, it is still reachable. The workers that
//!   abandon it do not read it; but routers vote there, workers reach it, messages arrive,
//!   and it learns of it at any time or never. Writes that only it has no longer count as
//!   acknowledged, and its later writes never do. (A damaged copy that is being repaired
//!   when its owner is lost is two failures at once: no bounds have both, and the
//!   certificate counts what is there.)
//! - **A copy is left** (`leaves`) because its shard could not be reached to remove it: by any
//!   worker, at any time, whether the shard is reachable or not. The shard learns of it at any
//!   later time, or never.
//! - **Both sides acknowledge** (`sync`): a write that the owner has accepted is
//!   acknowledged when a router has copied it to the other side (`Mirror`), at any time,
//!   by any router, as long as the other side accepts it; or at once, by a router that
//!   ever learned that the owner alone acknowledges. Any worker can record that at any
//!   time. If the abandoned owner's record asks for both, every acknowledged write still
//!   counts.
//! - **Observing takes time**: with `torn`, a worker reads the record first and the shards
//!   later.
//! - **The reconciler**, which undoes seals that last too long, reuses the highest token;
//!   with `reconciler`, the last worker is the reconciler.
//!
//! Worlds that differ only in the numbering of the voters are the same world
//! ([`ModelWorld`], `canonical`), and state that can never matter again is dropped
//! (`forget`).

mod act;
mod arrive;
mod calm;
mod forget;
mod happen;
mod invariants;
mod rules;
mod small;
mod world;

pub use happen::{MigrationModel, ModelBounds, ModelEvent};
pub use invariants::Invariant;
pub use rules::BrokenRule;
pub use world::{Message, ModelRow, ModelShard, ModelWorker, ModelWorld, RemainingBudget};
