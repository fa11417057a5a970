-- `held_by`: the lane has work, and its sender runs as many turns as one may.
ALTER TABLE lanes ADD COLUMN held_by TEXT;
CREATE INDEX lanes_held ON lanes (held_by, ready_ord) WHERE held_by IS NOT NULL;

-- What people with a limit have stored.
CREATE TABLE storage (
    principal TEXT   PRIMARY KEY,
    bytes     BIGINT NOT NULL
) WITHOUT ROWID;
INSERT INTO storage SELECT principal, sum(length(body) + 512) FROM items
    WHERE principal LIKE 'token:%' OR principal LIKE 'person:%' GROUP BY principal;
