//! Everything that is done before a program starts, the same for a command of the shell and a child
//! that is spoken to: the room is checked, its user and its group are made, its walls are laid out.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{
    CommandLimits, Counting, INSTALL, Level, MOST_WORD_BYTES, ProgramFolders, Sandbox,
    SandboxError, SandboxRoom, arguments, broken, entrance,
};
use crate::cgroup::Group;
use crate::disk;
use crate::network::{ChildNetwork, NetworkEntrance};
use crate::process::{Invocation, Wall};
use crate::processors::ProcessorStanding;
use crate::size::{Size, Sizes, Space};
use crate::watchdog::Ceiling;

/// What is to be started.
pub(crate) struct Inside {
    pub(super) form: Form,
    pub(super) words: Vec<OsString>,
    /// Beside the usual variables.
    pub(super) environment: Vec<(String, String)>,
    /// Left open.
    pub(super) handles: Vec<OwnedFd>,
    pub(super) folders: ProgramFolders,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// For the shell; its standard error comes with its standard output.
    Line,
    Program,
}

impl Inside {
    pub fn line(line: String) -> Self {
        let words = vec![line.into()];
        Self {
            form: Form::Line,
            words,
            environment: Vec::new(),
            handles: Vec::new(),
            folders: ProgramFolders::default(),
        }
    }

    /// A program and its arguments. A variable with the name of a descriptor holds its number.
    pub fn program(
        words: Vec<OsString>,
        mut environment: Vec<(String, String)>,
        descriptors: Vec<(String, OwnedFd)>,
        folders: ProgramFolders,
    ) -> Self {
        let numbers = descriptors.iter().map(|(name, it)| (name.clone(), it.as_raw_fd()));
        environment.extend(numbers.map(|(name, number)| (name, number.to_string())));
        let handles = descriptors.into_iter().map(|(_, handle)| handle).collect();
        Self { form: Form::Program, words, environment, handles, folders }
    }

    fn on_host(self, directory: PathBuf) -> PreparedProgram {
        let mut words = self.words;
        if let Form::Line = self.form {
            let shell = ["bash", "-c", "exec bash -c -- \"$1\" 2>&1", "bash"];
            words.splice(0..0, shell.map(Into::into));
        }
        let program = if words.is_empty() { OsString::new() } else { words.remove(0) };
        let environment = self.environment;
        let invocation = Invocation { program, arguments: words, directory, environment };
        let wall = Wall { handles: self.handles, ..Wall::default() };
        PreparedProgram { invocation, wall, measured: None, network: None }
    }
}

/// A program and the walls around it, ready for the start.
pub(crate) struct PreparedProgram {
    pub invocation: Invocation,
    pub wall: Wall,
    /// To be kept until the program has ended.
    pub measured: Option<Measured>,
    /// As long; absent where the hive answers nothing.
    pub network: Option<ChildNetwork>,
}

/// Measures the workspace when the program is over, also when nobody waited for that.
pub(crate) struct Measured {
    sizes: Arc<Sizes>,
    workspace: PathBuf,
    _standing: ProcessorStanding,
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.sizes.measure(&self.workspace);
    }
}

impl Sandbox {
    /// At whatever level it is; behind walls once the trial has passed.
    pub(crate) async fn prepare(
        &self,
        inside: Inside,
        room: &SandboxRoom,
    ) -> Result<PreparedProgram, SandboxError> {
        disk::check_floor(&room.workspace, self.settings.limits.disk_floor_bytes)?;
        if let Some(long) = inside.words.iter().find(|word| word.len() > MOST_WORD_BYTES) {
            return Err(SandboxError::Long { bytes: long.len() });
        }
        if self.settings.level == Level::Host {
            return Ok(inside.on_host(room.workspace.clone()));
        }
        self.ready(&room.network).await?;
        self.prepare_walls(inside, room).await
    }

    /// The same without a trial before: the trial itself comes this way.
    pub(super) async fn prepare_walls(
        &self,
        mut inside: Inside,
        room: &SandboxRoom,
    ) -> Result<PreparedProgram, SandboxError> {
        let room = self.checked(room, &mut inside.folders)?;
        let limits = &self.settings.limits;
        let (size, space) = self.sizes.look(&room.workspace, limits.workspace_bytes).await;
        let ready = tokio::task::spawn_blocking({
            let (room, counting, limits) = (room.clone(), self.settings.counting, limits.clone());
            let own = inside.folders.write.clone();
            move || {
                let user = entrance::user_for(&room, &own)?;
                Ok::<_, SandboxError>((user, group(counting, &limits)))
            }
        });
        let (user, group) = ready.await.map_err(|_| broken("it is shutting down"))??;
        let program =
            arguments::find_program(&self.settings.bubblewrap).ok_or(SandboxError::Missing {
                why: "bubblewrap is not installed".to_owned(),
                remedy: INSTALL,
            })?;
        let (staging, shown) =
            arguments::staged(&room, &inside.folders, &self.settings, user.is_some());
        let named = user.unwrap_or_else(entrance::User::own);
        let notice = size.map_or_else(String::new, |size| notice(size, space, limits));
        let parts = (&inside, notice.as_str());
        let line = arguments::line(&self.settings, named, &room.network, &shown, parts, space);
        let mut line = line.map_err(|why| broken(&why))?;
        let leash = line.leash;
        line.handles.extend(inside.handles);
        let (network_entrance, network) =
            ChildNetwork::of(&room.network).map_err(|why| broken(&why))?.unzip();
        let standing =
            ProcessorStanding::of(group.as_ref().is_some_and(|group| group.shares_time()));
        let enter = entrance::SandboxEntrance::new(user, standing.entrance(), staging, limits);
        let enter = enter.map_err(|why| broken(&why))?;
        let invocation = Invocation {
            program: program.into(),
            arguments: line.arguments,
            directory: PathBuf::from("/"),
            environment: Vec::new(),
        };
        let wall = Wall {
            enter: Some(Box::new(move || {
                // Before the rights are given up that it takes.
                network_entrance.as_ref().map_or(Ok(()), NetworkEntrance::enter)?;
                entrance::tie(leash)?;
                enter.enter()
            })),
            handles: line.handles,
            ceiling: Some(Ceiling { group, ..ceiling(limits, &room, size) }),
        };
        let (sizes, workspace) = (Arc::clone(&self.sizes), room.workspace);
        let measured = Measured { sizes, workspace, _standing: standing };
        Ok(PreparedProgram { invocation, wall, measured: Some(measured), network })
    }

    /// The room by its real paths, when it shows nothing that is hidden.
    fn checked(
        &self,
        room: &SandboxRoom,
        folders: &mut ProgramFolders,
    ) -> Result<SandboxRoom, SandboxError> {
        let real = |path: &PathBuf| {
            path.canonicalize().map_err(|error| broken(&format!("{}: {error}", path.display())))
        };
        let workspace = real(&room.workspace)?;
        let read_only = room.read_only.iter().map(real).collect::<Result<Vec<_>, _>>()?;
        for folder in folders.read.iter_mut().chain(&mut folders.write) {
            *folder = real(folder)?;
        }
        let own = || folders.read.iter().chain(&folders.write);
        for hidden in &self.settings.hidden {
            let shows = |path: &Path| hidden.starts_with(path);
            if shows(&workspace) || read_only.iter().chain(own()).any(|path| shows(path)) {
                return Err(broken(&format!("it would show {}", hidden.display())));
            }
        }
        Ok(SandboxRoom { workspace, read_only, network: room.network.clone() })
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
