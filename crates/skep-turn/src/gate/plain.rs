//! The surroundings of a plain line: the sandbox's constants, names of files beneath the
//! workspace, and where redirections lead. Looks, and changes nothing; blocks.

use std::path::Path;

use skep_core::settings::SandboxLevel;
use skep_guard::sandbox;
use skep_guard::workspace::{EntryKind, Opened, PathRefusal, Workspace};
use skep_shell::glob::Listed;
use skep_shell::plain::{Surroundings, joined};

/// Names of one folder that are looked at.
const MOST_LISTED: usize = 100_000;

pub(super) struct Around {
    workspace: Workspace,
    /// Where a command starts; known in the sandbox alone, as `$HOME` is.
    start: Option<String>,
}

impl Around {
    pub fn open(folder: &Path, level: SandboxLevel) -> Option<Self> {
        let start = match level {
            SandboxLevel::Confined => folder.canonicalize().ok()?.to_str().map(str::to_owned),
            SandboxLevel::Host => None,
        };
        Some(Self { workspace: Workspace::open(folder).ok()?, start })
    }
}

impl Surroundings for Around {
    fn home(&self) -> Option<&str> {
        self.start.as_ref().map(|_| sandbox::HOME)
    }

    fn workspace(&self) -> Option<&str> {
        self.start.as_deref()
    }

    fn list(&self, folder: &str) -> Result<Listed, String> {
        let folder = if folder.is_empty() { "." } else { folder };
        let opened = match self.workspace.open_any(folder) {
            Ok(Opened::Folder(opened)) => opened,
            Ok(Opened::File(_)) | Err(PathRefusal::NotFound { .. }) => return Ok(Vec::new()),
            Err(refusal) => return Err(format!("a pattern for file names: {refusal}")),
        };
        let entries = opened.entries(MOST_LISTED + 1).map_err(|error| error.to_string())?;
        if entries.len() > MOST_LISTED {
            return Err(format!("{folder} has more than {MOST_LISTED} names"));
        }
        let listed = entries.into_iter().map(|entry| {
            let name = entry.name.into_string();
            let name = name.map_err(|_| format!("{folder} has names that are no text"))?;
            let is_folder = match entry.kind {
                EntryKind::Folder => true,
                EntryKind::Link => {
                    let leads = self.workspace.open_any(&joined(folder, &name));
                    matches!(leads, Ok(Opened::Folder(_)))
                }
                EntryKind::File | EntryKind::Special => false,
            };
            Ok((name, is_folder))
        });
        listed.collect()
    }

    fn enter(&self, folder: &str, has_to_exist: bool) -> Result<(), String> {
        let shown = if folder.is_empty() { "." } else { folder };
        if !shown.starts_with('/') && self.workspace.leads_to(shown).as_deref() != Some(shown) {
            return Err(format!("`cd {shown}` follows a link"));
        }
        let found = || matches!(self.workspace.open_any(shown), Ok(Opened::Folder(_)));
        match has_to_exist && !found() {
            true => Err(format!("`cd {shown}` goes to no folder of the workspace")),
            false => Ok(()),
        }
    }

    fn target(&self, folder: &str, path: &str) -> Result<String, String> {
        let leads = self.workspace.leads_to(&joined(folder, path));
        let inside =
            leads.filter(|leads| !path.is_empty() && leads != "." && !leads.starts_with('/'));
        inside.ok_or_else(|| "a redirection leads out of the workspace".to_owned())
    }
}
