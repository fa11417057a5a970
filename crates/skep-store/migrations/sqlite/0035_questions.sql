-- What belongs to a task of the kind `question`. `options`: what may be chosen, a JSON list; `multi`:
-- several of them. `answered_call`: the call of another agent that answered, `turn/call`.
CREATE TABLE questions (
    task          TEXT    PRIMARY KEY,
    options       TEXT    NOT NULL,
    multi         BOOLEAN NOT NULL,
    answered_call TEXT
) WITHOUT ROWID;
