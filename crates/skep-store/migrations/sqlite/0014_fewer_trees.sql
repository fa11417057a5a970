-- Every index is a page more in each commit of a turn. Frames and remembered ids lie under the key
-- they are found by, without a number of their own, and refer to what the same commit has just read or
-- written; events are let go in the order of their numbers.
DROP INDEX events_at;

CREATE TABLE outbox_by_channel (
    channel TEXT    NOT NULL,
    seq     BIGINT  NOT NULL,
    id      TEXT    NOT NULL,
    kind    TEXT    NOT NULL CHECK (kind IN ('ack', 'response', 'error')),
    item    TEXT    NOT NULL,
    at      BIGINT  NOT NULL,
    payload TEXT    NOT NULL,
    PRIMARY KEY (channel, seq)
) WITHOUT ROWID;
INSERT INTO outbox_by_channel SELECT channel, seq, id, kind, item, at, payload FROM outbox;
DROP TABLE outbox;
ALTER TABLE outbox_by_channel RENAME TO outbox;
CREATE INDEX outbox_item ON outbox (item, channel);
CREATE INDEX outbox_at ON outbox (at);

CREATE TABLE requests_by_id (
    scope      TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    body_hash  BLOB    NOT NULL,
    item       TEXT    NOT NULL,
    created_at BIGINT  NOT NULL,
    PRIMARY KEY (scope, id)
) WITHOUT ROWID;
INSERT INTO requests_by_id SELECT scope, id, body_hash, item, created_at FROM requests;
DROP TABLE requests;
ALTER TABLE requests_by_id RENAME TO requests;
CREATE INDEX requests_created ON requests (created_at);
