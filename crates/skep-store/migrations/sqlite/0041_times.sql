-- When a model call began, spoke first and ended: of the call whose message the row is. `model_tries`:
-- how often it was begun until the message came. They are columns of a row that is written anyway.
ALTER TABLE history ADD COLUMN model_began BIGINT;
ALTER TABLE history ADD COLUMN model_first BIGINT;
ALTER TABLE history ADD COLUMN model_ended BIGINT;
ALTER TABLE history ADD COLUMN model_tries BIGINT;
-- When a tool call was first marked as started; `changed_at` of one that is over is its end.
ALTER TABLE calls ADD COLUMN started_at BIGINT;
