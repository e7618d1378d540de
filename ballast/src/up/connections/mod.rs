//! Bounds what connections can take, so that silent clients shut no others out.
//!
//! ```text
//!   accept ──► table: is there room? ──► TLS ──► stream, watched ──► HTTP
//!                  │ no: close the least useful connection, or refuse this one
//! ```
//! The table holds fewer connections than the process has descriptors: the rest is for shards, the
//! registry and migrations. A connection that sends no request head in time is closed; a full
//! table closes one of the address with the most connections, and of those first one that never
//! sent a request, then the one that is idle for longest.

mod acceptor;
mod stream;
mod table;

pub(crate) use acceptor::GuardingAcceptor;
pub(crate) use table::{Connection, ConnectionTable};
