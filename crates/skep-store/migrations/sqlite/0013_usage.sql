-- What model calls used, by hour (hours since the epoch, UTC), agent, profile and model. `turns`
-- counts those whose first answer came in that hour. `cost` counts the calls whose price is known,
-- in billionths of a dollar; `unpriced_*` count the others. It takes the place of the sums by day.
CREATE TABLE usage_hours (
    hour            BIGINT  NOT NULL,
    agent           BIGINT  NOT NULL REFERENCES agents (id),
    profile         TEXT    NOT NULL,
    model           TEXT    NOT NULL,
    calls           BIGINT  NOT NULL,
    turns           BIGINT  NOT NULL,
    input           BIGINT  NOT NULL,
    output          BIGINT  NOT NULL,
    cache_read      BIGINT  NOT NULL,
    cache_write     BIGINT  NOT NULL,
    cost            BIGINT  NOT NULL,
    unpriced_calls  BIGINT  NOT NULL,
    unpriced_tokens BIGINT  NOT NULL,
    PRIMARY KEY (hour, agent, profile, model)
) WITHOUT ROWID;

-- The hour, the model and the turns of what was summed by day are not known: it stands at the
-- beginning of its day.
INSERT INTO usage_hours
SELECT day * 24, agent, profile, '', calls, 0, input, output, cache_read, cache_write, cost,
       unpriced_calls, unpriced_tokens
FROM spend;

DROP TABLE spend;
