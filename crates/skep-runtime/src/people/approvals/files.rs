//! The content of files that a question is about, as it was when the question was asked.

use skep_core::role::{Action, Reach, decide};
use skep_core::visible::bounded_text;
use skep_turn::gate::{self, PinnedError};

use super::files_of;
use crate::door::{DoorError, ErrorKind, Identity, PinnedFile, Sight};
use crate::hive::Hive;

/// Characters of a file that are shown.
const SHOWN: usize = 50_000;

impl Hive {
    /// A file of a question, for whoever may decide it or read the workspace; whoever asked gets no
    /// file that way before it is decided. `number` is its place in `files`.
    pub async fn approval_file(
        &self,
        id: &str,
        number: usize,
        by: &Identity,
        sight: &Sight,
    ) -> Result<PinnedFile, DoorError> {
        let who = self.visitor(by);
        let row = self.seen_approval(id, &who, sight).await?;
        let reads = who.role.is_some_and(|role| decide(role, Action::ReadFiles) == Reach::All);
        if !reads && self.approvers_now(&row).await.refuse(&who).is_some() {
            let text = "Only whoever may decide the approval or read the workspace sees its files.";
            return Err(DoorError::new(ErrorKind::Forbidden, "not_approver", text));
        }
        let agent = self.agent_of(row.agent, &row.agent_name)?;
        let Some(file) = files_of(&row.files).into_iter().nth(number) else {
            return Err(refused(PinnedError::NotShown));
        };
        let (workspace, path) = (agent.workspace.clone(), file.path.clone());
        let work = move || gate::pinned(&workspace, &file);
        let read = tokio::task::spawn_blocking(work).await.map_err(|_| DoorError::failed())?;
        let content = read.map_err(refused)?;
        let bytes = content.len();
        let Ok(text) = String::from_utf8(content) else {
            return Ok(PinnedFile { path, bytes, lines: 0, text: None, cut: false });
        };
        let lines = text.lines().count();
        let text = skep_scrub::known().clean(&text);
        let cut = text.chars().nth(SHOWN).is_some();
        Ok(PinnedFile { path, bytes, lines, text: Some(bounded_text(&text, SHOWN)), cut })
    }
}

fn refused(why: PinnedError) -> DoorError {
    let (kind, code, text) = match why {
        PinnedError::NotShown => {
            let text = "The call names no such file of its workspace whose content is shown.";
            (ErrorKind::NotFound, "unknown_file", text)
        }
        PinnedError::TooLarge => {
            let text = "The file is larger than 1 MiB, so it is not shown.";
            (ErrorKind::Conflict, "too_large", text)
        }
        PinnedError::Changed => {
            let text = "The file is not what it was when the approval was asked for. Approving the \
                        call asks again.";
            (ErrorKind::Conflict, "changed", text)
        }
    };
    DoorError::new(kind, code, text)
}
