//! Statements on our tables that only one database understands: those of the full-text index.

/// Takes what was said between two places into the full-text index.
pub(crate) const INDEX_SPOKEN: &str = "INSERT INTO search (rowid, scope, text) \
                                       SELECT id, scope, text FROM spoken_text \
                                       WHERE id > $1 AND id <= $2";
/// Takes one row out of the index, which has to be given the same words again.
pub(crate) const UNINDEX_SPOKEN: &str = "INSERT INTO search (search, rowid, scope, text) \
                                         SELECT 'delete', id, scope, text FROM spoken_text \
                                         WHERE id = $1 \
                                         AND id <= (SELECT upto FROM search_upto)";
/// The index gives its rows in the order asked for, so that only a page is ever read. The marks
/// are those of `search::MARK`.
pub(crate) const SEARCH: &str = "SELECT p.id, a.name, p.session, s.key, s.title, \
                                 s.archived_at IS NOT NULL, p.seq, h.at, \
                                 json_extract(h.body, '$.role'), \
                                 json_extract(h.body, '$.origin.principal'), f.text, \
                                 highlight(search, 1, char(64976), char(64977)) \
                                 FROM search f JOIN spoken p ON p.id = f.rowid \
                                 JOIN agents a ON a.id = p.agent \
                                 JOIN sessions s ON s.id = p.session \
                                 JOIN history h ON h.session = p.session AND h.seq = p.seq \
                                 WHERE search MATCH $1 AND f.rowid < $2 AND s.apart = 0 \
                                 AND substr(s.key, 1, length($4)) = $4 \
                                 ORDER BY f.rowid DESC LIMIT $3";
