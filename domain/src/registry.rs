//! The registry port: versioned records, compare-and-swap over several of
//! them at once, and a change feed that can be resumed.
//!
//! **Contract.** A commit is atomic and durable when it returns, or it
//! changed nothing. Every write names the version it expects, so there is no
//! blind write. Commits are totally ordered by their revision; a reader that
//! starts after a commit returned sees it. What a record was at any earlier
//! revision stays known: the audit log, the history and the change feed are
//! the same events.
//!
//! One conformance suite checks all of this for every implementation. A
//! *term* is a text such as `region:eu` by which a record can be found; a
//! *tally* is a term whose records are also counted, now and in the past.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::actor::Actor;
use crate::clock::Timestamp;
use crate::key::ApiKey;
use crate::shard::Shard;
use crate::tenant::Tenant;
use crate::token::AdminToken;

/// What a record is about. The numbers are stored: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A tenant with its whole route map.
    Tenant = 1,
    /// A shard.
    Shard = 2,
    /// An API key.
    Key = 3,
    /// An admin token.
    Token = 4,
    /// The one record that changes with every change of a shard, so that a
    /// placement can be made conditional on the fleet it was decided from.
    Fleet = 5,
    /// A workflow that was deployed, by its name.
    Workflow = 6,
    /// An execution that somebody asked something of, and what.
    Execution = 7,
    /// A move of a slice.
    Migration = 8,
    /// A hotspot: what is hot, why, and what helps.
    Hotspot = 9,
    /// A plan: what is to be done about hotspots, and what came of it.
    Plan = 10,
    /// The settings, as they were last read again.
    Settings = 11,
    /// A link that shows a poll's results.
    Share = 12,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Tenant,
        Self::Shard,
        Self::Key,
        Self::Token,
        Self::Fleet,
        Self::Workflow,
        Self::Execution,
        Self::Migration,
        Self::Hotspot,
        Self::Plan,
        Self::Settings,
        Self::Share,
    ];

    /// The kind's name, as in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Shard => "shard",
            Self::Key => "key",
            Self::Token => "token",
            Self::Fleet => "fleet",
            Self::Workflow => "workflow",
            Self::Execution => "execution",
            Self::Migration => "migration",
            Self::Hotspot => "hotspot",
            Self::Plan => "plan",
            Self::Settings => "settings",
            Self::Share => "share",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind stored under this number.
    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| i64::from(*kind as u8) == number)
    }
}

/// Which record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    /// What it is about.
    pub kind: Kind,
    /// Its id within the kind.
    pub id: String,
}

impl RecordKey {
    /// The record of this kind and id.
    pub fn new(kind: Kind, id: impl Into<String>) -> Self {
        Self {
            kind,
            id: id.into(),
        }
    }
}

/// A record as it is stored: the body is JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Which record.
    pub key: RecordKey,
    /// 1 when created, one more with every change.
    pub version: u64,
    /// The revision of the commit that wrote it.
    pub revision: u64,
    /// The JSON text.
    pub body: String,
}

/// The version that means "it must not exist".
pub const ABSENT: u64 = 0;

/// One record written by a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Which record.
    pub key: RecordKey,
    /// The version it must have now; [`ABSENT`] creates it.
    pub expected: u64,
    /// Its new body; `None` removes it (its history stays).
    pub body: Option<String>,
    /// The terms by which it is found from now on; `None` leaves them as they
    /// are.
    pub terms: Option<Vec<String>>,
    /// The terms that are also counted.
    pub tallies: Vec<String>,
}

/// Something else that must hold for a commit to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// A record that is not written must have this version.
    Version(RecordKey, u64),
    /// A tally must be below this number before the commit.
    TallyBelow(Kind, String, u64),
}

/// The remembered answer of an idempotent create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Which request it answers.
    pub id: String,
    /// The answer, sealed by the API so that the store cannot read it.
    pub sealed: Vec<u8>,
    /// When it is forgotten.
    pub expires_at: Timestamp,
}

/// A set of changes that happen together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Who asked for it.
    pub actor: Actor,
    /// What is done, as in the audit log: `tenant.create`.
    pub action: &'static str,
    /// Why, if that was said.
    pub reason: Option<String>,
    /// What else must hold.
    pub expects: Vec<Expect>,
    /// The records written, each of them once. A commit without any only asks
    /// and answers: it has no revision of its own and returns the last one.
    pub writes: Vec<Write>,
    /// The answer to remember with it. An answer that has expired does not
    /// stand in its way.
    pub reply: Option<Reply>,
}

/// Why a commit did not happen. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A record has another version than expected.
    #[error("{} {} has version {found}, not {expected}", key.kind.name(), key.id)]
    Conflict {
        /// Which record.
        key: RecordKey,
        /// The version that was expected.
        expected: u64,
        /// The version it has; [`ABSENT`] when there is none.
        found: u64,
    },
    /// A tally has reached its limit.
    #[error("{tally} has reached {limit}")]
    LimitReached {
        /// Which tally.
        tally: String,
        /// Its limit.
        limit: u64,
    },
    /// The request was answered before.
    #[error("the request was answered before")]
    AlreadyAnswered,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The store failed, or its answer was lost.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct StoreError {
    /// What was being done.
    pub doing: &'static str,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl StoreError {
    /// The store failed while `doing` something.
    pub fn new(
        doing: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self {
            doing,
            source: source.into(),
        }
    }
}

/// A result of a read.
pub type StoreResult<T> = Result<T, StoreError>;

/// One record's change: an entry of the audit log and of the change feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its place in the order of all events.
    pub sequence: u64,
    /// The commit it belongs to.
    pub revision: u64,
    /// When. Never runs backwards along revisions.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// What.
    pub action: String,
    /// Why.
    pub reason: Option<String>,
    /// Which record.
    pub key: RecordKey,
    /// Its version after the change.
    pub version: u64,
    /// Its body before.
    pub before: Option<String>,
    /// Its body after; `None` when it was removed.
    pub after: Option<String>,
}

/// Which records to list, in the order of their ids, or against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordQuery {
    /// The kind.
    pub kind: Kind,
    /// Terms that all must hold.
    pub terms: Vec<String>,
    /// What the id must begin with.
    pub id_prefix: String,
    /// Only ids that come after this one in the order that is asked for.
    pub after: Option<String>,
    /// The last id first.
    pub descending: bool,
    /// How many at the most.
    pub limit: u32,
}

impl RecordQuery {
    /// Every record of this kind, up to `limit`.
    pub fn all(kind: Kind, limit: u32) -> Self {
        Self {
            kind,
            terms: Vec::new(),
            id_prefix: String::new(),
            after: None,
            descending: false,
            limit,
        }
    }
}

/// Which events to list, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only of this kind.
    pub kind: Option<Kind>,
    /// None of this kind.
    pub hidden: Option<Kind>,
    /// Only of this record (with `kind`).
    pub id: Option<String>,
    /// Only before this sequence number: the cursor.
    pub before: Option<u64>,
    /// Only at or after this time.
    pub since: Option<Timestamp>,
    /// Only at or before this time.
    pub until: Option<Timestamp>,
    /// How many at the most.
    pub limit: u32,
}

/// Versioned records with compare-and-swap and history; see the module.
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// Makes all the changes or none; returns the commit's revision.
    async fn commit(&self, commit: Commit) -> Result<u64, CommitError>;

    /// Whether a commit would be taken now; the error says why not.
    async fn check(&self) -> StoreResult<()>;

    /// One record.
    async fn get(&self, key: &RecordKey) -> StoreResult<Option<Record>>;

    /// A page of records, in the order of their ids, or against it.
    async fn list(&self, query: &RecordQuery) -> StoreResult<Vec<Record>>;

    /// The tallies of this kind whose names begin with `prefix`, those that
    /// count anything.
    async fn tallies(&self, kind: Kind, prefix: &str) -> StoreResult<BTreeMap<String, u64>>;

    /// The revision of the last commit.
    async fn revision(&self) -> StoreResult<u64>;

    /// Returns once there is a commit after `revision`; after a long quiet
    /// also without one, so that the caller looks up and asks again.
    async fn wait_past(&self, revision: u64) -> StoreResult<()>;

    /// The change feed: the events of the commits after `revision`, oldest
    /// first, whole commits only, at least `limit` events where there are so
    /// many.
    async fn changes(&self, revision: u64, limit: u32) -> StoreResult<Vec<Event>>;

    /// The audit log, newest first.
    async fn events(&self, query: &EventQuery) -> StoreResult<Vec<Event>>;

    /// The last revision at or before a moment; 0 before the first commit.
    async fn revision_at(&self, moment: Timestamp) -> StoreResult<u64>;

    /// A record as it was at a revision.
    async fn get_at(&self, key: &RecordKey, revision: u64) -> StoreResult<Option<Record>>;

    /// Every record of a kind as it was at a revision.
    async fn list_at(&self, kind: Kind, revision: u64) -> StoreResult<Vec<Record>>;

    /// The tallies as they were at a revision.
    async fn tallies_at(
        &self,
        kind: Kind,
        prefix: &str,
        revision: u64,
    ) -> StoreResult<BTreeMap<String, u64>>;

    /// The remembered answer to a request, unless it has expired at `now`.
    async fn reply(&self, id: &str, now: Timestamp) -> StoreResult<Option<Reply>>;

    /// Forgets expired replies.
    async fn forget_replies(&self, now: Timestamp) -> StoreResult<()>;

    /// Notes when records were last used. Not a change: it has no version and
    /// no event, and a crash may lose the last few seconds of it.
    async fn mark_used(&self, kind: Kind, uses: &[(String, Timestamp)]) -> StoreResult<()>;

    /// When records were last used.
    async fn last_used(
        &self,
        kind: Kind,
        ids: &[String],
    ) -> StoreResult<BTreeMap<String, Timestamp>>;
}

/// What can be kept in a registry: its kind, its id, how it is found.
pub trait Entity: Serialize + DeserializeOwned + Send + Sync {
    /// Its kind.
    const KIND: Kind;
    /// Its id within the kind.
    fn record_id(&self) -> &str;
    /// The terms by which it is found.
    fn terms(&self) -> Vec<String>;
    /// The terms that are also counted.
    fn tallies(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The tally of the slices on a shard.
pub fn slices_on(shard: &str) -> String {
    format!("shard:{shard}")
}

/// The term of a tenant's keys.
pub fn keys_of(tenant: &str) -> String {
    format!("tenant:{tenant}")
}

/// The tally of a tenant's keys that are not revoked.
pub fn live_keys_of(tenant: &str) -> String {
    format!("live:{tenant}")
}

/// The tally of the tenants that are pinned to a shard.
pub fn pinned_to(shard: &str) -> String {
    format!("pinned:{shard}")
}

/// The term of tenants that are to have another number of slices.
pub const SLICING: &str = "slicing";

/// The tally of admin tokens that are not revoked.
pub const TOKENS: &str = "tokens";

/// The term by which a credential's hash is found.
pub fn hash_term(hash: &crate::credential::CredentialHash) -> String {
    format!("hash:{}", hash.to_hex())
}

impl Entity for Tenant {
    const KIND: Kind = Kind::Tenant;
    fn record_id(&self) -> &str {
        self.tenant_id.as_str()
    }
    fn terms(&self) -> Vec<String> {
        let mut terms = vec![
            format!("region:{}", self.home_region),
            format!("status:{}", self.status.name()),
        ];
        if self.slicing.is_some() {
            terms.push(SLICING.to_owned());
        }
        terms
    }
    fn tallies(&self) -> Vec<String> {
        // Once per slice: a shard's density counts slices, not tenants. A
        // closed tenant's slices still lie on their shard until purged.
        // One that moves needs room on both sides, and neither may be taken
        // out of the fleet.
        let slices = self.slices.iter().flat_map(|slice| {
            let moving = slice.moving.iter();
            let sides = moving.flat_map(|moving| [&moving.from, &moving.to]);
            let other = sides.filter(|side| **side != slice.shard_id);
            std::iter::once(&slice.shard_id)
                .chain(other)
                .map(|shard| slices_on(shard.as_str()))
        });
        let pin = self.pin.iter().map(|pin| pinned_to(pin.shard_id.as_str()));
        slices.chain(pin).collect()
    }
}

impl Entity for Shard {
    const KIND: Kind = Kind::Shard;
    fn record_id(&self) -> &str {
        self.shard_id.as_str()
    }
    fn terms(&self) -> Vec<String> {
        vec![
            format!("region:{}", self.region),
            format!("state:{}", self.state.name()),
            format!("url:{}", self.url),
        ]
    }
}

/// A key's hash is a term, not part of its body, so that neither the audit
/// log nor the change feed ever carries it: the caller adds [`hash_term`].
impl Entity for ApiKey {
    const KIND: Kind = Kind::Key;
    fn record_id(&self) -> &str {
        self.key_id.as_str()
    }
    fn terms(&self) -> Vec<String> {
        vec![keys_of(self.tenant_id.as_str())]
    }
    fn tallies(&self) -> Vec<String> {
        let live = self.revoked_at.is_none();
        live.then(|| live_keys_of(self.tenant_id.as_str()))
            .into_iter()
            .collect()
    }
}

/// As with keys, the caller adds [`hash_term`].
impl Entity for AdminToken {
    const KIND: Kind = Kind::Token;
    fn record_id(&self) -> &str {
        self.token_id.as_str()
    }
    fn terms(&self) -> Vec<String> {
        vec![format!("role:{}", self.role.name())]
    }
    fn tallies(&self) -> Vec<String> {
        let live = self.revoked_at.is_none();
        live.then(|| TOKENS.to_owned()).into_iter().collect()
    }
}
