//! Links that show one poll's results to anyone who has them. The link itself
//! is sealed by whoever serves it; here it is written down that there is one,
//! so that it can be taken back, and the audit log says who did either.

use ballast_domain::registry::{Entity, Expect, Kind, RecordQuery};
use ballast_domain::{Error, ErrorCode, PollId, Result, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::change::commit_failed;
use crate::intent::Intent;
use crate::migrations::begin::fresh_of;
use crate::plane::ControlPlane;
use crate::registry::typed::{self, Versioned};

/// Links to one poll at the same time, at the most.
pub const SHARES_MAX: u64 = 20;

/// A link that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    /// Its name: not the link, which is written down nowhere.
    #[serde(rename = "shareID")]
    pub share_id: String,
    /// Whose poll.
    #[serde(rename = "tenantID")]
    pub tenant_id: TenantId,
    /// Which poll.
    #[serde(rename = "pollID")]
    pub poll_id: PollId,
    /// When it was made.
    pub made_at: Timestamp,
    /// When it stops working.
    pub until: Timestamp,
}

fn of_poll(tenant: &TenantId, poll: PollId) -> String {
    format!("poll:{tenant}/{poll}")
}

impl Entity for Share {
    const KIND: Kind = Kind::Share;
    fn record_id(&self) -> &str {
        &self.share_id
    }
    fn terms(&self) -> Vec<String> {
        Vec::new()
    }
    fn tallies(&self) -> Vec<String> {
        vec![of_poll(&self.tenant_id, self.poll_id)]
    }
}

/// Writes a link down that works for so many seconds. Those that work no more
/// are forgotten with it.
pub async fn make(
    plane: &ControlPlane,
    intent: &Intent,
    tenant: &TenantId,
    poll: PollId,
    seconds: i64,
) -> Result<Share> {
    let now = plane.now();
    let share = Share {
        share_id: fresh_of(plane, "share").0,
        tenant_id: tenant.clone(),
        poll_id: poll,
        made_at: now,
        until: now.plus_seconds(seconds),
    };
    for old in all(plane, tenant, poll).await? {
        if old.value.until <= now {
            let why = Intent::ballast("shares", "it works no more");
            take_back(plane, &why, &old).await?;
        }
    }
    let most = Expect::TallyBelow(Kind::Share, of_poll(tenant, poll), SHARES_MAX);
    let write = typed::create(&share, Vec::new())?;
    let commit = intent.commit("share.create", vec![write], vec![most]);
    let made = plane.registry().commit(commit).await;
    made.map_err(commit_failed)?;
    Ok(share)
}

/// The links to a poll that work, the newest first.
pub async fn working(
    plane: &ControlPlane,
    tenant: &TenantId,
    poll: PollId,
) -> Result<Vec<Versioned<Share>>> {
    let now = plane.now();
    let mut shares = all(plane, tenant, poll).await?;
    shares.retain(|share| share.value.until > now);
    Ok(shares)
}

async fn all(
    plane: &ControlPlane,
    tenant: &TenantId,
    poll: PollId,
) -> Result<Vec<Versioned<Share>>> {
    let query = RecordQuery {
        terms: vec![of_poll(tenant, poll)],
        descending: true,
        ..RecordQuery::all(Kind::Share, u32::try_from(SHARES_MAX).unwrap_or(u32::MAX))
    };
    Ok(typed::list(plane.registry(), &query).await?)
}

/// A link that works; `None` when it was taken back, or works no more.
pub async fn find(plane: &ControlPlane, id: &str) -> Result<Option<Share>> {
    let found = typed::get::<Share>(plane.registry(), id).await?;
    let works = found.filter(|found| found.value.until > plane.now());
    Ok(works.map(|found| found.value))
}

/// Takes a link to a poll back.
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
    take_back(plane, intent, &found).await
}

async fn take_back(plane: &ControlPlane, intent: &Intent, share: &Versioned<Share>) -> Result<()> {
    let write = typed::remove(share.version, &share.value);
    let commit = intent.commit("share.remove", vec![write], Vec::new());
    let removed = plane.registry().commit(commit).await;
    removed.map_err(commit_failed)?;
    Ok(())
}
