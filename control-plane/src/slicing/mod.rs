//! Splitting and merging: how many slices a tenant has.
//!
//! ```text
//!   requests    checks and plans a split or merge, and records it
//!   reconciler  carries out recorded requests, cut by cut
//!   layouts     port for the cutter: the tenants' records
//! ```
//! The tenant's record contains both the request and the cut in progress, and there
//! is no other state. Wherever a process dies, the next one continues or aborts the
//! cut from the record.

mod layouts;
mod reconciler;
pub mod requests;

pub use layouts::TenantLayouts;
pub use reconciler::{reconcile, run_cuts};

use ballast_domain::tenant::Tenant;
use ballast_migration_engine::protocol::recut;

/// Whether a slice is about to be cut, so that nothing else may claim it.
pub(crate) fn is_to_be_cut(tenant: &Tenant, slice: u32) -> bool {
    let Some(slicing) = &tenant.slicing else {
        return false;
    };
    let layout = tenant.layout();
    let wanted = recut::plan_next_recut(&layout, slicing.into);
    let next = wanted.is_some_and(|(parents, _)| parents.contains(&slice));
    next || layout.recut_of_slice(slice).is_some()
}
