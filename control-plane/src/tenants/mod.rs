//! Tenants: create, read, change, suspend, resume, close.

mod change;
mod create;
mod list;
#[cfg(test)]
mod tests;

pub use change::{LimitsPatch, TenantPatch, set_status, update};
pub(crate) use change::{change, change_expecting};
pub use create::{NewTenant, create};
pub use list::{TenantFilter, list};

use ballast_domain::error::ErrorCode;
use ballast_domain::tenant::Tenant;
use ballast_domain::{Error, Result, TenantId};

use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};

/// One tenant.
pub async fn get(plane: &ControlPlane, id: &TenantId) -> Result<Versioned<Tenant>> {
    typed::get(plane.registry(), id.as_str())
        .await?
        .ok_or_else(|| not_found(id))
}

pub(crate) fn not_found(id: &TenantId) -> Error {
    Error::new(
        ErrorCode::TenantNotFound,
        format!("there is no tenant {:?}", id.as_str()),
    )
}
