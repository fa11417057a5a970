//! `update_team`: what a team below is for, and what it takes work for.

use serde_json::json;
use skep_core::heads;
use skep_core::tool::ToolAnswer;
use skep_core::visible::is_blank;
use skep_store::teams::{ChangeScope, ScopeChange};

use super::arguments::UpdateTeamArguments;
use super::tool::{OrgCall, answered, failed, refused};
use crate::door::FileWriters;

/// Characters of a keyword.
const WORD: usize = 64;
/// Keywords of one call.
const WORDS: usize = 64;
/// Characters of a description.
pub(super) const DESCRIPTION: usize = 1000;

pub(super) async fn run(call: OrgCall, arguments: UpdateTeamArguments) -> ToolAnswer {
    let UpdateTeamArguments { team, scope_add, scope_remove, description } = arguments;
    let changes = !scope_add.is_empty() || !scope_remove.is_empty() || description.is_some();
    if !changes {
        return refused("nothing_to_change", "name what is to be changed");
    }
    let (add, remove) = match (keywords(scope_add), keywords(scope_remove)) {
        (Ok(add), Ok(remove)) => (add, remove),
        (Err(why), _) | (_, Err(why)) => return refused("bad_keyword", &why),
    };
    if description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION) {
        let why = format!("a description has at most {DESCRIPTION} characters");
        return refused("too_large", &why);
    }
    let change = ChangeScope { turn: call.context.turn.clone(), team: team.clone(), add, remove };
    let words = match call.shared.store.write(change).await {
        Ok(ScopeChange::Changed(words)) => words,
        Ok(ScopeChange::Refused { code, why }) => return refused(code, &why),
        Err(error) => return failed(&error),
    };
    if let Some(text) = description {
        let Some(FileWriters { describe, .. }) = call.shared.facts.writers.get() else {
            return refused("not_written", "this hive cannot change its files");
        };
        let author = format!("agent:{}", call.context.agent);
        if let Err(why) = describe(team.clone(), author, heads::in_line(&text)).await {
            return refused("not_written", &format!("the description was not written: {why}"));
        }
    }
    answered(&json!({ "success": true, "team": team, "keywords": words }))
}

/// Keywords as they are compared: without capitals and outer blanks.
pub(super) fn keywords(words: Vec<String>) -> Result<Vec<String>, String> {
    if words.len() > WORDS {
        return Err(format!("a call names at most {WORDS} keywords"));
    }
    let mut known = Vec::with_capacity(words.len());
    for word in words {
        let word = word.trim().to_lowercase();
        let length = word.chars().count();
        if is_blank(&word) || length > WORD || word.chars().any(char::is_control) {
            return Err(format!("a keyword has 1 to {WORD} characters in one line"));
        }
        if !known.contains(&word) {
            known.push(word);
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn org_keywords_are_bounded() {
        let many = |count: usize| (0..count).map(|n| format!("word {n}")).collect();
        assert_eq!(keywords(many(WORDS)).map(|words| words.len()), Ok(WORDS));
        assert!(keywords(many(WORDS + 1)).is_err());
        assert!(keywords(vec!["x".repeat(WORD + 1)]).is_err());
        assert!(keywords(vec!["\u{200b}".into()]).is_err());
    }
}
