//! The command line of bubblewrap: what the command sees, in the order it is laid out.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::MemfdFlags;

use super::entrance::{self, User};
use super::prepare::{Form, Inside};
use super::{ProgramFolders, SandboxRoom, Settings, filter};
use crate::environment;
use crate::network::RoomNetwork;
use crate::size::Space;

/// Programs and libraries of the system. Links among them are made again as links.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"];

/// What programs need of `/etc` and what holds no secret.
const ETC: [&str; 15] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];

/// Names come from the file of hosts and from DNS, whatever the machine asks besides.
const NAME_SOURCES: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n\
                            networks: files\nprotocols: files\nservices: files\n";
/// Where the hive answers, see `network`.
const NAME_SERVER: &str = "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n";

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Of a file system that only covers what is below it: the least there is.
const COVER_BYTES: u64 = 4096;
/// `$HOME` of a confined command.
pub const HOME: &str = "/tmp/home";

/// What runs first inside: `$1` is the limit of processes, `$2` a notice, `$3` the leash, `$4` the
/// number of the hive's process, `$5` and `$6` the two ends of a pipe.
///
/// Bubblewrap outside dies with the hive, and the first process in here dies with bubblewrap, each
/// once it has asked for that; then both have closed what they do not need, and the pipe ends. From
/// then on the leash tells whether bubblewrap runs as a child of the hive: where that was killed
/// before, it is dead or another's child.
/// The limit is set in here, inside the user namespace: there the kernel counts the sandbox alone,
/// outside it would count everything that the same user runs. With a notice it is said first, and
/// then no file can be written: what is removed takes no byte.
macro_rules! inner {
    ($notice:literal, $start:literal) => {
        concat!(
            "eval \"exec $6>&-; read -r -u $5; read -r -u $3; exec $3<&- $5<&-\"; ",
            "[[ ${REPLY##*) } = [!ZX]\" $4 \"* ]] || exit 126; ",
            "ulimit -u \"$1\" || exit 126; ",
            "[ -z \"$2\" ] || { ulimit -f 0 || exit 126; ",
            $notice,
            "; }; shift 6; ",
            $start
        )
    };
}

const INNER_LINE: &str = inner!("echo \"$2\"", "exec bash -c -- \"$1\" 2>&1");
/// The standard output of a program is its own.
const INNER_PROGRAM: &str = inner!("echo \"$2\" >&2", "exec -- \"$@\"");

pub(super) struct Line {
    pub arguments: Vec<OsString>,
    /// Files named by number in the arguments; to be kept open for bubblewrap.
    pub handles: Vec<OwnedFd>,
    /// The number that the leash has to have, see `INNER_LINE`.
    pub leash: RawFd,
}

/// A folder where it is found now, and where the command will see it.
pub(super) struct Shown {
    from: PathBuf,
    at: PathBuf,
    bound: Bound,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// Before what is hidden is covered.
    Toolchain,
    ReadOnly,
    Writable,
}

/// The program by its path, from PATH or where distributions put it.
pub fn find_program(program: &Path) -> Option<PathBuf> {
    let runs = |path: &Path| {
        fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 1 != 0)
    };
    if program.components().count() > 1 {
        return runs(program).then(|| program.to_path_buf());
    }
    let path = environment::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(PATH.split(':'))
        .filter(|folder| folder.starts_with('/'))
        .map(|folder| Path::new(folder).join(program))
        .find(|candidate| runs(candidate))
}

/// What is to be staged by root, and where all that is shown comes from: read-only folders first,
/// the workspace last.
pub(super) fn staged(
    room: &SandboxRoom,
    folders: &ProgramFolders,
    settings: &Settings,
    as_root: bool,
) -> (Vec<PathBuf>, Vec<Shown>) {
    let read_only = room.read_only.iter().chain(&folders.read);
    let writable = folders.write.iter().chain([&room.workspace]);
    let all = settings
        .toolchains
        .iter()
        .map(|path| (path, Bound::Toolchain))
        .chain(read_only.map(|path| (path, Bound::ReadOnly)))
        .chain(writable.map(|path| (path, Bound::Writable)));
    let from = |index, path: &PathBuf| if as_root { entrance::stage(index) } else { path.clone() };
    let shown: Vec<Shown> = all
        .enumerate()
        .map(|(index, (path, bound))| Shown { from: from(index, path), at: path.clone(), bound })
        .collect();
    let staging = if as_root { &shown[..] } else { &[] };
    (staging.iter().map(|shown| shown.at.clone()).collect(), shown)
}

pub(super) fn line(
    settings: &Settings,
    user: User,
    network: &RoomNetwork,
    shown: &[Shown],
    (inside, notice): (&Inside, &str),
    space: Space,
) -> Result<Line, String> {
    let mut line = Line { arguments: Vec::new(), handles: Vec::new(), leash: -1 };
    line.add(["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]);
    if !matches!(network, RoomNetwork::None) {
        // The one it is started in: made for it alone, or with `full` the machine's.
        line.add(["--share-net"]);
    }
    line.add(["--new-session", "--cap-drop", "ALL", "--hostname", "skep", "--clearenv"]);
    line.environment(settings);
    for (name, value) in &inside.environment {
        line.add(["--setenv", name, value]);
    }
    line.system();
    line.etc(user, network).map_err(|error| error.to_string())?;
    line.add(["--proc", "/proc", "--dev", "/dev"]);
    // The death of the first process ends all others, and while they start it still has a folder
    // of the host open: nobody gets at its memory and its descriptors.
    line.memory("/proc/1", COVER_BYTES);
    line.memory("/dev/shm", settings.limits.temporary_bytes);
    line.memory("/tmp", settings.limits.temporary_bytes);
    line.add(["--dir", HOME]);
    let is_shown = |hidden: &&PathBuf| {
        let toolchains = settings.toolchains.iter().map(PathBuf::as_path);
        toolchains.chain(SYSTEM.map(Path::new)).any(|shown| hidden.starts_with(shown))
    };
    let masks: Vec<&PathBuf> = settings.hidden.iter().filter(is_shown).collect();
    let Some(workspace) = shown.last() else { return Err("nothing is shown".to_owned()) };
    line.bind(shown, Bound::Toolchain);
    for mask in &masks {
        line.memory(mask, COVER_BYTES);
    }
    line.bind(shown, Bound::ReadOnly);
    line.bind(shown, Bound::Writable);
    for mask in &masks {
        line.add_path("--remount-ro", mask);
    }
    line.add(["--remount-ro", "/dev", "--remount-ro", "/"]);
    line.add_path("--chdir", &workspace.at);
    if let Some(filter) = filter::against_growth(space)? {
        let handle = file_of(&filter).map_err(|error| error.to_string())?;
        line.add(["--seccomp", handle.as_raw_fd().to_string().as_str()]);
        line.handles.push(handle);
    }
    let processes = settings.limits.processes.to_string();
    let inner = match inside.form {
        Form::Line => INNER_LINE,
        Form::Program => INNER_PROGRAM,
    };
    let hive = fs::read_link("/proc/self").map_err(|error| error.to_string())?;
    let (end, held) = io::pipe().map_err(|error| error.to_string())?;
    let ends = [end.as_raw_fd(), held.as_raw_fd()].map(|it| it.to_string().into());
    line.handles.extend([end.into(), held.into()]);
    let is_free = |number: &RawFd| {
        line.handles.iter().chain(&inside.handles).all(|it| it.as_raw_fd() != *number)
    };
    line.leash = (3..).find(is_free).unwrap_or(-1);
    let leash = line.leash.to_string();
    line.add(["--", "bash", "-c", inner, "bash", processes.as_str(), notice, leash.as_str()]);
    line.arguments.push(hive.into());
    line.arguments.extend(ends);
    line.arguments.extend(inside.words.iter().cloned());
    Ok(line)
}

/// A file without a name that bubblewrap reads.
fn file_of(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = fs::File::from(rustix::fs::memfd_create(c"skep", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(OwnedFd::from(file))
}

impl Line {
    fn add<'a>(&mut self, arguments: impl IntoIterator<Item = &'a str>) {
        self.arguments.extend(arguments.into_iter().map(OsString::from));
    }

    fn add_path(&mut self, option: &str, path: &Path) {
        self.arguments.extend([option.into(), path.into()]);
    }

    fn add_paths(&mut self, option: &str, from: &Path, to: &Path) {
        self.arguments.extend([option.into(), from.into(), to.into()]);
    }

    fn bind(&mut self, shown: &[Shown], bound: Bound) {
        let option = if bound == Bound::Writable { "--bind" } else { "--ro-bind" };
        for Shown { from, at, .. } in shown.iter().filter(|shown| shown.bound == bound) {
            self.add_paths(option, from, at);
        }
    }

    fn environment(&mut self, settings: &Settings) {
        let bins = settings.toolchains.iter().map(|path| format!("{}/bin:", path.display()));
        let path = bins.collect::<String>() + PATH;
        let zone = environment::var("TZ").unwrap_or_else(|| "UTC".to_owned());
        for (name, value) in [
            ("PATH", path.as_str()),
            ("HOME", HOME),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
            ("TZ", &zone),
        ] {
            self.add(["--setenv", name, value]);
        }
    }

    fn system(&mut self) {
        for path in SYSTEM.map(Path::new) {
            match fs::read_link(path) {
                Ok(leads_to) => self.add_paths("--symlink", &leads_to, path),
                Err(_) if path.is_dir() => self.add_paths("--ro-bind", path, path),
                Err(_) => {}
            }
        }
    }

    fn etc(&mut self, user: User, network: &RoomNetwork) -> io::Result<()> {
        for path in ETC.map(Path::new).into_iter().filter(|path| path.exists()) {
            self.add_paths("--ro-bind", path, path);
        }
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        self.data("/etc/passwd", &format!("agent:x:{uid}:{gid}::{HOME}:/bin/bash\n"))?;
        self.data("/etc/group", &format!("agent:x:{gid}:\n"))?;
        self.data(
            "/etc/hosts",
            "127.0.0.1 localhost skep\n::1 localhost skep ip6-localhost ip6-loopback\n",
        )?;
        self.data("/etc/nsswitch.conf", NAME_SOURCES)?;
        match network {
            RoomNetwork::None => Ok(()),
            RoomNetwork::Proxy(_) | RoomNetwork::Service(_) => {
                self.data("/etc/resolv.conf", NAME_SERVER)
            }
            // By its text: the file is often a link to where nothing is shown.
            RoomNetwork::Full => {
                let servers = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
                self.data("/etc/resolv.conf", &servers)
            }
        }
    }

    /// A small file made of text.
    fn data(&mut self, at: &str, text: &str) -> io::Result<()> {
        let handle = file_of(text.as_bytes())?;
        let number = handle.as_raw_fd().to_string();
        self.add(["--ro-bind-data", number.as_str(), at]);
        self.handles.push(handle);
        Ok(())
    }

    fn memory(&mut self, at: impl AsRef<Path>, bytes: u64) {
        self.add(["--size", bytes.to_string().as_str()]);
        self.add_path("--tmpfs", at.as_ref());
    }
}
