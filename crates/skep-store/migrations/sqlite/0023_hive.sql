-- What organisation, engines, channels and everyday use need on the tables there are. Words whose
-- list may grow have no CHECK: a CHECK cannot be changed without making its table anew, and whoever
-- reads a word it does not know says so.

-- Items. `parent_item`: the item whose turn made this one. `origin_*`: the person at the root of
-- the chain and where they are answered; NULL: the item's own principal and channel. `chain_root`:
-- the first item of the chain, NULL: this one; `hops`: how far it is from there. `options`: JSON.
-- `correlation`: what its answer names. `dedup`: of two items of an agent with the same one, the
-- second is not taken. `retry_of`: the item whose message this one sends again; `retried_by`: the
-- newest item that does so.
ALTER TABLE items ADD COLUMN parent_item TEXT;
ALTER TABLE items ADD COLUMN origin_channel TEXT;
ALTER TABLE items ADD COLUMN origin_topic TEXT;
ALTER TABLE items ADD COLUMN origin_principal TEXT;
ALTER TABLE items ADD COLUMN chain_root TEXT;
ALTER TABLE items ADD COLUMN hops BIGINT NOT NULL DEFAULT 0;
ALTER TABLE items ADD COLUMN options TEXT;
ALTER TABLE items ADD COLUMN correlation TEXT;
ALTER TABLE items ADD COLUMN dedup TEXT;
ALTER TABLE items ADD COLUMN retry_of TEXT;
ALTER TABLE items ADD COLUMN retried_by TEXT;
CREATE UNIQUE INDEX items_dedup ON items (agent, dedup) WHERE dedup IS NOT NULL;

UPDATE items SET retry_of = (SELECT r.original FROM retries r WHERE r.item = items.id)
    WHERE id IN (SELECT item FROM retries);
UPDATE items SET retried_by = (SELECT r.item FROM retries r WHERE r.original = items.id
        ORDER BY r.number DESC LIMIT 1)
    WHERE id IN (SELECT original FROM retries);
DROP TABLE retries;

-- Frames. `item`: NULL where a frame is about none. `state`: pending → delivered | refused;
-- `reason`: why it was refused. `next_at`: not to be tried before.
CREATE TABLE outbox_with_state (
    channel  TEXT    NOT NULL,
    seq      BIGINT  NOT NULL,
    id       TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    item     TEXT,
    at       BIGINT  NOT NULL,
    payload  TEXT    NOT NULL,
    state    TEXT    NOT NULL DEFAULT 'pending'
        CHECK (state IN ('pending', 'delivered', 'refused')),
    attempts BIGINT  NOT NULL DEFAULT 0,
    next_at  BIGINT,
    reason   TEXT,
    PRIMARY KEY (channel, seq)
) WITHOUT ROWID;
INSERT INTO outbox_with_state (channel, seq, id, kind, item, at, payload, state)
    SELECT o.channel, o.seq, o.id, o.kind, o.item, o.at, o.payload,
        CASE WHEN o.seq <= coalesce(c.delivered_seq, 0) THEN 'delivered' ELSE 'pending' END
    FROM outbox o LEFT JOIN channels c ON c.id = o.channel;
DROP TABLE outbox;
ALTER TABLE outbox_with_state RENAME TO outbox;
CREATE INDEX outbox_item ON outbox (item, channel);
CREATE INDEX outbox_at ON outbox (at);
ALTER TABLE channels DROP COLUMN delivered_seq;

-- Agents. `installed`: the settings name it. `failure`: why it cannot run, when it cannot. `wanted`:
-- what it is to be; a repaired agent is that again. What is shown follows from these three.
-- `parallel_one`: at most one turn of it runs at a time, over all of its lanes.
ALTER TABLE agents ADD COLUMN parent_id BIGINT REFERENCES agents (id);
ALTER TABLE agents ADD COLUMN wanted TEXT NOT NULL DEFAULT 'active'
    CHECK (wanted IN ('active', 'paused', 'stopped'));
ALTER TABLE agents ADD COLUMN installed BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN failure TEXT;
ALTER TABLE agents ADD COLUMN parallel_one BIGINT NOT NULL DEFAULT 0;
UPDATE agents SET installed = status <> '',
    failure = CASE WHEN status = 'failed' THEN coalesce(status_reason, '') END;
ALTER TABLE agents DROP COLUMN status;
ALTER TABLE agents DROP COLUMN status_reason;

-- Sessions. `engine`, `engine_session`: the engine's own session that goes on with this one;
-- `seen_seq`: the last row it has; `launch_hash`: what it was started with.
ALTER TABLE sessions ADD COLUMN engine TEXT;
ALTER TABLE sessions ADD COLUMN engine_session TEXT;
ALTER TABLE sessions ADD COLUMN seen_seq BIGINT;
ALTER TABLE sessions ADD COLUMN launch_hash TEXT;
ALTER TABLE sessions ADD COLUMN pinned_at BIGINT;
ALTER TABLE sessions ADD COLUMN archived_at BIGINT;

-- Turns. `node`: the process that runs it; `lease_until`: until then no other takes it. NULL: taken
-- by a program without leases, which runs no longer.
ALTER TABLE turns ADD COLUMN node TEXT;
ALTER TABLE turns ADD COLUMN lease_until BIGINT;

-- Approvals of one call, or of a change to the organisation.
ALTER TABLE approvals ADD COLUMN kind TEXT NOT NULL DEFAULT 'call'
    CHECK (kind IN ('call', 'shape'));
