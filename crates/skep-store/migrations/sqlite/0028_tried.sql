-- A channel says up to which of its frames each was tried: one write for all of them. Only what is
-- out of that order stands in a frame's row: to be tried again, refused, or sent before its turn.
ALTER TABLE channels ADD COLUMN tried_seq BIGINT NOT NULL DEFAULT 0;
UPDATE channels SET tried_seq = coalesce((SELECT min(o.seq) - 1 FROM outbox o
        WHERE o.channel = channels.id AND o.state = 'pending' AND o.attempts = 0), last_seq);
DROP INDEX outbox_pending;
CREATE INDEX outbox_put_off ON outbox (channel, seq) WHERE state = 'pending' AND attempts > 0;
