//! The error codes: name, category, title and next step of each. `docs/errors.md` has
//! the same table, and a test keeps the two equal.

/// The category of an error code, which decides the HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCategory {
    /// The request cannot be read.
    Malformed,
    /// The request can be read, but a value is not valid.
    Invalid,
    /// The caller sent no valid credential.
    Unauthenticated,
    /// The caller may not do that.
    Forbidden,
    /// The record does not exist.
    NotFound,
    /// The path exists, but does not support the method.
    MethodNotAllowed,
    /// It contradicts the current state.
    Conflict,
    /// It has changed since the caller read it.
    Stale,
    /// The body is too large.
    TooLarge,
    /// The body has an unsupported media type.
    UnsupportedMediaType,
    /// Too many requests.
    TooMany,
    /// Temporarily unavailable; try again.
    Unavailable,
    /// An error of the server.
    Internal,
}

impl ErrorCategory {
    /// The HTTP status of this category. This is the only place that maps them.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict => 409,
            Self::Stale => 412,
            Self::TooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooMany => 429,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }
}

macro_rules! codes {
    ($($variant:ident $name:literal $kind:ident $title:literal $next:literal)*) => {
        /// A stable error code: what programs compare.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $title] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the catalogue.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code as it is sent.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its category.
            pub const fn kind(self) -> ErrorCategory {
                match self { $(Self::$variant => ErrorCategory::$kind,)* }
            }

            /// The problem in a few words.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// What to do next, unless the error itself says more.
            pub const fn next_step(self) -> &'static str {
                match self { $(Self::$variant => $next,)* }
            }
        }
    };
}

codes! {
    MalformedRequest "malformed-request" Malformed
        "The request cannot be read"
        "Correct the request as the detail says and send it again."
    InvalidField "invalid-field" Invalid
        "Invalid field value"
        "Correct the fields listed in errors and send the request again."
    UnknownRegion "unknown-region" Invalid
        "No shard is in that region"
        "Use a region of an existing shard (shard list), or add a shard there first."
    UnknownZone "unknown-zone" Invalid
        "No shard has that zone"
        "Use a zone of an existing shard (shard list), or tag a shard with it first."
    NoEligibleShard "no-eligible-shard" Conflict
        "No shard may take the slice"
        "See why each shard was ruled out, then add a shard or remove one of the reasons."
    BadCredential "bad-credential" Unauthenticated
        "The credential is missing or not accepted"
        "Send a valid token or key; detail says what is wrong with this one."
    MistypedCredential "mistyped-credential" Unauthenticated
        "The credential has a typo"
        "Its checksum does not match: copy the whole credential again."
    MissingRole "missing-role" Forbidden
        "The token's role does not allow that"
        "Use a token with the role named in the detail."
    MissingScope "missing-scope" Forbidden
        "The key's scopes do not allow that"
        "Use a key with the scope named in the detail."
    ForgedForm "forged-form" Forbidden
        "The form does not belong to this session of the console"
        "Load the page again, and send the form from there."
    OriginNotAllowed "origin-not-allowed" Forbidden
        "The tenant does not allow that browser origin"
        "Add the origin to the tenant (tenant update --cors-origin)."
    TenantSuspended "tenant-suspended" Forbidden
        "The tenant is suspended"
        "Ask the operator to resume it (tenant resume)."
    TenantClosed "tenant-closed" Conflict
        "The tenant is closed"
        "A closed tenant stays closed; create another under a new ID."
    TenantNotFound "tenant-not-found" NotFound
        "There is no such tenant"
        "Look for it with tenant list."
    TenantExists "tenant-exists" Conflict
        "A tenant with that ID exists"
        "Choose another ID; IDs of closed tenants are not reused."
    ShardNotFound "shard-not-found" NotFound
        "There is no such shard"
        "Look for it with shard list."
    ShardExists "shard-exists" Conflict
        "A shard with that ID exists"
        "Choose another ID, or change the existing shard."
    ShardUrlTaken "shard-url-taken" Conflict
        "Another shard stores its data at that URL"
        "Give the shard a URL of its own."
    ShardNotEmpty "shard-not-empty" Conflict
        "The shard still holds slices"
        "Set it to draining and wait until it is empty."
    KeyNotFound "key-not-found" NotFound
        "There is no such key"
        "Look for it with key list."
    KeyNotActive "key-not-active" Conflict
        "The key is revoked or expired"
        "Create a new key."
    TokenNotFound "token-not-found" NotFound
        "There is no such token"
        "Look for it with token list."
    LastAdmin "last-admin" Conflict
        "It is the last admin token that works"
        "Create another admin token that does not expire first."
    PinRefused "pin-refused" Conflict
        "The tenant may not be on that shard"
        "Pin it to a shard without a veto (placement explain)."
    TooMany "limit-reached" Conflict
        "A limit on the number of records is reached"
        "Remove what is no longer needed, or raise the limit."
    Changed "changed-meanwhile" Stale
        "It has changed since you read it"
        "Read it again, and repeat the change with the new ETag."
    IdempotencyMismatch "idempotency-mismatch" Invalid
        "That Idempotency-Key was used for another request"
        "Use a fresh Idempotency-Key for each new request."
    PollNotFound "poll-not-found" NotFound
        "There is no such poll"
        "Look for it with GET /polls; a poll is visible only to keys of its tenant."
    ItemNotFound "item-not-found" NotFound
        "The poll has no such item"
        "Use one of the itemIDs that GET /polls/{poll} lists."
    VoteNotFound "vote-not-found" NotFound
        "There is no such vote"
        "The voter has not voted, or not for this item."
    PollNotOpen "poll-not-open" Conflict
        "The poll is not open yet"
        "Vote again when it has opened; the detail says when."
    PollClosed "poll-closed" Conflict
        "The poll is closed"
        "It takes no more votes; its results can still be read."
    AlreadyVoted "already-voted" Conflict
        "The voter has voted for something else"
        "The first vote stays. Polls may allow changes (voteChangeable) or several choices (choicesMax)."
    VoteNotChangeable "vote-not-changeable" Conflict
        "Votes in this poll cannot be changed"
        "Only polls created with voteChangeable allow it."
    ResultsHidden "results-hidden" Forbidden
        "The results are hidden until the poll has closed"
        "Ask again when it has closed; the detail says when."
    ShardFull "shard-full" Unavailable
        "The shard can take no more voters"
        "Try again later; the operator should add memory, close polls, or move tenants away."
    ArchiveUnavailable "archive-unavailable" Unavailable
        "The file with a closed poll's votes cannot be read"
        "Results still work. The log names the file and the error, for an operator."
    ShardDown "shard-down" Unavailable
        "The shard is down"
        "Try again when Retry-After says; the operator can bring it back (shard state)."
    MigrationNotFound "migration-not-found" NotFound
        "There is no such migration"
        "Look for it with migration list."
    HotspotNotFound "hotspot-not-found" NotFound
        "There is no such hotspot"
        "Look for it with hotspot list."
    PlanNotFound "plan-not-found" NotFound
        "There is no such plan"
        "Look for it with plan list."
    AlreadyThere "already-there" Conflict
        "The slice is on that shard already"
        "Nothing has to be done; placement show says where it is."
    MoveInProgress "move-in-progress" Conflict
        "Another migration of the slice is running"
        "Wait for it (migration watch), or cancel it (migration cancel)."
    MoveRefused "move-refused" Conflict
        "The slice may not be moved there"
        "Choose another shard, or remove the reason that the detail names (placement explain)."
    AlreadySliced "already-sliced" Conflict
        "The tenant has that many slices already"
        "Nothing has to be done; tenant show lists its slices."
    SlicesRefused "slices-refused" Conflict
        "The tenant cannot be split or merged like that"
        "Resolve what the detail names, then try again (docs/splitting-tenants.md)."
    WrongPhase "wrong-phase" Conflict
        "The migration is not in a phase that allows that"
        "See its phase with migration show."
    LossNotNeeded "loss-not-needed" Conflict
        "No loss needs to be accepted"
        "Reverse the migration without accepting a loss (migration reverse)."
    WorkflowNotFound "workflow-not-found" NotFound
        "There is no such workflow"
        "Look for it with workflow list, or deploy it (workflow deploy)."
    WorkflowBuiltIn "workflow-built-in" Conflict
        "That workflow comes with Ballast"
        "Deploy yours under another name."
    InvalidDefinition "invalid-definition" Invalid
        "The definition is not valid"
        "Fix what errors lists; workflow check finds the same without a server."
    NoHandler "no-handler" Invalid
        "A resource has no handler"
        "Use resources that this instance has handlers for; detail names the others."
    ExecutionNotFound "execution-not-found" NotFound
        "There is no such execution"
        "Look for it with execution list."
    ExecutionExists "execution-exists" Conflict
        "An execution with that name has a different input"
        "Choose another name, or send the same input to get the existing execution."
    ExecutionEnded "execution-ended" Conflict
        "The execution has ended"
        "It accepts no more commands; start another (execution start)."
    NothingWaits "nothing-waits" Conflict
        "No such task is waiting for a signal"
        "See the state of the execution with execution show."
    RateLimited "rate-limited" TooMany
        "The tenant has exceeded a limit"
        "Wait as long as Retry-After says; the limits can be raised (tenant update)."
    NotFound "not-found" NotFound
        "There is nothing at this path"
        "See the lists of paths in /openapi.json and /admin/v1/openapi.json."
    MethodNotAllowed "method-not-allowed" MethodNotAllowed
        "The path does not support that method"
        "See the lists of paths in /openapi.json and /admin/v1/openapi.json."
    TooLarge "body-too-large" TooLarge
        "The body is too large"
        "Send less at once."
    UnsupportedMediaType "unsupported-media-type" UnsupportedMediaType
        "The body is not JSON"
        "Send the body as JSON with Content-Type: application/json."
    NoHistory "no-history" NotFound
        "There is no history for that time"
        "Ask for a time after the subject was created."
    Busy "busy" Unavailable
        "Too many requests at once"
        "Try again in a moment."
    Unavailable "unavailable" Unavailable
        "Not possible right now"
        "Try again in a moment; /readyz says what is missing."
    Internal "internal-error" Internal
        "Something failed on our side"
        "Try again; if the error persists, the server's log has the cause."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ErrorCode::ALL.len());
    }
}
