//! Deny by default: a tool is there only when a pattern of the agent's list names it.

/// Stands for whatever subagents an agent has. Their names are its own: in a list it is kept as it
/// is written, and a tool says that it is one of them.
pub const SUBAGENTS: &str = "@subagents";

/// Short words for tools that go together; they are written in lists only and mean these names.
pub const PRESETS: &[(&str, &[&str])] = &[
    ("@files", &["read", "write", "edit", "glob", "grep"]),
    (
        "@org",
        &[
            "delegate_task",
            "query_team",
            "query_teams",
            "escalate",
            "enqueue_parent_task",
            "list_completed_tasks",
            "list_teams",
            "get_status",
            "update_team",
            "spawn_team",
            "shutdown_team",
        ],
    ),
    ("@skills", &["use_skill"]),
    (SUBAGENTS, &[SUBAGENTS]),
    ("@vault", &["vault_set", "vault_get", "vault_list", "vault_delete"]),
    (
        "@messages",
        &[
            "ask_operator",
            "answer",
            "send_message",
            "recv",
            "remind",
            "request_next_turn",
            "get_open_threads",
            "cancel_thread",
            "whoami",
            "set_status",
        ],
    ),
];

/// What a preset stands for.
pub fn preset(name: &str) -> Option<&'static [&'static str]> {
    PRESETS.iter().find(|preset| preset.0 == name).map(|preset| preset.1)
}

/// `patterns` are exact names or globs with `*`.
pub fn allows(patterns: &[String], tool: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern.as_bytes(), tool.as_bytes()))
}

/// The patterns for what both lists name. Of two patterns of which neither is part of the other,
/// nothing is left: a list is never wider than what both say.
pub fn both(own: &[String], above: &[String]) -> Vec<String> {
    let part_of = |narrow: &String, wide: &[String]| allows(wide, narrow);
    let kept = own.iter().filter(|pattern| part_of(pattern, above));
    let narrower = above.iter().filter(|pattern| part_of(pattern, own));
    let mut both: Vec<String> = Vec::new();
    for pattern in kept.chain(narrower) {
        if !both.contains(pattern) {
            both.push(pattern.clone());
        }
    }
    both
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
    use super::{allows, both};

    #[test]
    fn what_both_lists_name() {
        let cases: &[(&[&str], &[&str], &[&str])] = &[
            (&["read", "bash"], &["read", "write"], &["read"]),
            (&["*"], &["read", "vault_*"], &["read", "vault_*"]),
            (&["read", "vault_get"], &["*"], &["read", "vault_get"]),
            (&["vault_*"], &["vault_get", "read"], &["vault_get"]),
            (&["vault_g*"], &["vault_*"], &["vault_g*"]),
            (&["*"], &["*"], &["*"]),
            (&["a*"], &["*b"], &[]),
            (&["read"], &[], &[]),
            (&[], &["*"], &[]),
        ];
        let owned = |list: &[&str]| list.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        for (own, above, expected) in cases {
            assert_eq!(both(&owned(own), &owned(above)), owned(expected), "{own:?} {above:?}");
        }
    }

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
