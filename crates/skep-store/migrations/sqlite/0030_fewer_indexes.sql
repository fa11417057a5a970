-- Every index is a page more in each commit of a turn.

-- A running item is found by its open turn: it comes into the index of states when it has ended, once.
-- Items of an agent are those of its states.
DROP INDEX items_agent;
DROP INDEX items_state;
CREATE INDEX items_state ON items (agent, state, ord) WHERE state <> 'running';

-- The operator sees everything and never asks for what the operator sent.
DROP INDEX items_principal;
CREATE INDEX items_principal ON items (principal, ord) WHERE principal <> 'operator';
