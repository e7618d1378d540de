//! The protocol of a move, checked exhaustively within bounds.
//!
//! ```text
//!   world     what there is: the record, two shards, clients, workers, and
//!             what is on its way between them
//!   small     the product's types as a few bytes, and the product asked
//!   happen    everything that can happen to a world
//!   act       what workers do next       arrive   what becomes of a letter
//!   forget    what no longer matters     calm     whether everything ends
//!   claims    what must be true of every world (INV-n)
//!   rules     the protocol as it is, or with one rule broken, to see that
//!             the claims notice
//! ```
//! What decides is the production code: [`next`](ballast_migration_engine::protocol::next),
//! the record's transitions, and the shards' [`Fence`](ballast_vote_shard::shard::Fence).
//!
//! # What can happen, and why so little of it is there to see
//!
//! A space is exhausted only if it is small. So each thing that can go wrong is
//! here in its worst form, which covers the others, or is something that
//! happens anyway.
//!
//! - **Routers**: any number, each as stale as it likes. A vote may arrive at
//!   any moment at any shard with any epoch that the record ever named together
//!   with it. That covers a router that was never told, and a vote that took
//!   long from its router to the shard: both are votes that arrive now with what
//!   was believed then. No router needs a place in the world.
//! - **Clients' retries, repeated and lost votes**: a vote may arrive again at
//!   any moment, for ever. One that is lost is one that does not arrive; one that
//!   is refused changes nothing. One that is taken counts as acknowledged at
//!   once, which asks the most of the shards: if its answer was lost, the client
//!   tries again, and that is a vote that arrives again. (That it is then
//!   answered is asked where worlds end, in `calm`.)
//! - **Wishes**: at every look a worker may be asked for anything: to go, to
//!   wait, to go back, to finish. Two workers may be asked for different things.
//!   So rollback and reverse are possible wherever the protocol allows them. The
//!   bounds count what they lead to: moves that begin, turned round or ordered,
//!   and seals that are put off.
//! - **Takeover**: all workers are at work from the start, each with a later
//!   lease than the one before, none knowing of the others. That covers every
//!   moment at which one is taken for dead. What a worker does is on its way as
//!   long as it likes, so everything is late and reordered.
//! - **A worker crashes, or its letter is lost or refused**: it remembers
//!   nothing between two looks, so it is as if it had not looked. **It crashes or
//!   gives up while its letter is on its way, or the letter is repeated**: the
//!   letter loses its sender (a *stray*), who goes on; it may arrive at any time,
//!   any number of times, or never. Strays are counted by the bounds.
//! - **A shard or the registry crashes and restarts**: what is durable stays,
//!   what was on its way is lost, and an answer may be: a letter that does not
//!   arrive, or one that arrives and whose sender looks again. Both happen
//!   anyway. That what was answered is durable is not the protocol's to show but
//!   the engine's (its conformance suite, and the simulation's disks).
//! - **An owner is given up**: in its worst form, it is there. Nobody who gives it
//!   up looks at it; routers vote there, workers reach it, letters arrive, and at
//!   any time, or never, it is told. What it took and its successor lacks is not
//!   counted as acknowledged any more, and what it takes later never is. (That a
//!   copy was found wrong and is being made anew when its owner is lost is two
//!   failures at once: no bound has both; the certificate counts what is there.)
//! - **A copy is left** (`leaves`) that its shard could not be told to remove: by any
//!   worker, at any time, whether the shard is away or not; it is told at any time
//!   later, or never.
//! - **Both sides acknowledge** (`sync`): a vote that the owner has taken is
//!   acknowledged when a router has carried it to the other side (`Mirror`), at any
//!   time, by any router, as long as the other side takes it; or at once, by a
//!   router that has ever been told that the owner alone does. Whoever looks may
//!   have the record say so at any time. If an owner is given up whose record asks
//!   for both, nothing is taken off what was acknowledged.
//! - **The look itself** takes time. With `torn`, the record is read at one
//!   moment and the shards are looked at later.
//! - **The watchman**, who undoes seals that last, borrows the token of whoever
//!   was there; with `watchman`, the last worker is that.
//!
//! Worlds that differ only in which voter is called the first are one
//! ([`World`], `canonical`), and what can never matter again is forgotten
//! (`forget`).

mod act;
mod arrive;
mod calm;
mod claims;
mod forget;
mod happen;
mod rules;
mod small;
mod world;

pub use claims::Claim;
pub use happen::{Bounds, Happening, MoveModel};
pub use rules::Rule;
pub use world::{Left, Row, Shard, Work, Worker, World};
