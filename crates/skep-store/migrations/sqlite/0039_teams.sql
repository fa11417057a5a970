-- What a team takes work for, in words that the agent above it chose.
CREATE TABLE agent_scope (
    agent BIGINT NOT NULL,
    word  TEXT   NOT NULL,
    PRIMARY KEY (agent, word)
) WITHOUT ROWID;

-- Changes of the tree that take several commits and files. `id`: of the call or the request that
-- wants it, so that it happens once. `kind`: spawn, shutdown. `name`: whom it makes or removes.
-- `result`: the answer, once it has ended.
CREATE TABLE org_ops (
    id        TEXT   PRIMARY KEY,
    kind      TEXT   NOT NULL,
    name      TEXT   NOT NULL,
    wanted_by TEXT   NOT NULL,
    result    TEXT,
    begun_at  BIGINT NOT NULL,
    ended_at  BIGINT
) WITHOUT ROWID;
CREATE UNIQUE INDEX org_ops_open ON org_ops (name) WHERE ended_at IS NULL;

-- `spawning`: the change that makes the agent and has not ended; `closing`: the one that removes it.
-- `bootstrapped`: it needs no first item, or that has ended well.
ALTER TABLE agents ADD COLUMN spawning TEXT;
ALTER TABLE agents ADD COLUMN closing TEXT;
ALTER TABLE agents ADD COLUMN bootstrapped BIGINT NOT NULL DEFAULT 1;
