//! Everything that is done before a confined program starts: the room is checked, its user and its
//! group are made, its walls are laid out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{
    CommandLimits, Counting, INSTALL, Sandbox, SandboxError, SandboxRoom, ShellCommand, arguments,
    broken, entrance,
};
use crate::cgroup::Group;
use crate::process::{Job, Wall};
use crate::size::{Size, Sizes, Space};
use crate::watchdog::Ceiling;

/// A program and the walls around it, ready for the start.
pub(super) struct Prepared {
    pub job: Job,
    pub wall: Wall,
    /// Where the kernel counts too.
    pub group: Option<Arc<Group>>,
    /// To be kept until the program has ended.
    pub measured: Measured,
}

/// Measures the workspace when the program is over, also when nobody waited for that.
pub(super) struct Measured {
    sizes: Arc<Sizes>,
    workspace: PathBuf,
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.sizes.measure(&self.workspace);
    }
}

impl Sandbox {
    pub(super) async fn prepare(
        &self,
        command: ShellCommand,
        room: &SandboxRoom,
    ) -> Result<Prepared, SandboxError> {
        let room = self.checked(room)?;
        let limits = &self.settings.limits;
        let (size, space) = self.sizes.look(&room.workspace, limits.workspace_bytes).await;
        let ready = tokio::task::spawn_blocking({
            let (room, counting, limits) = (room.clone(), self.settings.counting, limits.clone());
            move || Ok::<_, SandboxError>((entrance::user_for(&room)?, group(counting, &limits)))
        });
        let (user, group) = ready.await.map_err(|_| broken("it is shutting down"))??;
        let program = arguments::find(&self.settings.bubblewrap).ok_or(SandboxError::Missing {
            why: "bubblewrap is not installed".to_owned(),
            remedy: INSTALL,
        })?;
        let (staging, shown) = arguments::staged(&room, &self.settings, user.is_some());
        let named = user.unwrap_or_else(entrance::User::own);
        let notice = size.map_or_else(String::new, |size| notice(size, space, limits));
        let line = arguments::line(&self.settings, named, &shown, (&notice, &command.line), space);
        let line = line.map_err(|why| broken(&why))?;
        let joined = group.clone();
        let enter = entrance::SandboxEntrance::new(user, staging, limits, line.handles)
            .map_err(|why| broken(&why))?;
        let job = Job {
            program: program.into(),
            arguments: line.arguments,
            directory: PathBuf::from("/"),
            environment: Vec::new(),
            input: Vec::new(),
            output_bytes: command.output_bytes,
            timeout: Some(command.timeout),
        };
        let wall = Wall {
            enter: Some(Box::new(move || {
                joined.as_ref().map_or(Ok(()), |group| group.join())?;
                enter.enter()
            })),
            ceiling: Some(Ceiling { group: group.clone(), ..ceiling(limits, &room, size) }),
        };
        let measured = Measured { sizes: Arc::clone(&self.sizes), workspace: room.workspace };
        Ok(Prepared { job, wall, group, measured })
    }

    /// The room by its real paths, when it shows nothing that is hidden.
    fn checked(&self, room: &SandboxRoom) -> Result<SandboxRoom, SandboxError> {
        let real = |path: &PathBuf| {
            path.canonicalize().map_err(|error| broken(&format!("{}: {error}", path.display())))
        };
        let workspace = real(&room.workspace)?;
        let read_only = room.read_only.iter().map(real).collect::<Result<Vec<_>, _>>()?;
        for hidden in &self.settings.hidden {
            let shows = |path: &Path| hidden.starts_with(path);
            if shows(&workspace) || read_only.iter().any(|path| shows(path)) {
                return Err(broken(&format!("it would show {}", hidden.display())));
            }
        }
        Ok(SandboxRoom { workspace, read_only })
    }
}

/// The first line of the output of a command in a workspace that is full.
fn notice(size: Size, space: Space, limits: &CommandLimits) -> String {
    let can = match space {
        Space::Left => return String::new(),
        Space::Full => "remove files and not write any",
        Space::Closed => {
            "remove files, and can neither write files nor open any for writing (`> FILE`, also \
             `2>/dev/null`)"
        }
    };
    let most = limits.workspace_bytes >> 20;
    let holds = match size.endless {
        true => "has more files or deeper folders than can be measured".to_owned(),
        false => format!("holds more than the {most} MiB of sandbox.workspace_mib"),
    };
    format!("[workspace_full: the workspace {holds}. Commands can {can} until it is smaller]")
}

fn group(counting: Counting, limits: &CommandLimits) -> Option<Arc<Group>> {
    match counting {
        // Bubblewrap itself is two processes, and each thread of the command counts.
        Counting::Kernel => Group::make(limits.memory_bytes, limits.processes + 2).map(Arc::new),
        Counting::Watchdog => None,
    }
}

fn ceiling(limits: &CommandLimits, room: &SandboxRoom, before: Option<Size>) -> Ceiling {
    // Bubblewrap itself is two processes.
    let processes = usize::try_from(limits.processes).unwrap_or(usize::MAX).saturating_add(2);
    Ceiling {
        memory_bytes: limits.memory_bytes,
        processes,
        // Programs rarely have more than a few dozen; none may have more than `open_files`.
        descriptors: limits.open_files.saturating_mul(16),
        disk_bytes: limits.disk_bytes,
        floor_bytes: limits.disk_floor_bytes,
        folder: room.workspace.clone(),
        folder_bytes: before.map_or(0, |size| size.bytes),
        group: None,
    }
}
