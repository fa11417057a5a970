-- What a model is shown instead of the rows up to `upto`; the newest of a session counts. `seam`
-- is the row of history that tells of it, and holds the same notes.
CREATE TABLE compactions (
    session TEXT    NOT NULL REFERENCES sessions (id),
    seam    BIGINT  NOT NULL,
    upto    BIGINT  NOT NULL,
    turn    TEXT    NOT NULL REFERENCES turns (id),
    at      BIGINT  NOT NULL,
    reason  TEXT    NOT NULL CHECK (reason IN ('full', 'overflow', 'asked')),
    notes   TEXT    NOT NULL,
    PRIMARY KEY (session, seam)
) WITHOUT ROWID;

-- What model calls used, by day (days since the epoch, UTC), agent and profile. `cost` counts the
-- calls whose price is known, in billionths of a dollar; `unpriced_*` count the others.
CREATE TABLE spend (
    day             BIGINT  NOT NULL,
    agent           BIGINT  NOT NULL REFERENCES agents (id),
    profile         TEXT    NOT NULL,
    calls           BIGINT  NOT NULL,
    input           BIGINT  NOT NULL,
    output          BIGINT  NOT NULL,
    cache_read      BIGINT  NOT NULL,
    cache_write     BIGINT  NOT NULL,
    cost            BIGINT  NOT NULL,
    unpriced_calls  BIGINT  NOT NULL,
    unpriced_tokens BIGINT  NOT NULL,
    PRIMARY KEY (day, agent, profile)
) WITHOUT ROWID;
