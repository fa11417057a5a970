-- What agents write to each other and to the operator. `id`: also its item's, in the inbox of whoever
-- it is for. `agent`: who that is, 0 the operator; `from_agent`: who wrote it, 0 the operator.
-- `thread`: the first message of it. `from_*`: the call that wrote it, and the session that reads what
-- is replied. `claim`: the call that read it in the middle of a turn, `turn/call`. `closed_at`: the
-- operator has replied, or put it away.
CREATE TABLE letters (
    id          TEXT   PRIMARY KEY,
    thread      TEXT   NOT NULL,
    in_reply_to TEXT,
    agent       BIGINT NOT NULL,
    from_agent  BIGINT NOT NULL,
    from_key    TEXT   NOT NULL,
    from_turn   TEXT   NOT NULL,
    from_call   TEXT   NOT NULL,
    body        TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    claim       TEXT,
    closed_at   BIGINT
) WITHOUT ROWID;
CREATE INDEX letters_call ON letters (from_turn, from_call);
CREATE INDEX letters_claim ON letters (claim, created_at) WHERE claim IS NOT NULL;
CREATE INDEX letters_operator ON letters (agent, created_at) WHERE agent = 0 AND closed_at IS NULL;
