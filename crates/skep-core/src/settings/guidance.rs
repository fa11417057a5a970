//! What guides an agent besides its settings: rules, skills and subagents, Markdown files of the
//! home. Rules stand in every prompt; a skill is read when it is used.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{AgentSettings, ConfigProblem};
use crate::vocab::ids::AgentName;
use crate::vocab::words::words;

/// All rules of one cascade together: hive, ancestors and own. Every model call pays for them.
pub const CASCADE_BYTES: usize = 512 << 10;

/// In a heading, or on a line of its own: the file takes the place of those before it with the
/// same heading.
const OVERRIDE: &str = "[OVERRIDE]";

words! {
    /// Where rules stand, from general to specific.
    RuleTierWord {
        Hive = "hive",
        /// The `org-rules/` of an agent above.
        Above = "above",
        OwnOrg = "own_org",
        Team = "team",
    }
}

/// Where a file of rules was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleTier {
    /// `rules/` of the home.
    Hive,
    /// `org-rules/` of this agent, which is above.
    Above(AgentName),
    /// The agent's own `org-rules/`, which everybody below it reads, too.
    OwnOrg,
    /// The agent's own `team-rules/`.
    Team,
}

/// A file of rules.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleFile {
    pub tier: RuleTier,
    /// Its name in its folder.
    pub file: String,
    /// Shared by everybody who reads it.
    pub text: Arc<str>,
}

/// A procedure that an agent follows when it is told to, or when it asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    pub name: String,
    /// Relative to the agent's folder: `skills/NAME.md` or `skills/NAME/SKILL.md`.
    pub file: String,
    /// One line of visible characters.
    pub description: String,
    /// Tools that it needs, as it names them.
    pub tools: Vec<String>,
    pub text: String,
    /// Other files in its folder, relative to the agent's folder.
    pub files: Vec<String>,
}

/// A role that the agent can call as a tool: a session of its own with another role.
#[derive(Clone, Debug, PartialEq)]
pub struct Subagent {
    pub name: String,
    /// Relative to the agent's folder.
    pub file: String,
    /// One line of visible characters.
    pub description: String,
    /// Skills that are active in its session.
    pub skills: Vec<String>,
    pub text: String,
    /// Where the file says its name.
    pub line: u32,
}

impl Subagent {
    /// What is told of a file that is left out because a tool has its name.
    pub fn taken(name: &str) -> String {
        format!("there is a tool `{name}`, and a subagent may not take its place")
    }

    /// The same of a tool that came while the hive runs.
    pub fn left_out(&self, agent: &AgentName) -> ConfigProblem {
        let (file, line) = (format!("teams/{agent}/{}", self.file), self.line);
        let text = format!("{file}:{line}:1: {}; expected another name", Self::taken(&self.name));
        ConfigProblem { file, line: Some(line), text }
    }
}

impl RuleTier {
    pub fn word(&self) -> RuleTierWord {
        match self {
            Self::Hive => RuleTierWord::Hive,
            Self::Above(_) => RuleTierWord::Above,
            Self::OwnOrg => RuleTierWord::OwnOrg,
            Self::Team => RuleTierWord::Team,
        }
    }

    /// The heading of its rules in a prompt.
    pub fn title(&self) -> String {
        match self {
            Self::Hive => "Rules of this hive".to_owned(),
            Self::Above(agent) => format!("Rules of `{agent}` for everybody below it"),
            Self::OwnOrg => "Rules for you and those below you".to_owned(),
            Self::Team => "Rules for you".to_owned(),
        }
    }
}

impl RuleFile {
    /// Relative to the home.
    pub fn path(&self, own: &AgentName) -> String {
        let file = &self.file;
        match &self.tier {
            RuleTier::Hive => format!("rules/{file}"),
            RuleTier::Above(agent) => format!("teams/{agent}/org-rules/{file}"),
            RuleTier::OwnOrg => format!("teams/{own}/org-rules/{file}"),
            RuleTier::Team => format!("teams/{own}/team-rules/{file}"),
        }
    }

    /// The first heading and its line, counted from 1.
    pub fn heading(&self) -> Option<(u32, String)> {
        let (line, text) = headings(&self.text).next()?;
        let text = text.replace(OVERRIDE, "");
        let words: Vec<&str> = text.split_whitespace().collect();
        (!words.is_empty()).then(|| (line, words.join(" ")))
    }

    /// Whether the file says that it takes the place of others with its heading.
    pub fn overrides(&self) -> bool {
        headings(&self.text).next().is_some_and(|(_, heading)| heading.contains(OVERRIDE))
            || self.text.lines().any(|line| line.trim() == OVERRIDE)
    }
}

/// Markdown headings with their lines, without those in fenced blocks.
fn headings(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            fenced = !fenced;
        }
        let heading = start.trim_start_matches('#');
        let level = start.len() - heading.len();
        let is_heading = !fenced && (1..=6).contains(&level) && heading.starts_with([' ', '\t']);
        is_heading.then(|| (number, heading.trim()))
    })
}

/// All rules that an agent reads, from general to specific.
pub fn cascade<'a>(
    hive_rules: &'a [RuleFile],
    agent: &'a AgentSettings,
) -> impl Iterator<Item = &'a RuleFile> {
    hive_rules.iter().chain(&agent.org_rules).chain(&agent.team_rules)
}

/// Two files of a cascade with the same first heading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RulePair<'a> {
    pub earlier: &'a RuleFile,
    pub later: &'a RuleFile,
    /// Of the later one's heading.
    pub line: u32,
}

/// The pairs of a cascade that speak of the same, each later file with the last one before it.
pub fn same_headings<'a>(cascade: impl Iterator<Item = &'a RuleFile>) -> Vec<RulePair<'a>> {
    let mut known: HashMap<String, &RuleFile> = HashMap::new();
    let mut pairs = Vec::new();
    for later in cascade {
        let Some((line, heading)) = later.heading() else { continue };
        if let Some(earlier) = known.insert(heading.to_lowercase(), later) {
            pairs.push(RulePair { earlier, later, line });
        }
    }
    pairs
}

/// The texts of files by their paths, relative to the home.
pub type Texts<'a> = BTreeMap<String, Vec<&'a str>>;

/// The texts that a hive's own rules bring into prompts.
pub fn texts_of_rules(hive_rules: &[RuleFile]) -> Texts<'_> {
    hive_rules.iter().map(|rule| (format!("rules/{}", rule.file), vec![&*rule.text])).collect()
}

/// The same of an agent's own files.
pub fn texts(agent: &AgentSettings) -> Texts<'_> {
    let rules = agent.org_rules.iter().chain(&agent.team_rules);
    let own = rules.filter(|rule| !matches!(rule.tier, RuleTier::Above(_)));
    let own = own.map(|rule| (rule.path(&agent.name), vec![&*rule.text]));
    let place = |file: &str| format!("teams/{}/{file}", agent.name);
    let skills = agent.skills.iter();
    let skills = skills.map(|it| (place(&it.file), vec![&*it.description, &*it.text]));
    let subagents = agent.subagents.iter();
    let subagents = subagents.map(|it| (place(&it.file), vec![&*it.description, &*it.text]));
    own.chain(skills).chain(subagents).collect()
}

/// Notes the files that came, went or say something else.
pub fn note_changed(files: &mut BTreeSet<String>, before: &Texts<'_>, after: &Texts<'_>) {
    let paths = before.keys().chain(after.keys());
    files.extend(paths.filter(|path| before.get(*path) != after.get(*path)).cloned());
}
