-- Calls that broke off or were lost with their process: what they may have used, as we count, by hour,
-- agent and profile. `cost` in billionths of a dollar, of those whose price is known.
CREATE TABLE unsettled_hours (
    hour            BIGINT  NOT NULL,
    agent           BIGINT  NOT NULL REFERENCES agents (id),
    profile         TEXT    NOT NULL,
    calls           BIGINT  NOT NULL,
    tokens          BIGINT  NOT NULL,
    cost            BIGINT  NOT NULL,
    unpriced_calls  BIGINT  NOT NULL,
    unpriced_tokens BIGINT  NOT NULL,
    PRIMARY KEY (hour, agent, profile)
) WITHOUT ROWID;

-- The process ended while the turn ran: a model call may have been under way.
ALTER TABLE turns ADD COLUMN lost BIGINT NOT NULL DEFAULT 0;
