-- Which item is the same message again, and of which; `number` counts the tries of an original.
CREATE TABLE retries (
    item     TEXT   PRIMARY KEY REFERENCES items (id),
    original TEXT   NOT NULL REFERENCES items (id),
    number   BIGINT NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX retries_original ON retries (original, number);
