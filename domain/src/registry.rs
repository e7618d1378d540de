//! The registry port: versioned records, compare-and-swap over several records at once,
//! and a resumable change feed.
//!
//! **Contract.** A commit is atomic: when it returns, all of it is durable, or nothing
//! changed. Every write names the version that it expects, so there are no blind
//! writes. Commits are totally ordered by revision; a read that starts after a commit
//! returned sees the commit. The state of a record at every earlier revision can be
//! read: the audit log, the history and the change feed are the same events.
//!
//! One conformance suite checks this contract for every implementation. A *term* is a
//! text such as `region:eu` by which records can be found. A *tally* is a term whose
//! records are also counted, now and in the past.

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

/// The kind of a record. The numbers are stored: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RecordKind {
    /// A tenant with its whole route map.
    Tenant = 1,
    /// A shard.
    Shard = 2,
    /// An API key.
    Key = 3,
    /// An admin token.
    Token = 4,
    /// A single record that changes with every change of a shard, so that a placement
    /// can be made conditional on the fleet that it was decided from.
    Fleet = 5,
    /// A deployed workflow, by its name.
    Workflow = 6,
    /// The commands that operators sent to an execution.
    Execution = 7,
    /// A migration of a slice.
    Migration = 8,
    /// A hotspot: its subject, its cause and its cure.
    Hotspot = 9,
    /// A plan against hotspots, and its result.
    Plan = 10,
    /// The settings as of the last reload.
    Settings = 11,
    /// A link that shares a poll's results.
    Share = 12,
}

impl RecordKind {
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

    /// The name of the kind, as in the audit log.
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

    /// The kind with this name.
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

/// The key of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    /// Its kind.
    pub kind: RecordKind,
    /// Its id within the kind.
    pub id: String,
}

impl RecordKey {
    /// The key of the record with this kind and id.
    pub fn new(kind: RecordKind, id: impl Into<String>) -> Self {
        Self {
            kind,
            id: id.into(),
        }
    }
}

/// A stored record. Its body is JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: RecordKey,
    /// 1 when created, incremented with every change.
    pub version: u64,
    /// The revision of the commit that wrote it.
    pub revision: u64,
    /// The JSON text.
    pub body: String,
}

/// The expected version of a record that must not exist.
pub const ABSENT: u64 = 0;

/// One record written by a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordWrite {
    /// Its key.
    pub key: RecordKey,
    /// The version that it must have now; [`ABSENT`] creates it.
    pub expected: u64,
    /// Its new body; `None` removes the record (its history stays).
    pub body: Option<String>,
    /// Its new terms; `None` leaves them unchanged.
    pub terms: Option<Vec<String>>,
    /// The terms that are also counted.
    pub tallies: Vec<String>,
}

/// A condition of a commit on records that it does not write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// A record must have this version.
    Version(RecordKey, u64),
    /// A tally must be below this number before the commit.
    TallyBelow(RecordKind, String, u64),
}

/// The remembered answer of an idempotent request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RememberedReply {
    /// The id of the request.
    pub id: String,
    /// The answer, sealed by the API so that the store cannot read it.
    pub sealed: Vec<u8>,
    /// When it is deleted.
    pub expires_at: Timestamp,
}

/// A set of changes that take effect together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryCommit {
    /// Who requested it.
    pub actor: Actor,
    /// The action, as in the audit log: `tenant.create`.
    pub action: &'static str,
    /// The reason, if one was given.
    pub reason: Option<String>,
    /// Conditions on other records.
    pub expects: Vec<Precondition>,
    /// The records to write, each at most once. A commit without writes only checks its
    /// conditions; it has no revision of its own and returns the last one.
    pub writes: Vec<RecordWrite>,
    /// The answer to remember. An expired answer with the same id is replaced.
    pub reply: Option<RememberedReply>,
}

/// Why a commit failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A record has another version than expected.
    #[error("{} {} has version {found}, not {expected}", key.kind.name(), key.id)]
    Conflict {
        /// Its key.
        key: RecordKey,
        /// The version that was expected.
        expected: u64,
        /// Its current version; [`ABSENT`] if it does not exist.
        found: u64,
    },
    /// A tally has reached its limit.
    #[error("{tally} has reached {limit}")]
    LimitReached {
        /// The tally.
        tally: String,
        /// Its limit.
        limit: u64,
    },
    /// The request was answered before.
    #[error("the request was answered before")]
    AlreadyAnswered,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] RegistryError),
}

/// The store failed, or its answer was lost on the way.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct RegistryError {
    /// What was being done.
    pub doing: &'static str,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl RegistryError {
    /// An error of the store while `doing` something.
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

/// The result of a read.
pub type RegistryResult<T> = Result<T, RegistryError>;

/// A change of one record: an entry of the audit log and of the change feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryEvent {
    /// Its number in the order of all events.
    pub sequence: u64,
    /// The commit it belongs to.
    pub revision: u64,
    /// When. It never decreases along revisions.
    pub at: Timestamp,
    /// Who.
    pub actor: Actor,
    /// The action.
    pub action: String,
    /// Why.
    pub reason: Option<String>,
    /// Its key.
    pub key: RecordKey,
    /// Its version after the change.
    pub version: u64,
    /// Its body before.
    pub before: Option<String>,
    /// Its body after; `None` when it was removed.
    pub after: Option<String>,
}

/// A query for records, in ascending or descending order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordQuery {
    /// The kind.
    pub kind: RecordKind,
    /// Terms that a record must have, all of them.
    pub terms: Vec<String>,
    /// The prefix of the id.
    pub id_prefix: String,
    /// Only ids after this one, in the requested order.
    pub after: Option<String>,
    /// Whether to list in descending order.
    pub descending: bool,
    /// The most entries.
    pub limit: u32,
}

impl RecordQuery {
    /// All records of this kind, up to `limit`.
    pub fn all(kind: RecordKind, limit: u32) -> Self {
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

/// A query for events, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventQuery {
    /// Only events of this kind.
    pub kind: Option<RecordKind>,
    /// No events of this kind.
    pub hidden: Option<RecordKind>,
    /// Only events of this record (with `kind`).
    pub id: Option<String>,
    /// Only events before this sequence number: the cursor.
    pub before: Option<u64>,
    /// Only events at or after this time.
    pub since: Option<Timestamp>,
    /// Only events at or before this time.
    pub until: Option<Timestamp>,
    /// The most entries.
    pub limit: u32,
}

/// Versioned records with compare-and-swap and history; the module documents the
/// contract.
#[async_trait]
pub trait Registry: Send + Sync + 'static {
    /// Makes all changes or none. Returns the commit's revision.
    async fn commit(&self, commit: RegistryCommit) -> Result<u64, CommitError>;

    /// Checks whether commits are possible now.
    async fn check(&self) -> RegistryResult<()>;

    /// Reads one record.
    async fn get(&self, key: &RecordKey) -> RegistryResult<Option<Record>>;

    /// Lists a page of records.
    async fn list(&self, query: &RecordQuery) -> RegistryResult<Vec<Record>>;

    /// The tallies of this kind whose names begin with `prefix`, without those that are
    /// 0.
    async fn tallies(
        &self,
        kind: RecordKind,
        prefix: &str,
    ) -> RegistryResult<BTreeMap<String, u64>>;

    /// The revision of the last commit.
    async fn revision(&self) -> RegistryResult<u64>;

    /// Waits for a commit after `revision`. It may also return without one after a long
    /// time, so that the caller can check whether to go on.
    async fn wait_past(&self, revision: u64) -> RegistryResult<()>;

    /// The change feed: the events of the commits after `revision`, oldest first and in
    /// whole commits, at least `limit` events if there are as many.
    async fn changes(&self, revision: u64, limit: u32) -> RegistryResult<Vec<RegistryEvent>>;

    /// The audit log, newest first.
    async fn events(&self, query: &EventQuery) -> RegistryResult<Vec<RegistryEvent>>;

    /// The last revision at or before a moment; 0 before the first commit.
    async fn revision_at(&self, moment: Timestamp) -> RegistryResult<u64>;

    /// A record as it was at a revision.
    async fn get_at(&self, key: &RecordKey, revision: u64) -> RegistryResult<Option<Record>>;

    /// Every record of a kind as it was at a revision.
    async fn list_at(&self, kind: RecordKind, revision: u64) -> RegistryResult<Vec<Record>>;

    /// The tallies as they were at a revision.
    async fn tallies_at(
        &self,
        kind: RecordKind,
        prefix: &str,
        revision: u64,
    ) -> RegistryResult<BTreeMap<String, u64>>;

    /// The remembered answer to a request, unless it has expired at `now`.
    async fn reply(&self, id: &str, now: Timestamp) -> RegistryResult<Option<RememberedReply>>;

    /// Deletes expired replies.
    async fn forget_replies(&self, now: Timestamp) -> RegistryResult<()>;

    /// Records when records were last used. This is not a change: it has no version and
    /// no event, and a crash may lose the last few seconds.
    async fn mark_used(&self, kind: RecordKind, uses: &[(String, Timestamp)])
    -> RegistryResult<()>;

    /// When records were last used.
    async fn last_used(
        &self,
        kind: RecordKind,
        ids: &[String],
    ) -> RegistryResult<BTreeMap<String, Timestamp>>;
}

/// A type that can be stored in the registry: its kind, its id, its terms and tallies.
pub trait Entity: Serialize + DeserializeOwned + Send + Sync {
    /// Its kind.
    const KIND: RecordKind;
    /// Its id, unique within the kind.
    fn record_id(&self) -> &str;
    /// The terms by which it is found.
    fn terms(&self) -> Vec<String>;
    /// The terms that are also counted.
    fn tallies(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The tally of the slices on a shard.
pub fn slices_tally(shard: &str) -> String {
    format!("shard:{shard}")
}

/// The term of a tenant's keys.
pub fn tenant_keys_term(tenant: &str) -> String {
    format!("tenant:{tenant}")
}

/// The tally of a tenant's keys that are not revoked.
pub fn live_keys_tally(tenant: &str) -> String {
    format!("live:{tenant}")
}

/// The tally of the tenants that are pinned to a shard.
pub fn pins_tally(shard: &str) -> String {
    format!("pinned:{shard}")
}

/// The term of tenants that are being split or merged.
pub const SLICING: &str = "slicing";

/// The tally of admin tokens that are not revoked.
pub const TOKENS: &str = "tokens";

/// The term by which a credential's hash is found.
pub fn hash_term(hash: &crate::credential::CredentialHash) -> String {
    format!("hash:{}", hash.to_hex())
}

impl Entity for Tenant {
    const KIND: RecordKind = RecordKind::Tenant;
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
        // Once per slice: a shard's density counts slices, not tenants. The slices of a
        // closed tenant stay on their shard until they are purged. A slice that moves
        // needs room on both shards, and neither may be removed from the fleet.
        let slices = self.slices.iter().flat_map(|slice| {
            let moving = slice.moving.iter();
            let sides = moving.flat_map(|moving| [&moving.from, &moving.to]);
            let other = sides.filter(|side| **side != slice.shard_id);
            std::iter::once(&slice.shard_id)
                .chain(other)
                .map(|shard| slices_tally(shard.as_str()))
        });
        let pin = self.pin.iter().map(|pin| pins_tally(pin.shard_id.as_str()));
        slices.chain(pin).collect()
    }
}

impl Entity for Shard {
    const KIND: RecordKind = RecordKind::Shard;
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

/// The hash of a key is a term and not part of its body, so that neither the audit log
/// nor the change feed contains it. The caller adds [`hash_term`].
impl Entity for ApiKey {
    const KIND: RecordKind = RecordKind::Key;
    fn record_id(&self) -> &str {
        self.key_id.as_str()
    }
    fn terms(&self) -> Vec<String> {
        vec![tenant_keys_term(self.tenant_id.as_str())]
    }
    fn tallies(&self) -> Vec<String> {
        let live = self.revoked_at.is_none();
        live.then(|| live_keys_tally(self.tenant_id.as_str()))
            .into_iter()
            .collect()
    }
}

/// As with keys, the caller adds [`hash_term`].
impl Entity for AdminToken {
    const KIND: RecordKind = RecordKind::Token;
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
