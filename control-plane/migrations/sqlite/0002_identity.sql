-- Identifies this registry and its copies. Shards refuse another registry.
CREATE TABLE identity (
    only        INTEGER PRIMARY KEY CHECK (only = 1),
    registry_id TEXT NOT NULL
) STRICT;
INSERT INTO identity (only, registry_id) VALUES (1, lower(hex(randomblob(16))));
