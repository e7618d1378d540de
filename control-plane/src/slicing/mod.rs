//! How many slices a tenant has: asked for, and made so.
//!
//! ```text
//!   ask       a split or a merge is asked for: checked, planned, written down
//!   work      whoever finds it written down makes it so, cut by cut
//!   layouts   the tenants' records, for those who cut
//! ```
//! What is wanted is in the tenant's record, and so is the cut that is at work.
//! There is no other truth: a process that dies between any two lines leaves a
//! record that the next one goes on with, or calls off.

pub mod ask;
mod layouts;
mod work;

pub use layouts::TenantLayouts;
pub use work::{go_on, round};

use ballast_domain::tenant::Tenant;
use ballast_migration_engine::protocol::recut;

/// Whether a slice is to be cut, so that nothing else may begin with it.
pub(crate) fn is_to_be_cut(tenant: &Tenant, slice: u32) -> bool {
    let Some(slicing) = &tenant.slicing else {
        return false;
    };
    let layout = tenant.layout();
    let wanted = recut::wanted(&layout, slicing.into);
    let next = wanted.is_some_and(|(parents, _)| parents.contains(&slice));
    next || layout.cut_of(slice).is_some()
}
