-- Browsers that are signed in: a cookie and a key, both needed, of which only hashes are here.
CREATE TABLE browsers (
    id         TEXT    PRIMARY KEY,
    name       TEXT    NOT NULL,
    role       TEXT    NOT NULL CHECK (role IN ('operator', 'user', 'viewer')),
    cookie     BLOB    NOT NULL UNIQUE,
    key        BLOB    NOT NULL,
    created_at BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL
);
CREATE INDEX browsers_expires ON browsers (expires_at);
