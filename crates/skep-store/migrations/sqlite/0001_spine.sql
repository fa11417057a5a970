-- Times are milliseconds since the epoch. `ord` and `seq` are given by the writer and order rows.
-- Priorities: 0 critical, 1 high, 2 normal, 3 low.

-- `pending`, `running`, `waiting` count items; `ready_priority` is that of its best ready lane.
CREATE TABLE agents (
    id             INTEGER PRIMARY KEY,
    name           TEXT    NOT NULL,
    created_at     BIGINT  NOT NULL,
    removed_at     BIGINT,
    status         TEXT    NOT NULL DEFAULT '' CHECK (status IN ('', 'active', 'failed')),
    status_reason  TEXT,
    pending        BIGINT  NOT NULL DEFAULT 0,
    running        BIGINT  NOT NULL DEFAULT 0,
    waiting        BIGINT  NOT NULL DEFAULT 0,
    turns          BIGINT  NOT NULL DEFAULT 0,
    ready_priority BIGINT,
    served         BIGINT  NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX agents_name ON agents (name) WHERE removed_at IS NULL;
CREATE INDEX agents_ready ON agents (ready_priority, served) WHERE ready_priority IS NOT NULL;

CREATE TABLE sessions (
    id         TEXT    PRIMARY KEY,
    agent      BIGINT  NOT NULL REFERENCES agents (id),
    key        TEXT    NOT NULL,
    created_at BIGINT  NOT NULL,
    last_at    BIGINT  NOT NULL,
    last_seq   BIGINT  NOT NULL DEFAULT 0
);

-- A lane is an agent and a session key: what may run only one turn at a time.
-- `due_at`: a retrying or parked turn holds it until then. `pending`: items without a turn.
-- `fresh`: the next message accepted begins a new session.
CREATE TABLE lanes (
    id             INTEGER PRIMARY KEY,
    agent          BIGINT  NOT NULL REFERENCES agents (id),
    key            TEXT    NOT NULL,
    session        TEXT    REFERENCES sessions (id),
    fresh          BIGINT  NOT NULL DEFAULT 0,
    token          BIGINT  NOT NULL DEFAULT 0,
    pending        BIGINT  NOT NULL DEFAULT 0,
    ready_priority BIGINT,
    ready_ord      BIGINT,
    due_at         BIGINT
);
CREATE UNIQUE INDEX lanes_key ON lanes (agent, key);
CREATE INDEX lanes_ready ON lanes (agent, ready_priority, ready_ord)
    WHERE ready_priority IS NOT NULL;
CREATE INDEX lanes_due ON lanes (due_at) WHERE due_at IS NOT NULL;

-- `steps` counts model calls. `marks` counts journalled rows, `marks_leased` those at the last
-- lease: one that ends with no more has made no progress.
CREATE TABLE turns (
    id           TEXT    PRIMARY KEY,
    lane         BIGINT  NOT NULL REFERENCES lanes (id),
    agent        BIGINT  NOT NULL REFERENCES agents (id),
    session      TEXT    NOT NULL REFERENCES sessions (id),
    priority     BIGINT  NOT NULL,
    ord          BIGINT  NOT NULL,
    token        BIGINT  NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('ready', 'running', 'waiting', 'ended')),
    cancel       TEXT    CHECK (cancel IN ('stop', 'interrupt')),
    first_seq    BIGINT  NOT NULL,
    steps        BIGINT  NOT NULL DEFAULT 0,
    marks        BIGINT  NOT NULL DEFAULT 0,
    marks_leased BIGINT  NOT NULL DEFAULT 0,
    attempts     BIGINT  NOT NULL DEFAULT 0,
    active_ms    BIGINT  NOT NULL DEFAULT 0,
    available_at BIGINT,
    waiting_for  TEXT,
    outcome      TEXT,
    answer       TEXT,
    error        TEXT,
    started_at   BIGINT  NOT NULL,
    changed_at   BIGINT  NOT NULL,
    ended_at     BIGINT
);
CREATE UNIQUE INDEX turns_open ON turns (lane) WHERE ended_at IS NULL;

-- `fresh`: its turn begins a new session; it never joins one that runs.
CREATE TABLE items (
    id          TEXT    PRIMARY KEY,
    ord         BIGINT  NOT NULL,
    agent       BIGINT  NOT NULL REFERENCES agents (id),
    lane        BIGINT  NOT NULL REFERENCES lanes (id),
    kind        TEXT    NOT NULL CHECK (kind IN ('message', 'command')),
    priority    BIGINT  NOT NULL,
    message_id  TEXT    NOT NULL,
    principal   TEXT    NOT NULL,
    channel     TEXT    REFERENCES channels (id),
    body        TEXT    NOT NULL,
    ack         TEXT    NOT NULL,
    note        TEXT,
    fresh       BIGINT  NOT NULL DEFAULT 0,
    state       TEXT    NOT NULL CHECK
        (state IN ('pending', 'running', 'waiting', 'done', 'failed', 'cancelled', 'dead')),
    turn        TEXT    REFERENCES turns (id),
    result      TEXT,
    error_code  TEXT,
    error       TEXT,
    created_at  BIGINT  NOT NULL,
    started_at  BIGINT,
    finished_at BIGINT
);
CREATE UNIQUE INDEX items_ord ON items (ord);
CREATE INDEX items_next ON items (lane, priority, ord) WHERE state = 'pending' AND turn IS NULL;
CREATE INDEX items_turn ON items (turn, ord) WHERE turn IS NOT NULL;
CREATE INDEX items_agent ON items (agent, ord);
CREATE INDEX items_state ON items (agent, state, ord);
CREATE INDEX items_message ON items (message_id, agent, ord);

-- Ids that senders gave: the same id with the same body is the same message.
CREATE TABLE requests (
    scope      TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    body_hash  BLOB    NOT NULL,
    item       TEXT    NOT NULL REFERENCES items (id),
    created_at BIGINT  NOT NULL,
    PRIMARY KEY (scope, id)
);
CREATE INDEX requests_created ON requests (created_at);

-- `spoken`: the row has its place in the simple view. Rows lie in the order of their session, so
-- that a page is one walk.
CREATE TABLE history (
    session TEXT    NOT NULL REFERENCES sessions (id),
    seq     BIGINT  NOT NULL,
    id      TEXT    NOT NULL,
    turn    TEXT    NOT NULL REFERENCES turns (id),
    at      BIGINT  NOT NULL,
    spoken  BIGINT  NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE INDEX history_spoken ON history (session, seq) WHERE spoken = 1;

-- The journal of tool calls: with the history rows it says where a turn goes on.
CREATE TABLE calls (
    turn       TEXT    NOT NULL REFERENCES turns (id),
    call_id    TEXT    NOT NULL,
    seq        BIGINT  NOT NULL,
    position   BIGINT  NOT NULL,
    tool       TEXT    NOT NULL,
    retry_safe BIGINT  NOT NULL,
    state      TEXT    NOT NULL CHECK
        (state IN ('planned', 'started', 'done', 'unknown', 'waiting')),
    reason     TEXT,
    decision   TEXT,
    changed_at BIGINT  NOT NULL,
    PRIMARY KEY (turn, call_id)
);
CREATE INDEX calls_unknown ON calls (changed_at) WHERE state = 'unknown';

CREATE TABLE channels (
    id            TEXT    PRIMARY KEY,
    principal     TEXT    NOT NULL,
    last_seq      BIGINT  NOT NULL DEFAULT 0,
    delivered_seq BIGINT  NOT NULL DEFAULT 0,
    floor_seq     BIGINT  NOT NULL DEFAULT 0,
    created_at    BIGINT  NOT NULL
);

CREATE TABLE outbox (
    channel TEXT    NOT NULL REFERENCES channels (id),
    seq     BIGINT  NOT NULL,
    id      TEXT    NOT NULL,
    kind    TEXT    NOT NULL CHECK (kind IN ('ack', 'response', 'error')),
    item    TEXT    NOT NULL REFERENCES items (id),
    at      BIGINT  NOT NULL,
    payload TEXT    NOT NULL,
    PRIMARY KEY (channel, seq)
);
CREATE INDEX outbox_item ON outbox (item, channel);
CREATE INDEX outbox_at ON outbox (at);

CREATE TABLE events (
    seq     INTEGER PRIMARY KEY,
    at      BIGINT  NOT NULL,
    agent   TEXT    NOT NULL,
    session TEXT,
    turn    TEXT,
    kind    TEXT    NOT NULL,
    body    TEXT    NOT NULL
);
CREATE INDEX events_at ON events (at);

CREATE TABLE audit (
    id        INTEGER PRIMARY KEY,
    at        BIGINT  NOT NULL,
    turn      TEXT    NOT NULL,
    agent     BIGINT  NOT NULL,
    call_id   TEXT    NOT NULL,
    tool      TEXT    NOT NULL,
    arguments TEXT    NOT NULL,
    decision  TEXT    NOT NULL,
    outcome   TEXT    NOT NULL,
    took_ms   BIGINT  NOT NULL,
    bytes     BIGINT  NOT NULL
);
CREATE INDEX audit_turn ON audit (turn);

CREATE TABLE tokens (
    id         TEXT    PRIMARY KEY,
    name       TEXT    NOT NULL,
    role       TEXT    NOT NULL CHECK (role IN ('operator')),
    hash       BLOB    NOT NULL UNIQUE,
    created_at BIGINT  NOT NULL,
    revoked_at BIGINT
);
