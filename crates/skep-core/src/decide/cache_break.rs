//! Why a model's vendor had to read anew what its cache had held.

use serde::Serialize;
use utoipa::ToSchema;

use crate::Millis;
use crate::vocab::words::words;

/// Vendors cache nothing shorter, in tokens.
const LEAST: u64 = 1024;
/// Vendors let go of what nobody asked for this long.
const PAUSE: Millis = 5 * 60 * 1000;
/// Files that are named.
const NAMED: usize = 5;

words! {
    /// What was not as it had been at the call before.
    CachePart {
        /// Another model, or the same at another provider.
        Model = "model",
        /// Notes stand where older messages stood.
        Compaction = "compaction",
        /// The files of the agent or the hive: tools, rules, system text.
        Settings = "settings",
        /// Nothing; the vendor had let go of it.
        Pause = "pause",
        Unknown = "unknown",
    }
}

/// A call that found little of what the one before it had left in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CacheBreak {
    /// The message that the call became.
    pub seq: i64,
    pub at: Millis,
    pub part: CachePart,
    /// In a sentence.
    pub why: String,
    /// When that changed, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
    /// Tokens that were read anew.
    pub tokens: u64,
}

/// A call of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedCall {
    pub seq: i64,
    pub at: Millis,
    /// When its turn began, which keeps the settings of then.
    pub turn_began: Millis,
    /// Provider and model.
    pub model: String,
    /// Tokens before its answer.
    pub prompt: u64,
    /// Of them from the cache.
    pub cached: u64,
    /// Of them put into it.
    pub written: u64,
}

/// What may have broken it, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheChanges {
    /// The message behind which notes took the place of older ones, and when.
    pub compaction: Option<(i64, Millis)>,
    /// Changed files that came into force.
    pub settings: Vec<ChangedFiles>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedFiles {
    pub at: Millis,
    /// Files of rules, skills and subagents among them, relative to the home.
    pub files: Vec<String>,
}

/// The breaks among the calls of one session, oldest first.
pub fn explain(calls: &[CachedCall], changes: &CacheChanges) -> Vec<CacheBreak> {
    let mut caches = false;
    let mut breaks = Vec::new();
    for pair in calls.windows(2) {
        let [before, now] = pair else { continue };
        // Where a vendor tells nothing of a cache there is none to break.
        caches |= before.cached > 0 || before.written > 0;
        if caches && before.prompt >= LEAST && now.cached < before.prompt / 2 {
            let (part, why, since) = reason(before, now, changes);
            let tokens = before.prompt.min(now.prompt).saturating_sub(now.cached);
            breaks.push(CacheBreak { seq: now.seq, at: now.at, part, why, since, tokens });
        }
    }
    breaks
}

fn reason(
    before: &CachedCall,
    now: &CachedCall,
    changes: &CacheChanges,
) -> (CachePart, String, Option<Millis>) {
    if before.model != now.model {
        let why = format!("the model changed from {} to {}", before.model, now.model);
        return (CachePart::Model, why, Some(now.at));
    }
    let between = |at: Millis| (before.turn_began..=now.at).contains(&at);
    if let Some((seam, at)) = changes.compaction
        && (before.seq..now.seq).contains(&seam)
    {
        let why = "notes took the place of older messages".to_owned();
        return (CachePart::Compaction, why, Some(at));
    }
    let changed = changes.settings.iter().filter(|change| between(change.at));
    let changed: Vec<&ChangedFiles> = changed.collect();
    if let Some(last) = changed.last() {
        let mut files: Vec<&str> =
            changed.iter().flat_map(|change| &change.files).map(String::as_str).collect();
        files.sort_unstable();
        files.dedup();
        let why = match files.split_at_checked(NAMED) {
            _ if files.is_empty() => "tools, rules or settings of the agent changed".to_owned(),
            Some((first, rest)) if !rest.is_empty() => {
                format!("{} and {} more files changed", first.join(", "), rest.len())
            }
            _ => format!("{} changed", files.join(", ")),
        };
        return (CachePart::Settings, why, Some(last.at));
    }
    let silent = now.at.saturating_sub(before.at);
    if silent >= PAUSE {
        let why = format!("{} minutes passed; vendors keep it for about 5", silent / 60_000);
        return (CachePart::Pause, why, None);
    }
    let why = "nothing of ours changed; the vendor did not find it again".to_owned();
    (CachePart::Unknown, why, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(seq: i64, at: Millis, prompt: u64, cached: u64) -> CachedCall {
        let (model, written) = ("p/m".to_owned(), prompt - cached);
        CachedCall { seq, at, turn_began: at, model, prompt, cached, written }
    }

    fn change(at: Millis, files: &[&str]) -> ChangedFiles {
        ChangedFiles { at, files: files.iter().map(|file| (*file).to_owned()).collect() }
    }

    fn parts(calls: &[CachedCall], changes: &CacheChanges) -> Vec<(i64, CachePart, u64)> {
        let breaks = explain(calls, changes);
        breaks.into_iter().map(|it| (it.seq, it.part, it.tokens)).collect()
    }

    #[test]
    fn each_break_has_its_reason() {
        let minute = 60_000;
        let mut calls = [
            call(2, minute, 5000, 0),
            call(4, 2 * minute, 6000, 5000),
            call(6, 3 * minute, 7000, 0),
            call(8, 4 * minute, 8000, 0),
            call(10, 5 * minute, 3000, 100),
            call(12, 12 * minute, 3500, 0),
            call(14, 13 * minute, 4000, 1000),
        ];
        for call in &mut calls[2..] {
            call.model = "p/other".to_owned();
        }
        let files = ["teams/main/org-rules/b.md", "rules/a.md", "rules/a.md"];
        let changes = CacheChanges {
            compaction: Some((9, 4 * minute + 1)),
            settings: vec![change(minute + 1, &["rules/z.md"]), change(3 * minute + 1, &files)],
        };
        let expected = [
            (6, CachePart::Model, 6000),
            (8, CachePart::Settings, 7000),
            (10, CachePart::Compaction, 2900),
            (12, CachePart::Pause, 3000),
            (14, CachePart::Unknown, 2500),
        ];
        assert_eq!(parts(&calls, &changes), expected);
        let settings = &explain(&calls, &changes)[1];
        assert_eq!(settings.since, Some(3 * minute + 1));
        assert_eq!(settings.why, "rules/a.md, teams/main/org-rules/b.md changed");
        let whys = |files: &[&str]| {
            let settings = vec![change(3 * minute + 1, files)];
            let changes = CacheChanges { settings, ..CacheChanges::default() };
            explain(&calls, &changes)[1].why.clone()
        };
        assert_eq!(whys(&[]), "tools, rules or settings of the agent changed");
        let seven = ["1", "2", "3", "4", "5", "6", "7"];
        assert_eq!(whys(&seven), "1, 2, 3, 4, 5 and 2 more files changed");
        assert_eq!(whys(&seven[..5]), "1, 2, 3, 4, 5 changed");
    }

    /// The turn that runs keeps what it began with; the next one has the change.
    #[test]
    fn what_changed_while_a_turn_ran_is_the_reason_in_the_next_one() {
        let mut calls = [call(2, 10, 5000, 0), call(3, 30, 6000, 5000), call(5, 50, 7000, 0)];
        calls[1].turn_began = 10;
        let settings = vec![change(20, &["rules/a.md"])];
        let changes = CacheChanges { settings, ..CacheChanges::default() };
        assert_eq!(parts(&calls, &changes), [(5, CachePart::Settings, 6000)]);
    }

    #[test]
    fn no_cache_is_no_break() {
        let none = CacheChanges::default();
        // Too short to be cached, and a vendor that says nothing of a cache.
        assert_eq!(parts(&[call(2, 0, 900, 0), call(4, 1, 950, 0)], &none), []);
        let mut silent = [call(2, 0, 5000, 0), call(4, 1, 6000, 0)];
        silent.iter_mut().for_each(|call| call.written = 0);
        assert_eq!(parts(&silent, &none), []);
        assert_eq!(parts(&[call(2, 0, 5000, 0)], &none), []);
    }
}
