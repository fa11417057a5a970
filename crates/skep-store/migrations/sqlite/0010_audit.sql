-- The audit trail as a chain: `hash` seals a row and the one before it (SHA-256; how it is made is
-- told in docs/audit.md). Rows that are no call leave out what they do not have. A column cannot
-- lose its NOT NULL, so the table is made anew.
CREATE TABLE audit_chained (
    id        INTEGER PRIMARY KEY,
    at        BIGINT  NOT NULL,
    kind      TEXT    NOT NULL,
    principal TEXT,
    agent     TEXT,
    session   TEXT,
    turn      TEXT,
    call_id   TEXT,
    tool      TEXT,
    arguments TEXT    NOT NULL,
    decision  TEXT    NOT NULL,
    outcome   TEXT    NOT NULL,
    took_ms   BIGINT  NOT NULL,
    bytes     BIGINT  NOT NULL,
    hash      BLOB    NOT NULL
);
INSERT INTO audit_chained
    SELECT u.id, u.at, 'call',
        (SELECT i.principal FROM items i WHERE i.turn = u.turn ORDER BY i.ord LIMIT 1),
        (SELECT a.name FROM agents a WHERE a.id = u.agent),
        (SELECT t.session FROM turns t WHERE t.id = u.turn),
        u.turn, u.call_id, u.tool, u.arguments, u.decision, u.outcome, u.took_ms, u.bytes, x''
    FROM audit u ORDER BY u.id;
DROP TABLE audit;
ALTER TABLE audit_chained RENAME TO audit;
CREATE INDEX audit_turn ON audit (turn) WHERE turn IS NOT NULL;
CREATE INDEX audit_checkpoints ON audit (id) WHERE kind = 'checkpoint';

-- Rows up to here came before there was a chain: the store seals them at its next opening and then
-- forgets this row.
CREATE TABLE audit_unsealed (
    upto BIGINT NOT NULL
);
INSERT INTO audit_unsealed SELECT max(id) FROM audit HAVING max(id) IS NOT NULL;

-- What a person found out about a call whose outcome a crash left unknown, or that it is to run
-- again; and the item that runs it, with the call it stands for.
ALTER TABLE calls ADD COLUMN resolved TEXT
    CHECK (resolved IN ('happened', 'did_not', 'run_again'));
ALTER TABLE calls ADD COLUMN resolved_by TEXT;
ALTER TABLE calls ADD COLUMN resolved_at BIGINT;
ALTER TABLE calls ADD COLUMN note TEXT;
CREATE INDEX calls_unresolved ON calls (changed_at) WHERE state = 'unknown' AND resolved IS NULL;
ALTER TABLE items ADD COLUMN again TEXT;
