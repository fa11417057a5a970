-- How often an agent may still ask a host: what was left, and when. A row older than a minute says
-- nothing any more.
CREATE TABLE egress_buckets (
    agent BIGINT NOT NULL,
    host TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (agent, host)
);
CREATE INDEX egress_buckets_at ON egress_buckets (at);
