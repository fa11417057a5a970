-- What an agent that has none above it asks for is a task of the operator: `agent` is 0, which is
-- no agent's, and there is no item. `body`: the words, `answered_by`: who gave the answer.
ALTER TABLE tasks ADD COLUMN body TEXT;
ALTER TABLE tasks ADD COLUMN answered_by TEXT;
