-- What agents want to be reminded of, as long as it is to come. `id`: that of its item when its time
-- is there. `key`: the session that reads it. `turn`, `call`: the call that wanted it. `root`: the first
-- item of its chain, itself where it begins one.
CREATE TABLE reminders (
    id               TEXT   PRIMARY KEY,
    agent            BIGINT NOT NULL,
    key              TEXT   NOT NULL,
    turn             TEXT   NOT NULL,
    call             TEXT   NOT NULL,
    body             TEXT   NOT NULL,
    at               BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    parent_item      TEXT   NOT NULL,
    root             TEXT   NOT NULL,
    hops             BIGINT NOT NULL,
    origin_channel   TEXT,
    origin_topic     TEXT,
    origin_principal TEXT   NOT NULL
) WITHOUT ROWID;
CREATE INDEX reminders_at ON reminders (at);
CREATE INDEX reminders_agent ON reminders (agent, key, at);
CREATE UNIQUE INDEX reminders_call ON reminders (turn, call);
