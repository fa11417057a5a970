//! The plans that may walk a table or sort, each with its reason.

/// What may be walked or sorted, and why that is bounded.
pub(super) const ALLOWED: &[(&str, &str, &str)] = &[
    ("INSERT INTO events", "ROW VALUES CLAUSE", "the values themselves"),
    ("INSERT INTO agents", "SCAN ", "only run to mend a broken reference; there is none"),
    ("FROM calls c", "SCAN c USING INDEX calls_unresolved", "from its end, as far as asked for"),
    ("SELECT string_agg", "SCAN (subquery-", "the rows of one page, found by their key"),
    ("FROM (SELECT turn", "SCAN h", "the turns of one page"),
    ("FROM (SELECT turn", "USE TEMP B-TREE FOR GROUP BY", "the rows of one page"),
    ("", "SCAN agents", "agents are few"),
    ("FROM agents a LEFT JOIN", "", "agents are few, and so are open turns"),
    ("", "SCAN search_upto", "one row"),
    ("s.key >= $5", "USE TEMP B-TREE FOR ORDER BY", "the sessions of one owner"),
    ("FROM unsettled_hours u", "USE TEMP B-TREE FOR GROUP BY", "the sums of one day"),
    ("FROM usage_hours u", "USE TEMP B-TREE FOR GROUP BY", "the sums of a bounded span"),
    ("MATCH", "SCAN f VIRTUAL TABLE INDEX 192:M2<", "the index gives matches, newest first"),
    ("FROM spoken_text", "SCAN b VIRTUAL TABLE INDEX 3:", "the blocks of one message"),
    ("_sqlx_migrations", "SCAN ", "at the start: a row for each migration or table"),
    ("", "SCAN audit_unsealed", "one row, at the first start alone"),
    ("", "SCAN tokens", "tokens are few"),
    ("FROM tokens", "USE TEMP B-TREE FOR ORDER BY", "tokens are few"),
    ("FROM turns", "SCAN turns USING INDEX turns_open", "holds the open turns alone"),
    ("SET lease_until", "SCAN turns USING INDEX turns_open", "the open turns, once in ten seconds"),
    ("FROM turns t", "SCAN t USING INDEX turns_open", "holds the open turns alone"),
    ("FROM calls WHERE turn = $1", "USE TEMP B-TREE FOR ORDER BY", "the calls of one turn"),
];
