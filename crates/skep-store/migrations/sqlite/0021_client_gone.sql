-- 1: `cancel` is 'stop' because the client that waited for the answer has gone.
ALTER TABLE turns ADD COLUMN client_gone BIGINT NOT NULL DEFAULT 0;
