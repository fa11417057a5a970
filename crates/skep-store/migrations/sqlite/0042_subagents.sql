-- Lanes and sessions of subagents stand apart: each has one task, in a session of its own that is no
-- conversation of a person, and none waits until its agent has a turn to spare.
ALTER TABLE lanes ADD COLUMN apart BIGINT NOT NULL DEFAULT 0;
CREATE INDEX lanes_apart ON lanes (agent, ready_priority, ready_ord)
    WHERE apart = 1 AND ready_priority IS NOT NULL;
ALTER TABLE sessions ADD COLUMN apart BIGINT NOT NULL DEFAULT 0;

-- The list of conversations.
DROP INDEX sessions_recent;
CREATE INDEX sessions_recent ON sessions (agent, (pinned_at IS NOT NULL), last_at, id)
    WHERE deleted_at IS NULL AND apart = 0;
