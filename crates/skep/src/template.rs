//! Teams that are ready to use: the files below `templates/`, which are part of the program. `lead`
//! is the agent above the others; a file names the team as `{{team}}`.

use skep_cli::commands::agent::CreatedAgent;
use skep_cli::hive::Home;
use skep_guard::environment;

use crate::home::new_agent::{self, NewAgentError, NewFolder};
use crate::home::{KnownNames, LoadedHome};

/// Where the script of the rehearsal model goes.
const SCRIPT: &str = "team-rules/rehearsal.md";

pub struct Template {
    pub name: &'static str,
    /// A first message for the lead.
    pub request: &'static str,
    /// The lead, then those below it.
    members: &'static [TemplateMember],
}

struct TemplateMember {
    /// Empty for the lead.
    role: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// What it says with the rehearsal model.
    script: &'static str,
}

/// How a team is made of a template.
pub struct TeamWish<'a> {
    /// The name of the lead; the others' names begin with it.
    pub name: &'a str,
    pub parent: Option<&'a str>,
    pub profile: Option<&'a str>,
    /// The rehearsal model answers.
    pub rehearses: bool,
}

macro_rules! member {
    ($role:literal, $folder:literal: $($file:literal),*) => {
        TemplateMember {
            role: $role,
            files: &[
                $(($file, include_str!(concat!("../templates/", $folder, "/", $file)))),*
            ],
            script: include_str!(concat!("../templates/", $folder, "/rehearsal.md")),
        }
    };
}

pub const ALL: &[Template] = &[
    Template {
        name: "engineering",
        request: "Write a script that greets people.",
        members: &[
            member!(
                "", "engineering/lead":
                "config.yaml", "org-rules/working.md", "team-rules/lead.md",
                "skills/plan-a-change/SKILL.md"
            ),
            member!(
                "coder", "engineering/coder":
                "config.yaml", "team-rules/coder.md", "skills/change-with-a-test/SKILL.md"
            ),
            member!(
                "reviewer", "engineering/reviewer":
                "config.yaml", "team-rules/reviewer.md", "skills/review-a-change/SKILL.md"
            ),
        ],
    },
    Template {
        name: "research",
        request: "How does a swarm of bees find a new nest?",
        members: &[
            member!(
                "", "research/lead":
                "config.yaml", "org-rules/evidence.md", "team-rules/lead.md",
                "skills/write-a-report/SKILL.md", "work/sources/README.md", "work/sources/bees.md"
            ),
            member!(
                "scout", "research/scout":
                "config.yaml", "team-rules/scout.md", "skills/judge-a-source/SKILL.md"
            ),
            member!(
                "checker", "research/checker":
                "config.yaml", "team-rules/checker.md", "skills/check-a-claim/SKILL.md"
            ),
        ],
    },
    Template {
        name: "support",
        request: "A customer writes: I was charged twice for order 1207.",
        members: &[
            member!(
                "", "support/lead":
                "config.yaml", "org-rules/customers.md", "team-rules/lead.md",
                "skills/sort-a-request/SKILL.md", "work/knowledge/README.md",
                "work/knowledge/refunds.md"
            ),
            member!(
                "finder", "support/finder":
                "config.yaml", "team-rules/finder.md", "skills/quote-a-rule/SKILL.md"
            ),
            member!(
                "writer", "support/writer":
                "config.yaml", "team-rules/writer.md", "skills/write-a-reply/SKILL.md"
            ),
        ],
    },
];

impl Template {
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|template| template.name == name)
    }

    /// Makes the folders of the team, the lead's first, or none of them.
    pub fn make(
        &self,
        home: &Home,
        wish: &TeamWish<'_>,
        known: &KnownNames,
    ) -> Result<Vec<CreatedAgent>, NewAgentError> {
        let folders = self.folders(wish);
        let made = new_agent::create(home, &folders, known, &environment::var)?;
        let agents = self.agents(wish.name).zip(made);
        let agents = agents.map(|((name, about), folder)| CreatedAgent {
            name,
            folder,
            about: about.to_owned(),
        });
        Ok(agents.collect())
    }

    /// The names of a team whose lead has this name, and what each agent is for.
    pub fn agents(&self, lead: &str) -> impl Iterator<Item = (String, &'static str)> {
        self.members.iter().map(move |member| (member.name(lead), member.about()))
    }

    /// The folders of the team, the lead's first.
    fn folders(&self, wish: &TeamWish<'_>) -> Vec<NewFolder> {
        self.members.iter().map(|member| member.folder(wish)).collect()
    }
}

impl TemplateMember {
    fn folder(&self, wish: &TeamWish<'_>) -> NewFolder {
        let script = wish.rehearses.then_some((SCRIPT, self.script));
        let files = self.files.iter().copied().chain(script).map(|(path, text)| {
            let text = text.replace("{{team}}", wish.name);
            let text = if path == "config.yaml" { self.settings(text, wish) } else { text };
            (path.to_owned(), text)
        });
        NewFolder { files: files.collect(), name: self.name(wish.name) }
    }

    fn name(&self, lead: &str) -> String {
        match self.role {
            "" => lead.to_owned(),
            role => format!("{lead}-{role}"),
        }
    }

    /// The agent's file with what was wished for. JSON texts are valid YAML.
    fn settings(&self, text: String, wish: &TeamWish<'_>) -> String {
        let parent = wish.parent.filter(|_| self.role.is_empty());
        let wishes = [("parent", parent), ("profile", wish.profile)];
        let lines = wishes.iter().filter_map(|(key, value)| {
            Some(format!("{key}: {}\n", serde_json::Value::from((*value)?)))
        });
        let about = format!("description: {}\n", self.about());
        text.replacen(&about, &format!("{about}{}", lines.collect::<String>()), 1)
    }

    fn about(&self) -> &'static str {
        let settings = self.files.iter().find(|(path, _)| *path == "config.yaml");
        let mut lines = settings.map_or("", |(_, text)| text).lines();
        lines.find_map(|line| line.strip_prefix("description: ")).unwrap_or_default()
    }
}

/// Whether the rehearsal model plays agents with this profile, or with the usual one.
pub fn rehearses(loaded: &LoadedHome, profile: Option<&str>) -> bool {
    let profile = match profile {
        Some(name) => loaded.settings.profiles.get(name),
        None => loaded.defaults.profile.as_ref(),
    };
    profile.is_some_and(|profile| profile.provider == "rehearsal")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::collections::BTreeSet;
    use std::path::Path;

    use skep_core::ids::AgentName;
    use skep_core::settings::tree::AgentTree;
    use skep_core::settings::{AgentSettings, AgentState};

    use super::*;
    use crate::home::{check, create, load};

    fn wish(name: &str) -> TeamWish<'_> {
        TeamWish { name, parent: None, profile: None, rehearses: true }
    }

    fn files_below(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files_below(&path, found);
            } else {
                found.insert(std::fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_part_of_a_template() {
        let mut there = BTreeSet::new();
        files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("templates"), &mut there);
        let members = || ALL.iter().flat_map(|template| template.members);
        let files = members().flat_map(|member| member.files.iter().map(|(_, text)| *text));
        let used = files.chain(members().map(|member| member.script)).map(str::to_owned);
        assert_eq!(used.collect::<BTreeSet<_>>(), there);
    }

    #[test]
    fn names_of_templates_are_those_of_the_command() {
        let names: Vec<_> = ALL.iter().map(|template| template.name).collect();
        assert_eq!(names, skep_cli::commands::agent::TEMPLATES);
    }

    #[test]
    fn a_wish_stands_in_the_files_it_is_about() {
        let wish = TeamWish { parent: Some("main"), profile: Some("a: b"), ..wish("shop") };
        let folders = Template::named("support").unwrap().folders(&wish);
        let names: Vec<_> = folders.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["shop", "shop-finder", "shop-writer"]);
        for (folder, parent) in folders.iter().zip(["\"main\"", "\"shop\"", "\"shop\""]) {
            let file = |name: &str| folder.files.iter().find(|(path, _)| path == name);
            let (_, settings) = file("config.yaml").unwrap();
            for line in [format!("\nparent: {parent}\n"), "\nprofile: \"a: b\"\n".to_owned()] {
                assert_eq!(settings.matches(&line).count(), 1, "{settings}");
            }
            assert!(file(SCRIPT).unwrap().1.contains("\n#rehearsal\n"));
            let named = folder.files.iter().find(|(_, text)| text.contains("{{team}}"));
            assert!(named.is_none(), "{named:?}");
        }
        let real =
            Template::named("support").unwrap().folders(&TeamWish { rehearses: false, ..wish });
        assert!(real.iter().flat_map(|it| &it.files).all(|(_, text)| !text.contains("#rehearsal")));
    }

    #[test]
    fn each_role_has_the_least_tools_and_a_skill_of_its_own() {
        const FILES: &[&str] = &["read", "write", "edit", "glob", "grep"];
        const LOOKS: &[&str] = &["read", "glob", "grep"];
        let expected: &[(&str, &[&str], &[&str])] = &[
            ("engineering-coder", FILES, &["bash"]),
            ("engineering-reviewer", LOOKS, &[]),
            ("research-scout", FILES, &["web_fetch"]),
            ("research-checker", LOOKS, &["web_fetch"]),
            ("support-finder", LOOKS, &[]),
            ("support-writer", FILES, &[]),
        ];
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        create::folders(&home).unwrap();
        create::files(&home, false).unwrap();
        let known = crate::compose::known();
        for template in ALL {
            let folders = template.folders(&wish(template.name));
            new_agent::create(&home, &folders, &known, &|_| None).unwrap();
        }
        let loaded = load(&home, &known, &|_| None).unwrap();
        let report = check(&home, &known, &|_| None);
        assert_eq!((report.mistakes, report.warnings), (Vec::new(), Vec::new()));
        let states = loaded.settings.agents.iter().filter(|(name, _)| name.as_str() != "main");
        let skills = states.map(|(name, state)| match state {
            AgentState::Active(agent) => {
                assert_eq!(agent.skills.len(), 1, "{name}");
                agent.skills[0].name.clone()
            }
            AgentState::Failed { reason } => panic!("{name}: {reason}"),
        });
        assert_eq!(skills.collect::<BTreeSet<_>>().len(), 9);
        let tree = AgentTree::new(&loaded.settings.hive_rules, loaded.settings.agents);
        let agent = |name: &str| -> AgentSettings {
            match tree.in_force().get(&AgentName::new(name)) {
                Some(AgentState::Active(agent)) => AgentSettings::clone(agent),
                other => panic!("{name}: {other:?}"),
            }
        };
        for (name, files, more) in expected {
            let member = agent(name);
            let mut wanted: Vec<&str> = files.iter().chain(*more).copied().collect();
            wanted.extend(["escalate", "use_skill"]);
            assert_eq!(member.allowed_tools, wanted, "{name}");
            let lead = agent(member.parent.as_ref().unwrap().as_str());
            let same = |path: &Path| path.canonicalize().unwrap();
            assert_eq!(same(&member.workspace), same(&lead.workspace), "{name}");
            assert!(lead.allowed_tools.iter().any(|tool| tool == "ask_operator"));
            assert!(!lead.allowed_tools.iter().any(|tool| tool.contains('*')));
        }
    }
}
