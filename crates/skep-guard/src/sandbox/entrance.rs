//! The way from our own privileges down to those of the sandbox: what the child does before its
//! exec, and as whom it goes on.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};
use rustix::process::{Resource, Rlimit};
use rustix::thread::{UnshareFlags, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use seccompiler::BpfProgram;

use super::{CommandLimits, Gid, SandboxError, SandboxRoom, Uid, Workspace, broken, filter};
use crate::processors::ProcessorEntrance;

/// Where the child, being root, puts what the unprivileged user must reach although the folders
/// above it are closed to that user. Covered by a file system of its own that only the child sees.
const STAGE: &str = "/tmp";
/// A tenth of what others get. It also keeps a command from leaving its precedence.
const NICE: i32 = 10;
/// More would not fit the fixed array that stands in for an allocation.
const MOST_STAGED: usize = 16;
/// Of all processes of a command; the kernel counts them for each user of the machine.
const PENDING_SIGNALS: u64 = 4096;

#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub uid: Uid,
    pub gid: Gid,
}

impl User {
    pub fn own() -> Self {
        Self { uid: rustix::process::geteuid(), gid: rustix::process::getegid() }
    }
}

/// As root, the user the command runs as: the owner of the workspace, and where that is root, a
/// user of its own made from the workspace's path, to whom its files are then given. The folders
/// it may only read are opened to that user's group, its `own` ones are given to it. Otherwise we
/// have no privileges to drop.
pub(super) fn user_for(room: &SandboxRoom, own: &[PathBuf]) -> Result<Option<User>, SandboxError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let user = owner_of(&room.workspace)?;
    for path in &room.read_only {
        let failed = |why: &dyn std::fmt::Display| broken(&format!("{}: {why}", path.display()));
        Workspace::open(path)
            .map_err(|error| failed(&error))?
            .folder()
            .map_err(|refusal| failed(&refusal))?
            .show_to(user.gid, &room.workspace)
            .map_err(|error| failed(&error))?;
    }
    for path in own {
        give(path, user)?;
    }
    Ok(Some(user))
}

fn owner_of(workspace: &Path) -> Result<User, SandboxError> {
    let failed = |why: &dyn std::fmt::Display| broken(&format!("{}: {why}", workspace.display()));
    let owner = std::fs::metadata(workspace).map_err(|error| failed(&error))?;
    if owner.uid() != 0 {
        let (uid, gid) = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
        return Ok(User { uid, gid });
    }
    let number = own_number(workspace);
    let user = User { uid: Uid::from_raw(number), gid: Gid::from_raw(number) };
    give(workspace, user)?;
    Ok(user)
}

fn give(path: &Path, user: User) -> Result<(), SandboxError> {
    let failed = |why: &dyn std::fmt::Display| broken(&format!("{}: {why}", path.display()));
    Workspace::open(path)
        .map_err(|error| failed(&error))?
        .folder()
        .map_err(|refusal| failed(&refusal))?
        .give_to(user.uid, user.gid)
        .map_err(|error| failed(&error))
}

/// 52000 to 59999: above the users that systems number by hand, below those that systemd hands
/// out, and within the 65536 that a container usually has.
fn own_number(workspace: &Path) -> u32 {
    // FNV-1a, 32 bits: the same number for the same path in every release.
    let hash =
        workspace.as_os_str().as_bytes().iter().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
    52_000 + hash % 8_000
}

/// Where a folder is found by the child after it was staged.
pub(super) fn stage(index: usize) -> PathBuf {
    Path::new(STAGE).join(index.to_string())
}

/// In the child, once it needs no descriptor of ours any more: from this number can be read who its
/// parent is. Bare system calls only.
pub(super) fn tie(leash: RawFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let own = rustix::fs::open(c"/proc/self/stat", flags, Mode::empty())?.into_raw_fd();
    // SAFETY: numbers; they change descriptors of the child alone. The exec closes the other one.
    let tied =
        unsafe { libc::dup2(own, leash) != -1 && libc::fcntl(leash, libc::F_SETFD, 0) != -1 };
    if tied { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Everything that `enter` needs, made before the start.
pub(super) struct SandboxEntrance {
    user: Option<User>,
    standing: ProcessorEntrance,
    staged: Vec<(CString, CString)>,
    limits: [(Resource, u64); 6],
    filters: Vec<BpfProgram>,
}

impl SandboxEntrance {
    pub fn new(
        user: Option<User>,
        standing: ProcessorEntrance,
        staging: Vec<PathBuf>,
        limits: &CommandLimits,
    ) -> Result<Self, String> {
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes());
        let staged: Vec<(CString, CString)> = staging
            .iter()
            .enumerate()
            .map(|(index, path)| Ok((text(path)?, text(&stage(index))?)))
            .collect::<Result<_, std::ffi::NulError>>()
            .map_err(|error| error.to_string())?;
        if staged.len() > MOST_STAGED {
            return Err(format!("more than {MOST_STAGED} folders are to be shown"));
        }
        let mut filters = filter::programs()?;
        if standing.processors.is_some() {
            filters.push(filter::against_other_processors()?);
        }
        Ok(Self {
            user,
            standing,
            staged,
            limits: [
                (Resource::Cpu, limits.cpu.as_secs().max(1)),
                (Resource::Data, limits.memory_bytes),
                (Resource::Fsize, limits.file_bytes),
                (Resource::Nofile, limits.open_files),
                (Resource::Core, 0),
                (Resource::Sigpending, PENDING_SIGNALS),
            ],
            filters,
        })
    }

    /// Runs in the child: bare system calls only, nothing allocated, no lock taken.
    pub fn enter(&self) -> io::Result<()> {
        if let Some(user) = self.user {
            self.set_stage()?;
            set_thread_groups(&[])?;
            set_thread_res_gid(user.gid, user.gid, user.gid)?;
            set_thread_res_uid(user.uid, user.uid, user.uid)?;
        }
        for (resource, limit) in self.limits {
            // Lower than ours where ours is lower already.
            let most = rustix::process::getrlimit(resource).maximum;
            let limit = most.map_or(limit, |most| most.min(limit));
            let new = Rlimit { current: Some(limit), maximum: Some(limit) };
            rustix::process::setrlimit(resource, new)?;
        }
        // Whatever whoever started the hive had.
        rustix::process::umask(Mode::from_raw_mode(0o022));
        // The hive comes first; a group of its own, where there is one, says by how much. A system
        // that refuses lets it run as before. Late, because the thread that starts it waits for it
        // and it has the memory of the hive until then, with the kernel's locks on that.
        let _ = rustix::process::setpriority_process(None, NICE);
        self.standing.enter();
        rustix::thread::set_no_new_privs(true)?;
        for program in &self.filters {
            seccompiler::apply_filter(program).map_err(|_| io::Error::last_os_error())?;
        }
        Ok(())
    }

    /// Clones are taken before the stage is covered: they may lie beneath it.
    fn set_stage(&self) -> io::Result<()> {
        // SAFETY: a new mount namespace for this process, which has one thread; it shares no file
        // descriptor table with anyone, and its memory with a thread that waits.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS)? };
        mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
        let mut clones: [Option<OwnedFd>; MOST_STAGED] = [const { None }; MOST_STAGED];
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        for ((source, _), clone) in self.staged.iter().zip(&mut clones) {
            *clone = Some(open_tree(CWD, source.as_c_str(), flags)?);
        }
        let private = MountFlags::NOSUID | MountFlags::NODEV;
        mount(c"tmpfs", STAGE, c"tmpfs", private, Some(c"mode=0755,size=64k"))?;
        for ((_, target), clone) in self.staged.iter().zip(&clones) {
            let Some(clone) = clone else { continue };
            rustix::fs::mkdirat(CWD, target.as_c_str(), Mode::from_raw_mode(0o755))?;
            let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            move_mount(clone.as_fd(), c"", CWD, target.as_c_str(), whole)?;
        }
        Ok(())
    }
}
