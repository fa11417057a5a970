-- A person's decision on one call. `hash` binds it to the agent, the tool, the exact arguments,
-- the folder and the files they name. `number` orders approvals and pages them.
-- open → approved | denied | withdrawn | expired; expired → open (reopened) → approved | denied.
CREATE TABLE approvals (
    number       INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL,
    agent        BIGINT  NOT NULL REFERENCES agents (id),
    session      TEXT    NOT NULL,
    session_key  TEXT    NOT NULL,
    item         TEXT,
    turn         TEXT    NOT NULL REFERENCES turns (id),
    call_id      TEXT    NOT NULL,
    tool         TEXT    NOT NULL,
    class        TEXT    NOT NULL,
    arguments    TEXT    NOT NULL,
    cwd          TEXT    NOT NULL,
    files        TEXT    NOT NULL,
    hash         TEXT    NOT NULL,
    why          TEXT    NOT NULL,
    state        TEXT    NOT NULL CHECK
        (state IN ('open', 'approved', 'denied', 'expired', 'withdrawn')),
    reopened     BIGINT  NOT NULL DEFAULT 0,
    asked_by     TEXT    NOT NULL,
    asked_at     BIGINT  NOT NULL,
    expires_at   BIGINT  NOT NULL,
    decided_by   TEXT,
    decided_at   BIGINT,
    decided_from TEXT,
    scope        TEXT    CHECK (scope IN ('once', 'session', 'always')),
    pattern      TEXT,
    note         TEXT,
    used_at      BIGINT
);
CREATE UNIQUE INDEX approvals_id ON approvals (id);
CREATE INDEX approvals_state ON approvals (state, number);
CREATE INDEX approvals_agent ON approvals (agent, state, number);
CREATE INDEX approvals_turn ON approvals (turn, call_id);
CREATE INDEX approvals_due ON approvals (state, reopened, expires_at);

-- What was allowed for a time or for a session. It answers questions and lifts no refusal.
CREATE TABLE grants (
    id         TEXT    PRIMARY KEY,
    agent      BIGINT  NOT NULL REFERENCES agents (id),
    session    TEXT,
    tool       TEXT    NOT NULL,
    path       TEXT,
    command    TEXT,
    host       TEXT,
    grants     TEXT    NOT NULL,
    made_by    TEXT    NOT NULL,
    made_at    BIGINT  NOT NULL,
    until      BIGINT,
    revoked_at BIGINT
);
CREATE INDEX grants_agent ON grants (agent, made_at) WHERE revoked_at IS NULL;

-- An item that runs the call of an approval.
ALTER TABLE items ADD COLUMN approval TEXT;
