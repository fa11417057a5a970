//! The folders of agents that the hive makes: written where nobody looks, checked as the hive reads
//! them, then put among the others in one step. A mark in the folder says which change made it, so
//! that a change which is taken back takes no other folder with it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use skep_cli::hive::Home;
use skep_core::ids::AgentId;
use skep_core::settings::AgentState;
use skep_guard::disk::{replace_file, sync_directory};
use skep_runtime::{AgentDraft, ChangeFolder, FolderStep};
use tokio::task::block_in_place;

use crate::apply::Applier;
use crate::home::create::make_folder;
use crate::team_description::quoted;

/// Names the change that made the folder, until that has ended.
const MARK: &str = ".made-by";

/// The function that the hive calls.
pub fn changer(home: &Home, applier: Arc<Applier>) -> ChangeFolder {
    let home = home.clone();
    Arc::new(move |step| {
        let (home, applier) = (home.clone(), Arc::clone(&applier));
        Box::pin(async move {
            match step {
                FolderStep::Stage { op, draft } => {
                    let folder = staging(&home, &op);
                    block_in_place(|| stage(&home, &op, &folder, &draft))?;
                    applier.check_staged(&draft.name, &folder).await
                }
                FolderStep::Publish { op, name } => {
                    block_in_place(|| publish(&home, &op, name.as_str()))
                }
                FolderStep::Apply { name } => match applier.apply_unfinished(&name).await? {
                    Some(AgentState::Active(_)) => Ok(()),
                    Some(AgentState::Failed { reason }) => Err(reason),
                    None => Err("its folder is not there".to_owned()),
                },
                FolderStep::Withdraw { op, name } => {
                    block_in_place(|| withdraw(&home, &op, name.as_str()))?;
                    applier.apply_unfinished(&name).await.map(drop)
                }
                FolderStep::Retire { op, name, agent } => {
                    block_in_place(|| retire(&home, &op, name.as_str(), agent))?;
                    applier.apply_unfinished(&name).await.map(drop)
                }
                FolderStep::Discard { op } => {
                    let folder = removed(&home, &op);
                    block_in_place(|| remove(&folder)).map_err(|error| text(&folder, &error))
                }
                FolderStep::Settle { op, name } => {
                    let folder = home.agent(name.as_str());
                    block_in_place(|| settle(&folder, &op)).map_err(|error| text(&folder, &error))
                }
            }
        })
    })
}

fn text(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Where the folder of a new agent is written.
fn staging(home: &Home, op: &str) -> PathBuf {
    home.run().join("staging").join(file_name(op))
}

/// Where folders of agents wait for their end.
fn removed(home: &Home, op: &str) -> PathBuf {
    home.run().join("removed").join(file_name(op))
}

/// Takes the folder of an agent, and the long answers of its calls, out of everybody's sight. A
/// workspace elsewhere is the operator's, and stays.
fn retire(home: &Home, op: &str, name: &str, agent: AgentId) -> Result<(), String> {
    let aside = removed(home, op);
    let outputs = home.run().join("output").join(agent.0.to_string());
    let moves = [(home.agent(name), name.to_owned()), (outputs, format!("{name}.output"))];
    for (from, to) in moves {
        let take = || -> io::Result<()> {
            if fs::symlink_metadata(&from).is_err() {
                return Ok(());
            }
            make_folder(&aside)?;
            remove(&aside.join(&to))?;
            move_folder(&from, &aside.join(&to))
        };
        take().map_err(|error| text(&from, &error))?;
    }
    Ok(())
}

/// An id as the name of a file.
fn file_name(op: &str) -> String {
    let hash = Sha256::digest(op.as_bytes());
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn stage(home: &Home, op: &str, folder: &Path, draft: &AgentDraft) -> Result<(), String> {
    let place = home.agent(draft.name.as_str());
    if fs::symlink_metadata(&place).is_ok() {
        return Err(format!("{} is there already", place.display()));
    }
    let settings = settings(draft)?;
    let write = || -> io::Result<()> {
        remove(folder)?;
        for name in ["work", "org-rules", "team-rules"] {
            make_folder(&folder.join(name))?;
        }
        replace_file(&folder.join(MARK), op)?;
        if let Some(context) = &draft.context {
            replace_file(&folder.join("team-rules/team-context.md"), context)?;
        }
        replace_file(&folder.join("config.yaml"), &settings)?;
        sync_directory(folder)
    };
    write().map_err(|error| text(folder, &error))
}

/// The agent's file. JSON texts and lists are valid YAML.
fn settings(draft: &AgentDraft) -> Result<String, String> {
    let mut text = "# yaml-language-server: $schema=../../run/schema/agent.json\n\n".to_owned();
    let mut add = |key: &str, value: &str| -> Result<(), String> {
        let value = quoted(value).map_err(|why| format!("{key}: {why}"))?;
        text.push_str(&format!("{key}: {value}\n"));
        Ok(())
    };
    if !draft.description.is_empty() {
        add("description", &draft.description)?;
    }
    let parent = draft.parent.as_ref().map(|parent| parent.as_str());
    let (engine, profile) = (draft.engine.as_deref(), draft.profile.as_deref());
    for (key, value) in [("parent", parent), ("engine", engine), ("profile", profile)] {
        value.map_or(Ok(()), |value| add(key, value))?;
    }
    if let Some(tools) = &draft.allowed_tools {
        let tools: Result<Vec<String>, String> = tools.iter().map(|tool| quoted(tool)).collect();
        text.push_str(&format!("allowed_tools: [{}]\n", tools?.join(", ")));
    }
    Ok(text)
}

fn publish(home: &Home, op: &str, name: &str) -> Result<(), String> {
    let (from, to) = (staging(home, op), home.agent(name));
    if fs::symlink_metadata(&to).is_ok() {
        return Err(format!("{} is there by now", to.display()));
    }
    move_folder(&from, &to).map_err(|error| text(&to, &error))
}

/// Takes the folder away that the change made; one that somebody else made stays.
fn withdraw(home: &Home, op: &str, name: &str) -> Result<(), String> {
    let (aside, place) = (staging(home, op), home.agent(name));
    let is_ours = fs::read_to_string(place.join(MARK)).is_ok_and(|made_by| made_by == op);
    let take = || -> io::Result<()> {
        remove(&aside)?;
        if is_ours {
            // Out of sight first: what is removed file by file is never half an agent.
            make_folder(&home.run().join("staging"))?;
            move_folder(&place, &aside)?;
            remove(&aside)?;
        }
        Ok(())
    };
    take().map_err(|error| text(&place, &error))
}

/// The folder is like every other one from now on.
fn settle(folder: &Path, op: &str) -> io::Result<()> {
    let mark = folder.join(MARK);
    match fs::read_to_string(&mark) {
        Ok(made_by) if made_by == op => fs::remove_file(&mark),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn move_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    for folder in [to, from].into_iter().filter_map(Path::parent) {
        sync_directory(folder)?;
    }
    Ok(())
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        // Below a file there is nothing.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(())
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use skep_core::ids::AgentName;

    use super::*;

    fn draft() -> AgentDraft {
        AgentDraft {
            name: AgentName::new("new"),
            parent: Some(AgentName::new("main")),
            description: "It's: \"new\"".to_owned(),
            engine: None,
            profile: Some("default".to_owned()),
            allowed_tools: Some(vec!["read".to_owned(), "vault_*".to_owned()]),
            context: Some("Know this.".to_owned()),
        }
    }

    #[test]
    fn org_a_folder_is_made_beside_the_others_and_moved_whole() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        fs::create_dir_all(home.teams()).unwrap();
        let staged = staging(&home, "t/c");
        stage(&home, "t/c", &staged, &draft()).unwrap();
        assert!(!home.agent("new").exists());
        let text = fs::read_to_string(staged.join("config.yaml")).unwrap();
        assert!(text.ends_with(
            "description: \"It's: \\\"new\\\"\"\nparent: \"main\"\nprofile: \"default\"\n\
             allowed_tools: [\"read\", \"vault_*\"]\n"
        ));
        publish(&home, "t/c", "new").unwrap();
        let place = home.agent("new");
        let context = fs::read_to_string(place.join("team-rules/team-context.md")).unwrap();
        assert_eq!(context, "Know this.");
        assert!(!staged.exists() && place.join("work").is_dir());
        // Another change takes nothing of it away.
        withdraw(&home, "t/other", "new").unwrap();
        assert!(place.is_dir());
        withdraw(&home, "t/c", "new").unwrap();
        assert!(!place.exists() && !staged.exists());
    }

    #[test]
    fn org_a_folder_of_somebody_else_is_never_taken() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        fs::create_dir_all(home.agent("new")).unwrap();
        let staged = staging(&home, "t/c");
        stage(&home, "t/c", &staged, &draft()).unwrap_err();
        withdraw(&home, "t/c", "new").unwrap();
        assert!(home.agent("new").is_dir());
        fs::remove_dir(home.agent("new")).unwrap();
        stage(&home, "t/c", &staged, &draft()).unwrap();
        fs::create_dir_all(home.agent("new")).unwrap();
        publish(&home, "t/c", "new").unwrap_err();
        withdraw(&home, "t/c", "new").unwrap();
        assert!(home.agent("new").is_dir() && !staged.exists());
        // Once it has ended, nothing takes it back.
        fs::remove_dir(home.agent("new")).unwrap();
        stage(&home, "t/c", &staged, &draft()).unwrap();
        publish(&home, "t/c", "new").unwrap();
        settle(&home.agent("new"), "t/c").unwrap();
        withdraw(&home, "t/c", "new").unwrap();
        assert!(home.agent("new").is_dir());
    }

    #[test]
    fn org_nothing_in_a_draft_is_filled_in() {
        let table: [fn(&mut AgentDraft); 4] = [
            |draft| draft.description = "${HOME}".to_owned(),
            |draft| draft.profile = Some("${HOME}".to_owned()),
            |draft| draft.engine = Some("vault:KEY".to_owned()),
            |draft| draft.allowed_tools = Some(vec!["{{vault:KEY}}".to_owned()]),
        ];
        for change in table {
            let mut draft = draft();
            change(&mut draft);
            assert!(settings(&draft).is_err(), "{draft:?}");
        }
    }
}
