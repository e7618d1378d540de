-- Executions of workflows. The entries are the truth: what else is kept of an
-- execution says how far they have come, who may append, and what to show.

CREATE TABLE definitions (
    hash TEXT PRIMARY KEY,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE deployments (
    name  TEXT PRIMARY KEY,
    hash  TEXT    NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;

-- AUTOINCREMENT: a number is a place in lists and never comes again, also
-- when the last execution has been forgotten.
CREATE TABLE executions (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT    NOT NULL UNIQUE,
    workflow        TEXT    NOT NULL,
    definition      TEXT    NOT NULL,  -- its hash
    created_at_ms   INTEGER NOT NULL,
    status          INTEGER NOT NULL,  -- 1 running, 2 succeeded, 3 failed, 4 timed out, 5 aborted
    paused          INTEGER NOT NULL,
    ended_at_ms     INTEGER,
    next_seq        INTEGER NOT NULL,
    next_history_id INTEGER NOT NULL,
    fence           INTEGER NOT NULL,  -- of the last lease
    worker          TEXT,              -- who holds it
    due_at_ms       INTEGER,           -- when it may be claimed; held: when the lease runs out
    posted          INTEGER NOT NULL,  -- the last message's number
    posted_at_ms    INTEGER NOT NULL,
    taken           INTEGER NOT NULL,  -- the last message that was read
    position        TEXT    NOT NULL   -- JSON
) STRICT;
CREATE INDEX executions_of_workflow ON executions (workflow);
CREATE INDEX executions_by_status   ON executions (status);
CREATE INDEX executions_of_both     ON executions (workflow, status);
CREATE INDEX executions_due   ON executions (due_at_ms)   WHERE due_at_ms IS NOT NULL;
CREATE INDEX executions_ended ON executions (ended_at_ms) WHERE ended_at_ms IS NOT NULL;

-- Apart from the executions, because those are rewritten at every step.
CREATE TABLE payloads (
    execution INTEGER PRIMARY KEY,
    input     TEXT NOT NULL,
    outcome   TEXT
) STRICT;

-- One row per entry. The key is the execution's number times 2^24 plus the
-- entry's seq: a journal lies together, and needs no index beside it.
CREATE TABLE entries (
    key              INTEGER PRIMARY KEY,
    at_ms            INTEGER NOT NULL,
    first_history_id INTEGER NOT NULL, -- of its first history event, or of the next entry's
    event            TEXT    NOT NULL, -- JSON
    history          TEXT    NOT NULL  -- JSON texts with U+001E between them
) STRICT;

CREATE TABLE snapshots (
    execution INTEGER PRIMARY KEY,
    seq       INTEGER NOT NULL,        -- the last entry that is in it
    text      TEXT    NOT NULL
) STRICT;

CREATE TABLE messages (
    execution INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    at_ms     INTEGER NOT NULL,
    body      TEXT    NOT NULL,
    UNIQUE (execution, number),
    UNIQUE (execution, key)
) STRICT;

-- How many executions there are of each status.
CREATE TABLE tallies (
    status INTEGER PRIMARY KEY,
    count  INTEGER NOT NULL
) STRICT;
