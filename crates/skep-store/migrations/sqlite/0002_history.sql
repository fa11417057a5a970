-- Sessions that can be listed, searched, carried elsewhere and forked; what a lane was told to use.

-- `title`: the first words said. `cost` in billionths of a dollar, of the calls whose price is
-- known; `unpriced` counts the others. `forked_from`, `forked_at`: the session it was copied from,
-- up to and with that `seq`.
ALTER TABLE sessions ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN cost BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN unpriced BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN forked_from TEXT REFERENCES sessions (id);
ALTER TABLE sessions ADD COLUMN forked_at BIGINT;
CREATE INDEX sessions_recent ON sessions (agent, last_at, id);
CREATE INDEX sessions_key ON sessions (agent, key);

-- What `/model` and `/think` chose; a turn keeps what held when it began, an item what its
-- message asked for.
ALTER TABLE lanes ADD COLUMN profile TEXT;
ALTER TABLE lanes ADD COLUMN think TEXT;
ALTER TABLE turns ADD COLUMN profile TEXT;
ALTER TABLE turns ADD COLUMN think TEXT;
ALTER TABLE items ADD COLUMN think TEXT;

-- Everything that was said, in the order it came: what can be searched. Rows a fork copied are
-- found in the session they came from.
CREATE TABLE spoken (
    id      INTEGER PRIMARY KEY,
    agent   BIGINT  NOT NULL,
    session TEXT    NOT NULL,
    seq     BIGINT  NOT NULL
);

-- The index takes words in pieces, after the commit that wrote them: `upto` is the last one in it.
CREATE TABLE search_upto (
    upto BIGINT NOT NULL
);
INSERT INTO search_upto (upto) VALUES (0);

CREATE VIEW spoken_text AS
    SELECT s.id AS id, 'agent' || s.agent AS scope,
        (SELECT group_concat(json_extract(b.value, '$.text'), char(10))
         FROM json_each(h.body, '$.content') b
         WHERE json_extract(b.value, '$.type') = 'text') AS text
    FROM spoken s JOIN history h ON h.session = s.session AND h.seq = s.seq;

-- Holds words and places, no text: that stays in `history`.
CREATE VIRTUAL TABLE search USING fts5 (
    scope, text,
    content = 'spoken_text', content_rowid = 'id', columnsize = 0,
    tokenize = "unicode61 remove_diacritics 2"
);

-- What is there already.
INSERT INTO spoken (agent, session, seq)
    SELECT s.agent, h.session, h.seq FROM history h JOIN sessions s ON s.id = h.session
    WHERE h.spoken = 1 ORDER BY h.at, h.session, h.seq;

UPDATE sessions SET
    title = coalesce((SELECT substr(json_extract(h.body, '$.content[0].text'), 1, 80)
        FROM history h WHERE h.session = sessions.id AND h.spoken = 1 ORDER BY h.seq LIMIT 1), ''),
    (tokens, unpriced) = (SELECT
        coalesce(sum(json_extract(h.body, '$.meta.usage.totalTokens')), 0),
        count(json_extract(h.body, '$.meta.usage'))
        FROM history h WHERE h.session = sessions.id);
