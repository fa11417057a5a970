-- Values that agents and profiles use: sealed by the hive, with a key that is not in the home.
CREATE TABLE vault (
    -- An agent, or 0: the hive.
    owner BIGINT NOT NULL,
    name TEXT NOT NULL,
    key_id TEXT NOT NULL,
    sealed BLOB NOT NULL,
    -- Set by a person: agents use it and never see it.
    secret BOOLEAN NOT NULL,
    -- Where it may be sent, as a JSON list.
    hosts TEXT NOT NULL,
    set_at BIGINT NOT NULL,
    used_at BIGINT,
    PRIMARY KEY (owner, name)
);
