-- What organisation, engines, channels and everyday use need on the tables there are. Words whose
-- list may grow have no CHECK: a CHECK cannot be changed without making its table anew, and whoever
-- reads a word it does not know says so.

-- Items. `kind` and `cause`: what it is there for, a word and, where more belongs to it, that as
-- JSON; the program has the list of words. They are derived here, once, from what said it before: the
-- kind of a command and its text, the approval and the call of an item that was there to run one.
ALTER TABLE items ADD COLUMN word TEXT NOT NULL DEFAULT 'message';
ALTER TABLE items ADD COLUMN cause TEXT;
UPDATE items SET word = 'approved', cause = json_quote(approval) WHERE approval IS NOT NULL;
UPDATE items SET word = 'again', cause = json_object(
        'call', json_extract(again, '$.again.call_id'), 'turn', json_extract(again, '$.again.turn'))
    WHERE again IS NOT NULL;
UPDATE items SET word = 'command', cause = (
    WITH
    -- Without the blanks around it; every blank of the copy is a space, to find the first word.
    line (text, plain) AS (
        SELECT trim(body, ' ' || char(9, 10, 13)),
            replace(replace(replace(trim(body, ' ' || char(9, 10, 13)),
                char(9), ' '), char(10), ' '), char(13), ' ') || ' '
    ),
    said (word, rest) AS (
        SELECT substr(text, 1, instr(plain, ' ') - 1),
            nullif(trim(substr(text, instr(plain, ' ')), ' ' || char(9, 10, 13)), '')
        FROM line
    )
    SELECT CASE lower(word)
        WHEN '/stop' THEN '"stop"'
        WHEN '/abort' THEN '"stop"'
        WHEN '/new' THEN json_object('new', json_object('rest', rest))
        WHEN '/reset' THEN json_object('new', json_object('rest', rest))
        WHEN '/model' THEN json_object('model', json_object('wanted', rest))
        WHEN '/think' THEN json_object('think', json_object('wanted', rest))
        WHEN '/compact' THEN json_object('compact', json_object('keep', rest))
        WHEN '/status' THEN '"status"'
        WHEN '/help' THEN '"help"'
        ELSE json_object('unknown', json_object('word', word))
    END FROM said
) WHERE kind = 'command';
ALTER TABLE items DROP COLUMN kind;
ALTER TABLE items RENAME COLUMN word TO kind;

-- `parent_item`: the item whose turn made this one. `origin_*`: the person at the root of
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

-- An approved call runs on behalf of whoever had asked for it first.
UPDATE items SET origin_principal = (
        SELECT substr(a.asked_by, 1, instr(a.asked_by || ', ', ', ') - 1)
        FROM approvals a WHERE a.id = items.approval)
    WHERE approval IS NOT NULL;
ALTER TABLE items DROP COLUMN approval;
ALTER TABLE items DROP COLUMN again;

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
CREATE INDEX outbox_pending ON outbox (channel, seq) WHERE state = 'pending';
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

-- Calls. `own`: an engine with a loop of its own asked for it; it is never run again by us.
ALTER TABLE calls ADD COLUMN own BIGINT NOT NULL DEFAULT 0;

-- Turns. `node`: the process that runs it; `lease_until`: until then no other takes it. NULL: taken
-- by a program without leases, which runs no longer.
ALTER TABLE turns ADD COLUMN node TEXT;
ALTER TABLE turns ADD COLUMN lease_until BIGINT;

-- A lane is held for one principal: the first where there were several, joined by commas.
UPDATE lanes SET held_by = substr(held_by, 1, instr(held_by || ', ', ', ') - 1)
    WHERE held_by IS NOT NULL;

-- `asked_by`: a list, as JSON.
UPDATE approvals SET asked_by = CASE asked_by WHEN '' THEN '[]'
    ELSE '[' || replace(json_quote(asked_by), ', ', '","') || ']' END;

-- What was decided about a call says what kind of decision it is.
UPDATE calls SET decision = CASE
        WHEN json_type(decision, '$.approval') = 'text' THEN json_object('approval', json_object(
            'id', json_extract(decision, '$.approval'),
            'approve', json(CASE WHEN json_extract(decision, '$.approve') = 1 THEN 'true'
                ELSE 'false' END),
            'by', coalesce(json_extract(decision, '$.by'), 'somebody'),
            'note', json_extract(decision, '$.note')))
        ELSE json_object('tool', json(decision)) END
    WHERE decision IS NOT NULL;

-- Approvals of one call, or of a change to the organisation.
ALTER TABLE approvals ADD COLUMN kind TEXT NOT NULL DEFAULT 'call'
    CHECK (kind IN ('call', 'shape'));

-- Whatever goes by agent goes by its id: the name may be another agent's by now.
-- Events. `agent`: NULL where it is the hive as a whole. All else about an event stands in its body.
CREATE TABLE events_by_agent (
    seq   INTEGER PRIMARY KEY,
    at    BIGINT  NOT NULL,
    agent BIGINT,
    body  TEXT    NOT NULL
);
INSERT INTO events_by_agent
    SELECT e.seq, e.at, (SELECT id FROM agents WHERE name = e.agent AND removed_at IS NULL),
        e.body
    FROM events e ORDER BY e.seq;
DROP TABLE events;
ALTER TABLE events_by_agent RENAME TO events;

-- Tokens. `agent`: whose engine's child holds it; 0 where there was none of that name.
CREATE TABLE tokens_by_agent (
    id         TEXT    PRIMARY KEY,
    name       TEXT    NOT NULL,
    role       TEXT    NOT NULL CHECK
        (role IN ('operator', 'user', 'viewer', 'channel', 'agent')),
    prefix     TEXT    CHECK ((role = 'channel') = (prefix IS NOT NULL)),
    agent      BIGINT  CHECK ((role = 'agent') = (agent IS NOT NULL)),
    hash       BLOB    NOT NULL UNIQUE,
    created_at BIGINT  NOT NULL,
    revoked_at BIGINT
);
INSERT INTO tokens_by_agent
    SELECT t.id, t.name, t.role, t.prefix,
        CASE WHEN t.agent IS NOT NULL
            THEN coalesce((SELECT id FROM agents WHERE name = t.agent AND removed_at IS NULL), 0)
            END,
        t.hash, t.created_at, t.revoked_at
    FROM tokens t;
DROP TABLE tokens;
ALTER TABLE tokens_by_agent RENAME TO tokens;

-- The audit trail. A row with an `agent_id` is sealed with it; those that are there were sealed
-- without, and keep it so.
ALTER TABLE audit ADD COLUMN agent_id BIGINT;

-- Ids that senders gave count for one agent: `api/<principal>/<agent>`.
UPDATE requests SET scope = (
        SELECT substr(requests.scope, 1, length(requests.scope) - length(a.name)) || a.id
        FROM items i JOIN agents a ON a.id = i.agent WHERE i.id = requests.item)
    WHERE scope LIKE 'api/%' AND item IN (SELECT id FROM items);

-- Requests with a key that are no messages have no item. `answer`: what they were answered, as
-- JSON; NULL: they are carried out, or the hive stopped while they were.
ALTER TABLE requests ADD COLUMN answer TEXT;
