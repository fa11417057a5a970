-- Roles beside the operator's. `prefix`: a channel's conversations begin so. `agent`: whose engine's
-- child holds it. A CHECK cannot be changed, so the table is made anew.
CREATE TABLE tokens_with_roles (
    id         TEXT    PRIMARY KEY,
    name       TEXT    NOT NULL,
    role       TEXT    NOT NULL CHECK
        (role IN ('operator', 'user', 'viewer', 'channel', 'agent')),
    prefix     TEXT    CHECK ((role = 'channel') = (prefix IS NOT NULL)),
    agent      TEXT    CHECK ((role = 'agent') = (agent IS NOT NULL)),
    hash       BLOB    NOT NULL UNIQUE,
    created_at BIGINT  NOT NULL,
    revoked_at BIGINT
);
INSERT INTO tokens_with_roles (id, name, role, hash, created_at, revoked_at)
    SELECT id, name, role, hash, created_at, revoked_at FROM tokens;
DROP TABLE tokens;
ALTER TABLE tokens_with_roles RENAME TO tokens;

-- What somebody sent, newest first.
CREATE INDEX items_principal ON items (principal, ord);
