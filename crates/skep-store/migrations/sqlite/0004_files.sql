-- The bytes of files in messages, once for each content. `uses` counts the rows that refer to
-- it; one that nobody refers to any more is let go in time.
CREATE TABLE files (
    hash     TEXT    PRIMARY KEY,
    bytes    BLOB    NOT NULL,
    added_at BIGINT  NOT NULL,
    uses     BIGINT  NOT NULL DEFAULT 0
);
CREATE INDEX files_unused ON files (added_at) WHERE uses = 0;

-- Which messages have which files: who may see one of them may see the file.
CREATE TABLE history_files (
    session TEXT    NOT NULL,
    seq     BIGINT  NOT NULL,
    hash    TEXT    NOT NULL REFERENCES files (hash),
    PRIMARY KEY (hash, session, seq),
    FOREIGN KEY (session, seq) REFERENCES history (session, seq) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX history_files_message ON history_files (session, seq);

-- The files of a message in the inbox, in their order.
CREATE TABLE item_files (
    item     TEXT    NOT NULL REFERENCES items (id) ON DELETE CASCADE,
    position BIGINT  NOT NULL,
    hash     TEXT    NOT NULL REFERENCES files (hash),
    name     TEXT    NOT NULL,
    mime     TEXT    NOT NULL,
    size     BIGINT  NOT NULL,
    PRIMARY KEY (item, position)
) WITHOUT ROWID;
CREATE INDEX item_files_hash ON item_files (hash);
ALTER TABLE items ADD COLUMN files BIGINT NOT NULL DEFAULT 0;

-- Counted here and not by the statements that write, so that nobody who deletes can forget it.
CREATE TRIGGER history_file_added AFTER INSERT ON history_files BEGIN
    UPDATE files SET uses = uses + 1 WHERE hash = NEW.hash;
END;
CREATE TRIGGER history_file_gone AFTER DELETE ON history_files BEGIN
    UPDATE files SET uses = uses - 1 WHERE hash = OLD.hash;
END;
CREATE TRIGGER item_file_added AFTER INSERT ON item_files BEGIN
    UPDATE files SET uses = uses + 1 WHERE hash = NEW.hash;
END;
CREATE TRIGGER item_file_gone AFTER DELETE ON item_files BEGIN
    UPDATE files SET uses = uses - 1 WHERE hash = OLD.hash;
END;
