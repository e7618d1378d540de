//! Share links, which show one poll's results to anyone who has the link. The
//! server seals the link itself; this record makes it revocable and puts both
//! its creation and removal into the audit log.

use ballast_domain::registry::{Entity, Precondition, RecordKind, RecordQuery};
use ballast_domain::{Error, ErrorCode, PollId, Result, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::change::commit_failed;
use crate::intent::Intent;
use crate::migrations::begin::new_record_id;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};

/// Maximum number of active links per poll.
pub const SHARES_MAX: u64 = 20;

/// A share link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// Its id. This is not the link, which is never stored.
    #[serde(rename = "shareID")]
    pub share_id: String,
    /// The tenant that owns the poll.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// The poll.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// When it was made.
    pub made_at: Timestamp,
    /// When it stops working.
    pub until: Timestamp,
}

fn poll_term(tenant: &TenantId, poll: PollId) -> String {
    format!("poll:{tenant}/{poll}")
}

impl Entity for Share {
    const KIND: RecordKind = RecordKind::Share;
    fn record_id(&self) -> &str {
        &self.share_id
    }
    fn terms(&self) -> Vec<String> {
        Vec::new()
    }
    fn tallies(&self) -> Vec<String> {
        vec![poll_term(&self.tenant_id, self.poll_id)]
    }
}

/// Creates a link that expires after `seconds`, and deletes expired ones of the
/// same poll.
pub async fn create(
    plane: &ControlPlane,
    intent: &Intent,
    tenant: &TenantId,
    poll: PollId,
    seconds: i64,
) -> Result<Share> {
    let now = plane.now();
    let share = Share {
        share_id: new_record_id(plane, "share").0,
        tenant_id: tenant.clone(),
        poll_id: poll,
        made_at: now,
        until: now.plus_seconds(seconds),
    };
    for old in list_all(plane, tenant, poll).await? {
        if old.value.until <= now {
            let why = Intent::ballast("shares", "expired");
            remove_record(plane, &why, &old).await?;
        }
    }
    let most = Precondition::TallyBelow(RecordKind::Share, poll_term(tenant, poll), SHARES_MAX);
    let write = typed::create(&share, Vec::new())?;
    let commit = intent.commit("share.create", vec![write], vec![most]);
    let made = plane.registry().commit(commit).await;
    made.map_err(commit_failed)?;
    Ok(share)
}

/// The unexpired links to a poll, newest first.
pub async fn list_active(
    plane: &ControlPlane,
    tenant: &TenantId,
    poll: PollId,
) -> Result<Vec<Versioned<Share>>> {
    let now = plane.now();
    let mut shares = list_all(plane, tenant, poll).await?;
    shares.retain(|share| share.value.until > now);
    Ok(shares)
}

async fn list_all(
    plane: &ControlPlane,
    tenant: &TenantId,
    poll: PollId,
) -> Result<Vec<Versioned<Share>>> {
    let query = RecordQuery {
        terms: vec![poll_term(tenant, poll)],
        descending: true,
        ..RecordQuery::all(
            RecordKind::Share,
            u32::try_from(SHARES_MAX).unwrap_or(u32::MAX),
        )
    };
    Ok(typed::list(plane.registry(), &query).await?)
}

/// An active link; `None` when it was removed or has expired.
pub async fn find(plane: &ControlPlane, id: &str) -> Result<Option<Share>> {
    let found = typed::get::<Share>(plane.registry(), id).await?;
    let works = found.filter(|found| found.value.until > plane.now());
    Ok(works.map(|found| found.value))
}

/// Removes a link to a poll.
pub async fn remove(
    plane: &ControlPlane,
    intent: &Intent,
    (tenant, poll): (&TenantId, PollId),
    id: &str,
) -> Result<()> {
    let found = typed::get::<Share>(plane.registry(), id).await?;
    let own = |share: &Share| share.tenant_id == *tenant && share.poll_id == poll;
    let found = found.filter(|found| own(&found.value)).ok_or_else(|| {
        let detail = format!("there is no link {id:?} to this poll");
        Error::new(ErrorCode::NotFound, detail)
    })?;
    remove_record(plane, intent, &found).await
}

async fn remove_record(
    plane: &ControlPlane,
    intent: &Intent,
    share: &Versioned<Share>,
) -> Result<()> {
    let write = typed::remove(share.version, &share.value);
    let commit = intent.commit("share.remove", vec![write], Vec::new());
    let removed = plane.registry().commit(commit).await;
    removed.map_err(commit_failed)?;
    Ok(())
}
