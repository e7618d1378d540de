-- The registry. Events are the truth: a record's body is stored once, in the
-- event that wrote it, and everything else here is an index of the events.

-- Written once each: few act often, and a name with its token and address is
-- longer than all else that is known of a commit.
CREATE TABLE actors (
    id    INTEGER PRIMARY KEY,
    actor TEXT NOT NULL UNIQUE         -- JSON
) STRICT;

CREATE TABLE commits (
    revision       INTEGER PRIMARY KEY,
    at_ms          INTEGER NOT NULL,
    action         TEXT    NOT NULL,
    actor          INTEGER NOT NULL,   -- its id among the actors
    reason         TEXT,
    first_sequence INTEGER NOT NULL    -- its events are this one and the next ones
) STRICT;
CREATE INDEX commits_at ON commits (at_ms);

CREATE TABLE events (
    sequence INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL,
    kind     INTEGER NOT NULL,         -- 1 tenant, 2 shard, 3 key, 4 token, 5 fleet
    id       TEXT    NOT NULL,
    version  INTEGER NOT NULL,
    previous INTEGER,                  -- the event that wrote the version before
    body     TEXT                      -- JSON; NULL: removed
) STRICT;
CREATE INDEX events_of_record ON events (kind, id, sequence);
CREATE INDEX events_of_kind   ON events (kind);

CREATE TABLE records (
    kind     INTEGER NOT NULL,
    id       TEXT    NOT NULL,
    version  INTEGER NOT NULL,
    live     INTEGER NOT NULL,         -- 0: removed
    sequence INTEGER NOT NULL,         -- the event with its body
    terms    TEXT    NOT NULL,         -- JSON array
    tallies  TEXT    NOT NULL,         -- JSON array
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE terms (
    kind INTEGER NOT NULL,
    term TEXT    NOT NULL,
    id   TEXT    NOT NULL,
    PRIMARY KEY (kind, term, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE tallies (
    kind  INTEGER NOT NULL,
    tally TEXT    NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (kind, tally)
) STRICT, WITHOUT ROWID;

CREATE TABLE tally_history (
    kind     INTEGER NOT NULL,
    tally    TEXT    NOT NULL,
    revision INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (kind, tally, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE replies (
    id         TEXT PRIMARY KEY,
    expires_ms INTEGER NOT NULL,
    sealed     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX replies_expire ON replies (expires_ms);

CREATE TABLE uses (
    kind  INTEGER NOT NULL,
    id    TEXT    NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

-- For an operator with sqlite3. Read only: a write past the registry would
-- have no version, no event and no actor.

CREATE VIEW view_tenants AS
SELECT r.id AS tenant_id,
       e.body ->> '$.name'             AS name,
       e.body ->> '$.status'           AS status,
       e.body ->> '$.homeRegion'       AS home_region,
       e.body ->> '$.residency.policy' AS residency,
       e.body ->> '$.zones'            AS zones,
       e.body ->> '$.pin.shardID'      AS pinned_to,
       e.body ->> '$.limits'           AS limits,
       e.body ->> '$.createdAt'        AS created_at,
       r.version
FROM records r JOIN events e ON e.sequence = r.sequence
WHERE r.kind = 1 AND r.live;

CREATE VIEW view_routes AS
SELECT r.id AS tenant_id,
       s.value ->> '$.slice'    AS slice,
       s.value ->> '$.shardID'  AS shard_id,
       s.value ->> '$.epoch'    AS epoch,
       s.value ->> '$.placedAt' AS placed_at
FROM records r JOIN events e ON e.sequence = r.sequence, json_each(e.body, '$.slices') s
WHERE r.kind = 1 AND r.live;

CREATE VIEW view_shards AS
SELECT r.id AS shard_id,
       e.body ->> '$.region'    AS region,
       e.body ->> '$.zones'     AS zones,
       e.body ->> '$.weight'    AS weight,
       e.body ->> '$.state'     AS state,
       e.body ->> '$.pressure'  AS pressure,
       coalesce(t.count, 0)     AS slices,
       e.body ->> '$.maxSlices' AS max_slices,
       e.body ->> '$.url'       AS url,
       r.version
FROM records r JOIN events e ON e.sequence = r.sequence
LEFT JOIN tallies t ON t.kind = 1 AND t.tally = 'shard:' || r.id
WHERE r.kind = 2 AND r.live;

CREATE VIEW view_keys AS
SELECT r.id AS key_id,
       e.body ->> '$.tenantID'  AS tenant_id,
       e.body ->> '$.name'      AS name,
       e.body ->> '$.hint'      AS hint,
       e.body ->> '$.scopes'    AS scopes,
       e.body ->> '$.expiresAt' AS expires_at,
       e.body ->> '$.revokedAt' AS revoked_at
FROM records r JOIN events e ON e.sequence = r.sequence
WHERE r.kind = 3 AND r.live;

CREATE VIEW view_events AS
SELECT e.sequence,
       datetime(c.at_ms / 1000, 'unixepoch') AS at,
       a.actor ->> '$.name' AS actor,
       c.action,
       c.reason,
       CASE e.kind WHEN 1 THEN 'tenant' WHEN 2 THEN 'shard' WHEN 3 THEN 'key'
                   WHEN 4 THEN 'token' WHEN 5 THEN 'fleet' END AS kind,
       e.id,
       e.version,
       p.body AS before,
       e.body AS after
FROM events e CROSS JOIN commits c ON c.revision = e.revision
CROSS JOIN actors a ON a.id = c.actor
LEFT JOIN events p ON p.sequence = e.previous;
