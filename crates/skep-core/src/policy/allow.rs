//! Deny by default: a tool is there only when a pattern of the agent's list names it.

/// Short words for tools that go together; they are written in lists only and mean these names.
pub const PRESETS: &[(&str, &[&str])] = &[
    ("@files", &["read", "write", "edit", "glob", "grep"]),
    ("@vault", &["vault_set", "vault_get", "vault_list", "vault_delete"]),
];

/// `patterns` are exact names or globs with `*`.
pub fn allows(patterns: &[String], tool: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern.as_bytes(), tool.as_bytes()))
}

/// Whether a name is that of a tool which a source brings while the hive runs: an MCP server, a
/// plugin, a team. The program's own tools have plain names.
pub fn may_come(name: &str) -> bool {
    !name.contains('*') && (name.contains('.') || name.contains("__"))
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skip| matches(rest, &name[skip..])),
        Some((first, rest)) => name.first() == Some(first) && matches(rest, &name[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::allows;

    #[test]
    fn names_and_globs() {
        let cases: &[(&[&str], &str, bool)] = &[
            (&[], "read", false),
            (&["read"], "read", true),
            (&["read"], "reads", false),
            (&["read"], "Read", false),
            (&["memory_*"], "memory_save", true),
            (&["memory_*"], "vault_get", false),
            (&["*"], "anything", true),
            (&["a*b*c"], "a__b__c", true),
            (&["a*b*c"], "a__c__b", false),
            (&[""], "read", false),
        ];
        for (patterns, tool, expected) in cases {
            let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
            assert_eq!(allows(&patterns, tool), *expected, "{patterns:?} {tool}");
        }
    }
}
