-- Work that one agent gives another. `item`: the item of whoever does it, and the id of the task.
-- `root`: the first item of the chain. `parent_task`: the task in whose course it was given; NULL:
-- in the course of a message. `from_*`: the call that gave it, and the session that hears of its end.
-- `kind`: delegate, query, escalate, hand_up. `open`: what it gave itself and has not ended. `state`:
-- open → done | failed | cancelled; `code`: why it did not end well. Words whose list may grow have
-- no CHECK.
CREATE TABLE tasks (
    item        TEXT   PRIMARY KEY,
    root        TEXT   NOT NULL,
    parent_task TEXT,
    agent       BIGINT NOT NULL,
    from_agent  BIGINT NOT NULL,
    from_key    TEXT   NOT NULL,
    from_turn   TEXT   NOT NULL,
    from_call   TEXT   NOT NULL,
    kind        TEXT   NOT NULL,
    open        BIGINT NOT NULL DEFAULT 0,
    state       TEXT   NOT NULL DEFAULT 'open',
    result      TEXT,
    code        TEXT,
    created_at  BIGINT NOT NULL,
    deadline    BIGINT NOT NULL,
    ended_at    BIGINT
) WITHOUT ROWID;
CREATE INDEX tasks_root ON tasks (root, created_at);
CREATE INDEX tasks_call ON tasks (from_turn, from_call);
CREATE INDEX tasks_from ON tasks (from_agent, created_at);
CREATE INDEX tasks_open ON tasks (agent, created_at) WHERE state = 'open';
CREATE INDEX tasks_within ON tasks (parent_task) WHERE state = 'open';
CREATE INDEX tasks_deadline ON tasks (deadline) WHERE state = 'open';
CREATE INDEX tasks_ended ON tasks (agent, ended_at) WHERE ended_at IS NOT NULL;

-- Calls that wait for the answer of a task, until a time.
CREATE TABLE waits (
    turn  TEXT   NOT NULL,
    call  TEXT   NOT NULL,
    task  TEXT   NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (turn, call, task)
) WITHOUT ROWID;
CREATE UNIQUE INDEX waits_task ON waits (task);
CREATE INDEX waits_until ON waits (until);

-- How many items a chain has made. `noticed`: somebody was told that it may make no more.
CREATE TABLE chains (
    root    TEXT   PRIMARY KEY,
    items   BIGINT NOT NULL,
    noticed BIGINT NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Of an agent that runs one turn at a time (`parallel_one`): the turn that runs.
ALTER TABLE agents ADD COLUMN busy TEXT;
CREATE INDEX agents_parent ON agents (parent_id, name) WHERE parent_id IS NOT NULL;
