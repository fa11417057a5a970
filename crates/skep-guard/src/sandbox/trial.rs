//! The trial: a command in the sandbox tells what it can see and do, and we judge.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use skep_core::policy::network::{HostEntry, NetworkRules};
use tokio_util::sync::CancellationToken;

use super::{INSTALL, Inside, Level, Sandbox, SandboxError, SandboxRoom, ShellCommand};
use crate::egress::{EgressHub, NoNames};
use crate::network::RoomNetwork;
use crate::process::{Ending, JobOutput, LiveOutput};
use crate::random;

/// What the trial found, for `skep doctor` and for the refusal of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub level: Level,
    pub checks: Vec<Check>,
}

/// One wall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub holds: bool,
    /// What was seen.
    pub detail: String,
}

/// Prints `name=value` lines. Each line is a fact; none of them is an opinion. Ends once the
/// arguments of bubblewrap were seen from outside.
const SCRIPT: &str = r#"
canary=$1 port=$2 datagrams=$3 listed=$4; shift 4
echo "canary=$(cat "$canary" 2>/dev/null)"
echo "hidden=$(for path in "$@"; do ls -A "$path" 2>/dev/null; done | head -n 3 | tr '\n' ' ')"
(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && echo loopback=reached || echo loopback=refused
(echo x >"/dev/udp/127.0.0.1/$datagrams") 2>/dev/null
if [ -n "$listed" ]; then
  (exec 3<>"/dev/tcp/$listed/80"; printf 'GET / HTTP/1.1\r\nHost: x.invalid\r\n\r\n' >&3
   IFS=$' \r' read -r -t 5 _ code _ <&3; echo "listed=$code")
  (exec 3<>"/dev/tcp/x$listed/80") && echo unlisted=reached
fi 2>/dev/null
echo "interfaces=$(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \n')"
for kind in pid net mnt ipc uts user; do echo "ns_$kind=$(readlink "/proc/self/ns/$kind")"; done
echo "processes=$(ls /proc | grep -c '^[0-9]')"
echo "first=$(ls -A /proc/1 | head -n 3 | tr '\n' ' ')"
while IFS=$': \t' read -r key value; do
  case $key in CapPrm|CapEff|CapBnd|NoNewPrivs|Seccomp) echo "$key=$value" ;; esac
done < /proc/self/status
echo "uid=$UID"
for path in / /usr /etc /dev; do : 2>/dev/null > "$path/skep-trial" && echo "wrote=$path"; done
: > trial-write && echo workspace=written
open=
for handle in /proc/$$/fd/*; do
  case ${handle##*/} in 0|1|2) ;; *) [ -L "$handle" ] && open="$open ${handle##*/}" ;; esac
done
echo "descriptors=$open"
echo "limits=$(ulimit -u) $(ulimit -n) $(ulimit -c)"
unshare --user true 2>/dev/null && echo nested=made
chmod u+s trial-write 2>/dev/null && echo lent=made
while [ -e trial-write ] && [ ! -e seen ]; do sleep 0.01; done
echo end=reached
"#;

/// The wall against descriptors that the hive was started with.
const INHERITED: &str = "descriptors";

/// Made in the workspace of the trial when it may end.
const SEEN: &str = "seen";

const NAMESPACES: [&str; 6] = ["pid", "net", "mnt", "ipc", "uts", "user"];
/// Bubblewrap, two shells and what a pipe of the script starts.
const MOST_PROCESSES: usize = 8;

const DESCRIPTORS: &str = "It needs a kernel that closes descriptors when a program is started \
                           (`close_range`); this one was told not to. Start the hive without the \
                           filter of system calls that stands around it; then try again";

pub(super) const USERS: &str = "Allow unprivileged user namespaces: `sysctl -w \
     kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000 \
     user.max_net_namespaces=10000`, on Ubuntu 24.04 and later also \
     `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`; then try again";

/// Whether the hive answers in the network that is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialNetwork {
    None,
    Proxy,
}

/// The host that the trial lists. Nobody has such a name, and it is never looked up: the trial
/// asks it for another host, which the hive refuses.
const LISTED: &str = "skep-trial.invalid";

impl TrialNetwork {
    fn network(self) -> Result<RoomNetwork, String> {
        match self {
            Self::None => Ok(RoomNetwork::None),
            Self::Proxy => {
                let listed = HostEntry::parse(LISTED).map_err(|error| error.to_string())?;
                let rules = NetworkRules { hosts: vec![listed], ..NetworkRules::default() };
                let hub = EgressHub::new(Arc::new(NoNames));
                Ok(RoomNetwork::Proxy(hub.of(0, &Arc::new(rules))))
            }
        }
    }
}

impl Report {
    pub fn holds(&self) -> bool {
        self.level == Level::Host || self.checks.iter().all(|check| check.holds)
    }

    /// The text of a command that was not run because of this.
    pub fn refusal(&self) -> SandboxError {
        let down: Vec<String> = self
            .checks
            .iter()
            .filter(|check| !check.holds)
            .map(|check| format!("{}: {}", check.name, check.detail))
            .collect();
        let missing = self.checks.iter().find(|check| check.name == "bubblewrap" && !check.holds);
        match missing {
            Some(check) => SandboxError::Missing { why: check.detail.clone(), remedy: INSTALL },
            None => {
                let failed = down.join("; ");
                // What bubblewrap says when there is no bash to start.
                let open = self.checks.iter().any(|check| check.name == INHERITED && !check.holds);
                let remedy = match () {
                    () if failed.contains("execvp") => INSTALL,
                    () if open => DESCRIPTORS,
                    () => USERS,
                };
                SandboxError::Down { failed, remedy }
            }
        }
    }
}

pub(super) async fn run(sandbox: &Sandbox, network: TrialNetwork) -> Report {
    let level = sandbox.level();
    if level == Level::Host {
        let detail = "commands run on the host with all rights of this hive".to_owned();
        return Report { level, checks: vec![Check { name: "host", holds: false, detail }] };
    }
    let tried = match tried(sandbox, network).await {
        Ok(tried) => tried,
        Err(SandboxError::Missing { why, .. }) => {
            let checks = vec![Check { name: "bubblewrap", holds: false, detail: why }];
            return Report { level, checks };
        }
        // The refusal around it says that the command was not run, and the remedy.
        Err(SandboxError::Down { failed: why, .. } | SandboxError::Room { why }) => {
            return failed(level, why);
        }
        Err(error) => return failed(level, error.to_string()),
    };
    let ran = &tried.output;
    let facts = Facts::read(ran);
    if facts.get("end") != "reached" {
        let said = String::from_utf8_lossy(&ran.stdout.bytes).trim().to_owned();
        let ended = match ran.ending {
            Ending::Exited { code } => format!("with code {code}"),
            Ending::Signalled { signal } => format!("by signal {signal}"),
            Ending::TimedOut => "after all its time".to_owned(),
            Ending::Cancelled => "because it was stopped".to_owned(),
            Ending::OverLimit { what } => format!("at its limit of {what}"),
        };
        return failed(level, format!("the trial ended early, {ended}. {said}").trim().to_owned());
    }
    Report { level, checks: facts.judge(sandbox, &tried, network) }
}

fn failed(level: Level, detail: String) -> Report {
    Report { level, checks: vec![Check { name: "start", holds: false, detail }] }
}

/// What came of the script, and what was seen from outside.
struct Tried {
    output: JobOutput,
    /// A connection or a datagram came to where we listen.
    connected: bool,
    /// For bubblewrap.
    arguments: Vec<OsString>,
    /// Those that it runs with.
    taken: Vec<OsString>,
}

impl Tried {
    /// What we told bubblewrap and it was not started with.
    fn lost(&self) -> Vec<String> {
        let mut taken = self.taken.iter().peekable();
        let told = self.arguments.iter().take_while(|argument| *argument != "--");
        told.filter(|argument| taken.next_if(|taken| taken == argument).is_none())
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect()
    }
}

/// Runs the script in a workspace of its own, beside a file it must not read.
async fn tried(sandbox: &Sandbox, network: TrialNetwork) -> Result<Tried, SandboxError> {
    let broken = |error: io::Error| super::broken(&format!("no place for the trial: {error}"));
    let place = Place::make().map_err(broken)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(broken)?;
    listener.set_nonblocking(true).map_err(broken)?;
    let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(broken)?;
    datagrams.set_nonblocking(true).map_err(broken)?;
    // As if the hive had been started with it. Every other child closes it like this one does.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let inherited = rustix::fs::open(&place.0, flags, Mode::empty());
    let inherited = inherited.map_err(|errno| broken(errno.into()))?;
    let port = listener.local_addr().map_err(broken)?.port();
    let unseen = datagrams.local_addr().map_err(broken)?.port();
    let listed = if network == TrialNetwork::Proxy { LISTED } else { "" };
    let mut words = vec![quoted(&place.canary().to_string_lossy())];
    words.extend([port.to_string(), unseen.to_string(), quoted(listed)]);
    words.extend(sandbox.settings.hidden.iter().map(|path| quoted(&path.to_string_lossy())));
    let command = ShellCommand {
        line: format!("set -- {}\n{SCRIPT}", words.join(" ")),
        timeout: Duration::from_secs(60),
        output_bytes: 64 * 1024,
    };
    let network = network.network().map_err(|why| super::broken(&why))?;
    let room = SandboxRoom { workspace: place.work(), read_only: Vec::new(), network };
    let prepared = sandbox.prepare_walls(Inside::line(command.line.clone()), &room).await?;
    let arguments = prepared.invocation.arguments.clone();
    let (live, cancel) = (LiveOutput::default(), CancellationToken::new());
    let mut taken = Vec::new();
    let look = async {
        // From its first word on bubblewrap is there, whatever was started in its name.
        live.beyond(0).await;
        taken = live.process().map(arguments_of).unwrap_or_default();
        std::fs::write(place.work().join(SEEN), "").map_err(broken)?;
        std::future::pending::<Result<JobOutput, SandboxError>>().await
    };
    let output = tokio::select! {
        output = super::run_prepared(command, prepared, &live, &cancel) => output?,
        failed = look => failed?,
    };
    drop(inherited);
    let connected = listener.accept().is_ok() || datagrams.recv(&mut [0; 8]).is_ok();
    Ok(Tried { output, connected, arguments, taken })
}

/// What a process was started with, without its name.
fn arguments_of(pid: i32) -> Vec<OsString> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).skip(1);
    words.map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

struct Facts(HashMap<String, String>);

impl Facts {
    fn read(output: &JobOutput) -> Self {
        if output.ending != (Ending::Exited { code: 0 }) {
            return Self(HashMap::new());
        }
        let text = String::from_utf8_lossy(&output.stdout.bytes);
        let facts = text.lines().filter_map(|line| line.split_once('='));
        Self(facts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn judge(&self, sandbox: &Sandbox, tried: &Tried, network: TrialNetwork) -> Vec<Check> {
        let check = |name, holds, good: &str, bad: String| Check {
            name,
            holds,
            detail: if holds { good.to_owned() } else { bad },
        };
        let shared: Vec<&str> = NAMESPACES.into_iter().filter(|kind| self.shares(kind)).collect();
        let processes: usize = self.get("processes").parse().unwrap_or(usize::MAX);
        let is_zero = |set: &&str| self.get(set).parse() == Ok(0_u64);
        let privileges = ["CapPrm", "CapEff", "CapBnd"].iter().all(is_zero)
            && self.get("NoNewPrivs") == "1"
            && !matches!(self.get("uid"), "" | "0")
            && self.get("nested").is_empty();
        let filtered = self.get("Seccomp") == "2" && self.get("lent").is_empty();
        let limits = &sandbox.settings.limits;
        let limited = self.get("limits").split(' ').map(|limit| limit.parse::<u64>());
        let limited: Vec<u64> = limited.map(|limit| limit.unwrap_or(u64::MAX)).collect();
        let holds = matches!(limited[..], [processes, files, 0]
            if processes <= limits.processes && files <= limits.open_files);
        // A wall that stands leaves this fact empty.
        let empty = |name, fact: &str, good, bad: &str| {
            let found = self.get(fact);
            check(name, found.is_empty(), good, format!("{bad}: {}", found.trim()))
        };
        let (loopback, interfaces) = (self.get("loopback"), self.get("interfaces"));
        let alone = !tried.connected && loopback == "refused" && interfaces == "lo";
        let read = "a file outside the workspace was read".to_owned();
        let shared_text = format!("shared with the server: {}", shared.join(", "));
        let rights = format!("uid {}, capabilities {}", self.get("uid"), self.get("CapEff"));
        let visible = format!("{processes} processes are visible");
        let writes = self.get("workspace") == "written";
        let lost = tried.lost();
        let mut checks = vec![
            check("files outside", self.get("canary").is_empty(), "not readable", read),
            empty("hive home", "hidden", "not visible", "visible"),
            check(
                "network",
                alone,
                "own loopback only",
                format!("loopback {loopback}, {interfaces}"),
            ),
            check("server", processes <= MOST_PROCESSES, "not visible", visible),
            empty("first process", "first", "out of reach", "open to all others"),
            check("namespaces", shared.is_empty(), "all its own", shared_text),
            check("privileges", privileges, "none, and none to gain", rights),
            check("system calls", filtered, "filtered", "are not filtered".to_owned()),
            check(
                "arguments",
                lost.is_empty(),
                "all taken by bubblewrap",
                format!("not taken by bubblewrap: {}", lost[..lost.len().min(4)].join(" ")),
            ),
            empty("system files", "wrote", "read-only", "written"),
            check("workspace", writes, "writable", "cannot be written".to_owned()),
            empty(INHERITED, "descriptors", "none inherited", "inherited from the hive"),
            check("limits", holds, "set", format!("not as asked: {}", self.get("limits"))),
        ];
        if network == TrialNetwork::Proxy {
            let (listed, unlisted) = (self.get("listed"), self.get("unlisted"));
            let refused = "a host that is not listed answers".to_owned();
            let silent = format!("the hive does not answer inside: {listed}");
            checks.extend([
                check("unlisted hosts", unlisted.is_empty(), "do not answer", refused),
                check("listeners", listed == "403", "the hive answers for listed hosts", silent),
            ]);
        }
        checks
    }

    /// Also when either side cannot be told.
    fn shares(&self, kind: &str) -> bool {
        let ours = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
        let theirs = self.get(&format!("ns_{kind}"));
        theirs.is_empty() || ours.as_os_str().is_empty() || ours == Path::new(theirs)
    }
}

/// A folder that is gone after the trial.
struct Place(PathBuf);

impl Place {
    fn make() -> io::Result<Self> {
        let place = Self(std::env::temp_dir().join(format!("skep-trial-{}", random::uuid())));
        std::fs::create_dir_all(place.work())?;
        // Readable by everyone: the walls must hide it, not its permissions.
        std::fs::write(place.canary(), random::token())?;
        Ok(place)
    }

    fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    fn canary(&self) -> PathBuf {
        self.0.join("canary")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, place = %self.0.display(), "the trial left a folder behind");
        }
    }
}
