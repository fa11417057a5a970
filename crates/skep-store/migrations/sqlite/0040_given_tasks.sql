-- What an agent gave and has not ended, and what it handed up. An index over all it ever gave was
-- searched for the tasks of one chain as well, at a cost that grew with every task.
DROP INDEX tasks_from;
CREATE INDEX tasks_given ON tasks (from_agent, created_at) WHERE state = 'open';
CREATE INDEX tasks_handed ON tasks (from_agent, created_at) WHERE kind = 'hand_up';
