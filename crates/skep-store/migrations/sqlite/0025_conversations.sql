-- Conversations that a person names, pins, archives and deletes.

-- `deleted_at`: everything that was said in it is gone. The row stays for the turns that belong to it: the
-- audit trail names them.
ALTER TABLE sessions ADD COLUMN deleted_at BIGINT;

-- The list: pinned ones first, then the latest.
DROP INDEX sessions_recent;
CREATE INDEX sessions_recent ON sessions (agent, (pinned_at IS NOT NULL), last_at, id)
    WHERE deleted_at IS NULL;
