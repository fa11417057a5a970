-- Every index is a page more in each commit of a turn.

-- A running item is found by its open turn: it comes into the index of states when it has ended, once.
-- Items of an agent are those of its states.
DROP INDEX items_agent;
DROP INDEX items_state;
CREATE INDEX items_state ON items (agent, state, ord) WHERE state <> 'running';

-- The operator sees everything and never asks for what the operator sent.
DROP INDEX items_principal;
CREATE INDEX items_principal ON items (principal, ord) WHERE principal <> 'operator';

-- A list of more than two words makes a table of its own each time it is looked at, so a CHECK with one
-- costs every row that is written more than its index does. The same words, one by one: what a table
-- holds does not change, and neither does what it refuses.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    '(state IN (''pending'', ''running'', ''waiting'', ''done'', ''failed'', ''cancelled'', ''dead''))',
    '(state = ''pending'' OR state = ''running'' OR state = ''waiting'' OR state = ''done'' OR '
    || 'state = ''failed'' OR state = ''cancelled'' OR state = ''dead'')')
    WHERE type = 'table' AND name = 'items';
UPDATE sqlite_schema SET sql = replace(sql,
    '(state IN (''ready'', ''running'', ''waiting'', ''ended''))',
    '(state = ''ready'' OR state = ''running'' OR state = ''waiting'' OR state = ''ended'')')
    WHERE type = 'table' AND name = 'turns';
UPDATE sqlite_schema SET sql = replace(sql,
    '(state IN (''pending'', ''delivered'', ''refused''))',
    '(state = ''pending'' OR state = ''delivered'' OR state = ''refused'')')
    WHERE type = 'table' AND name = 'outbox';
UPDATE sqlite_schema SET sql = replace(sql,
    '(state IN (''planned'', ''started'', ''done'', ''unknown'', ''waiting''))',
    '(state = ''planned'' OR state = ''started'' OR state = ''done'' OR state = ''unknown'' OR '
    || 'state = ''waiting'')')
    WHERE type = 'table' AND name = 'calls';
UPDATE sqlite_schema SET sql = replace(sql,
    '(resolved IN (''happened'', ''did_not'', ''run_again''))',
    '(resolved = ''happened'' OR resolved = ''did_not'' OR resolved = ''run_again'')')
    WHERE type = 'table' AND name = 'calls';
PRAGMA writable_schema = RESET;

-- Remembered ids lie by the id itself: those of one moment are neighbours, whoever gave them.
CREATE TABLE requests_by_own_id (
    id         TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    body_hash  BLOB    NOT NULL,
    item       TEXT    NOT NULL,
    created_at BIGINT  NOT NULL,
    answer     TEXT,
    PRIMARY KEY (id, scope)
) WITHOUT ROWID;
INSERT INTO requests_by_own_id
    SELECT id, scope, body_hash, item, created_at, answer FROM requests;
DROP TABLE requests;
ALTER TABLE requests_by_own_id RENAME TO requests;
CREATE INDEX requests_created ON requests (created_at);
