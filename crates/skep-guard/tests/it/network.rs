//! The network of confined programs: listed hosts answer clients as they are, and nothing else
//! answers anybody.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use skep_guard::duplex::{DuplexChild, DuplexProgram, DuplexRecords, LineError};
use skep_guard::egress::Egress;
use skep_guard::network::{Contact, ProgramNetwork, RoomNetwork};
use skep_guard::process::{Ending, JobOutput};
use skep_guard::sandbox::{Level, Sandbox, SandboxError, SandboxRoom, Settings, ShellCommand};
use tokio_util::sync::CancellationToken;

use crate::duplex::{heard, unruly};
use crate::files_site::FilesSite;
use crate::network_trial;
use crate::scene::{hostile, processes_in, text};
use crate::web::{Net, Site, ok};

mod only_service;

const NAME: &str = "allowed.test";

/// A workspace, a sandbox and a way out.
struct Lab {
    home: tempfile::TempDir,
    sandbox: Sandbox,
    net: Net,
}

impl Lab {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(home.path().join("work")).unwrap();
        let mut settings = Settings::new(Level::Confined, Vec::new());
        settings.limits.disk_floor_bytes = 0;
        let net = Net::new();
        net.names.set(NAME, &["127.0.0.1"]);
        let lab = Self { home, sandbox: Sandbox::new(settings), net };
        fs::copy(hostile(), lab.work().join("hostile")).unwrap();
        fs::copy(unruly(), lab.work().join("unruly")).unwrap();
        lab
    }

    /// As a command, and by a child that is spoken to; in this order.
    async fn run(&self, egress: &Arc<Egress>, line: &str) -> [Ran; 2] {
        let network = RoomNetwork::Proxy(Arc::<Egress>::clone(egress));
        let output = self.run_in(network.clone(), line).await.unwrap();
        let command = Ran { said: text(&output), contacts: output.contacts };
        let words = ["-c".to_owned(), format!("exec 2>&1; {line}")].map(Into::into).to_vec();
        let mut child = self.child("attack", network, DuplexProgram::new("bash", words)).await;
        let mut said = Vec::new();
        loop {
            match child.line().await {
                Ok(Some(line)) => said.extend(line.into_iter().chain([b'\n'])),
                Err(LineError::Half(rest)) => said.extend(rest),
                Ok(None) => break,
                Err(error) => panic!("{line}: {error}"),
            }
        }
        let (said, end) = (String::from_utf8_lossy(&said).into_owned(), child.end().await.unwrap());
        [command, Ran { said, contacts: end.contacts }]
    }

    async fn child(&self, name: &str, network: RoomNetwork, program: DuplexProgram) -> DuplexChild {
        let records = DuplexRecords::new(self.home.path().join("children"));
        records.start(name, &self.sandbox, program, &self.room(network)).await.unwrap()
    }

    fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    fn room(&self, network: RoomNetwork) -> SandboxRoom {
        SandboxRoom { workspace: self.work(), read_only: Vec::new(), network }
    }

    async fn run_in(&self, network: RoomNetwork, line: &str) -> Result<JobOutput, SandboxError> {
        let command = ShellCommand {
            line: line.to_owned(),
            timeout: Duration::from_secs(60),
            output_bytes: 64 * 1024,
        };
        self.sandbox.run(command, &self.room(network), &CancellationToken::new()).await
    }
}

/// What a program said, and whom it asked for.
struct Ran {
    said: String,
    contacts: Vec<Contact>,
}

impl Ran {
    /// Host and code; nothing as the code of one that was reached.
    fn contacts(&self) -> Vec<(&str, &str)> {
        let code = |contact: &Contact| contact.refusal.as_ref().map_or("", |refusal| refusal.code);
        self.contacts.iter().map(|contact| (contact.host.as_str(), code(contact))).collect()
    }
}

fn listed(ports: &[u16]) -> Value {
    let hosts: Vec<String> = ports.iter().map(|port| format!("{NAME}:{port}")).collect();
    let private: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    json!({ "hosts": hosts, "private": private })
}

#[tokio::test]
async fn network_usual_clients_reach_a_listed_host_as_they_are() {
    let (lab, site) = (Lab::new(), FilesSite::new(NAME).await);
    fs::copy(site.authority(), lab.work().join("ca.pem")).unwrap();
    let egress = lab.net.under(listed(&[site.http, site.https]));
    let fetch = |url: &str| {
        format!(
            "node -e \"fetch('{url}/hello').then(r => r.text()).then(console.log, \
             e => console.log(e.cause))\""
        )
    };
    let python = |url: &str| {
        format!("python3 -c \"import urllib.request as r; print(r.urlopen('{url}/hello').read())\"")
    };
    for (scheme, port) in [("http", site.http), ("https", site.https)] {
        let url = format!("{scheme}://{NAME}:{port}");
        let table = [
            (format!("curl -sS --cacert ca.pem {url}/hello"), "hello from the site"),
            (python(&url), "b'hello from the site'\n"),
            (fetch(&url), "hello from the site\n"),
            (
                format!(
                    "rm -rf repo; git -c http.sslCAInfo=$PWD/ca.pem clone -q {url}/repo.git && \
                     cat repo/file"
                ),
                "from the repository",
            ),
            (
                format!(
                    "pip download -q --no-deps --disable-pip-version-check --cert ca.pem \
                     --trusted-host {NAME} --index-url {url}/simple demo && ls *.whl; rm -f *.whl"
                ),
                "demo-1.0-py3-none-any.whl\n",
            ),
            (format!("npm view demo version --cafile ca.pem --registry {url}"), "1.2.3\n"),
        ];
        for (line, expected) in table {
            let line =
                format!("export NODE_EXTRA_CA_CERTS=$PWD/ca.pem SSL_CERT_FILE=$PWD/ca.pem; {line}");
            for ran in lab.run(&egress, &line).await {
                assert_eq!(ran.said, expected, "{line}");
                assert_eq!(ran.contacts(), [(format!("{NAME}:{port}").as_str(), "")], "{line}");
            }
        }
    }
}

#[tokio::test]
async fn network_a_host_that_is_not_listed_is_named_and_not_reached() {
    let (lab, sink) = (Lab::new(), Site::sink("127.0.0.1:0").await);
    let port = sink.port();
    lab.net.names.set("other.test", &["127.0.0.1"]);
    lab.net.names.set("denied.test", &["127.0.0.1"]);
    let rules = json!({
        "hosts": [format!("{NAME}:{port}"), "*.wild.test"],
        "deny": ["denied.test"],
        "private": [format!("127.0.0.1:{port}")],
    });
    let egress = lab.net.under(rules);
    let line = format!(
        "for host in other.test denied.test; do curl -sS http://$host:{port}/; done; \
         curl -sS http://127.0.0.1/; curl -sS http://{NAME}/; \
         getent hosts a.wild.test b.wild.test a.wild.test"
    );
    for ran in lab.run(&egress, &line).await {
        let said = &ran.said;
        assert!(said.contains("Could not resolve host: other.test"), "{said}");
        assert!(said.contains("Could not resolve host: denied.test"), "{said}");
        // The name is listed with another port alone.
        assert!(said.contains(&format!("host_unlisted: {NAME}: ")), "{said}");
        let addresses: Vec<&str> = said.lines().filter(|line| line.contains("wild.test")).collect();
        assert_eq!(addresses[0], addresses[2], "{said}");
        assert!(addresses[0].starts_with("127.9.") && addresses[0] != addresses[1], "{said}");
        let expected = [
            ("other.test", "host_unlisted"),
            ("denied.test", "host_denied"),
            ("127.0.0.1:80", "address_refused"),
            (NAME, "host_unlisted"),
        ];
        assert_eq!(ran.contacts(), expected);
    }
    assert_eq!(sink.connections(), 0);
    // Names of a wildcard are looked up when they are dialled, and not before.
    assert_eq!(lab.net.names.asked(), 0);
}

/// A name that leads to this machine, to a door of the hive, and to nothing at all.
#[tokio::test]
async fn network_what_a_listed_name_leads_to_is_judged() {
    let (lab, sink) = (Lab::new(), Site::sink("127.0.0.1:0").await);
    let (door, port) = (Site::sink("127.0.0.1:0").await, sink.port());
    lab.net.hub.protect(door.address);
    lab.net.names.set("loop.test", &["127.0.0.1"]);
    lab.net.names.set("door.test", &["127.0.0.1"]);
    let rules = json!({
        "hosts": [format!("loop.test:{port}"), format!("door.test:{}", door.port()), "gone.test"],
        "private": [format!("127.0.0.1:{}", door.port())],
    });
    let line = format!(
        "curl -sS http://loop.test:{port}/; curl -sS http://door.test:{0}/; \
         curl -sS http://127.0.0.1:{0}/; curl -sS http://gone.test/; curl -sS https://gone.test/",
        door.port()
    );
    let expected = [
        (format!("loop.test:{port}"), "address_refused"),
        (format!("door.test:{}", door.port()), "address_refused"),
        (format!("127.0.0.1:{}", door.port()), "address_refused"),
        ("gone.test".to_owned(), "name_unknown"),
    ];
    let expected: Vec<_> = expected.iter().map(|(host, code)| (host.as_str(), *code)).collect();
    for ran in lab.run(&lab.net.under(rules), &line).await {
        assert_eq!(ran.contacts(), expected, "{}", ran.said);
    }
    assert_eq!((sink.connections(), door.connections()), (0, 0));
}

#[tokio::test]
async fn network_the_first_bytes_have_to_name_the_host() {
    let lab = Lab::new();
    let site = Site::at("127.0.0.1:0", |_| ok("page")).await;
    let port = site.port();
    let egress = lab.net.under(listed(&[port]));
    let host = format!("{NAME}:{port}");
    let good = format!("GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n");
    let other = "GET / HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n";
    let say = |text: &str| {
        format!(
            "exec 3<>/dev/tcp/{NAME}/{port}; printf '{text}' >&3; read -r -t 5 line <&3; \
             echo \"$line\""
        )
    };
    let tls = format!(
        "openssl s_client -connect {NAME}:{port} -servername other.test </dev/null 2>&1 | \
         grep -c 'alert access denied'"
    );
    let bare = tls.replace("-servername other.test", "-noservername");
    let table = [
        (say(&good), "", "HTTP/1.1 200 OK"),
        (say(other), "http_host_differs", "HTTP/1.1 403 Forbidden"),
        (say("SSH-2.0-OpenSSH\\r\\n\\r\\n\\r\\n"), "http_unreadable", "HTTP/1.1 403 Forbidden"),
        (say("\\x01\\x02"), "http_unreadable", "HTTP/1.1 403 Forbidden"),
        (tls, "tls_name_differs", "1"),
        (bare, "tls_name_missing", "1"),
        (
            format!("curl -sS -p -x http://{host} https://other.test/ 2>&1"),
            "http_tunnel",
            "curl: (56) CONNECT tunnel failed, response 403",
        ),
    ];
    for (line, code, beginning) in table {
        for ran in lab.run(&egress, &line).await {
            assert!(ran.said.starts_with(beginning), "{line}: {}", ran.said);
            assert_eq!(ran.contacts(), [(host.as_str(), code)], "{line}");
        }
    }
    assert_eq!(site.connections(), 2);
    // The second request on a connection is read as well as the first.
    let second = format!("{}; printf '{other}' >&3; cat <&3 >/dev/null", say(&good));
    for ran in lab.run(&egress, &second).await {
        assert_eq!(ran.contacts(), [(host.as_str(), ""), (host.as_str(), "http_host_differs")]);
    }
    let requests = site.requests();
    assert!(!requests.iter().any(|head| head.contains("other.test")), "{requests:?}");
}

#[tokio::test]
async fn network_an_address_that_is_listed_is_reached_by_its_number() {
    let lab = Lab::new();
    let site = Site::at("127.0.0.1:0", |_| ok("page")).await;
    let port = site.port();
    let egress =
        lab.net.under(json!({ "private": [format!("127.0.0.1:{port}"), "10.0.5.7:8080"] }));
    let line = format!(
        "curl -sS http://127.0.0.1:{port}/; curl -sS -m 5 http://10.0.5.8:8080/; \
         python3 -c \"import socket; s = socket.socket(); s.bind(('10.0.5.7', 0)); \
         print(s.getsockname()[0])\""
    );
    for ran in lab.run(&egress, &line).await {
        let said = &ran.said;
        assert!(said.starts_with("page") && said.ends_with("10.0.5.7\n"), "{said}");
        assert!(said.contains("Failed to connect to 10.0.5.8"), "{said}");
        assert_eq!(ran.contacts(), [(format!("127.0.0.1:{port}").as_str(), "")]);
    }
}

#[tokio::test]
async fn network_both_ends_of_a_connection_close_one_by_one() {
    let lab = Lab::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let egress = lab.net.under(json!({ "private": [format!("127.0.0.1:{port}")] }));
    let server = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut said = Vec::new();
            // Ends when the program has closed its half.
            stream.read_to_end(&mut said).await.unwrap();
            stream.write_all(format!("{} bytes", said.len()).as_bytes()).await.unwrap();
        }
    });
    let program = format!(
        "import socket\ns = socket.create_connection(('127.0.0.1', {port}))\n\
         s.sendall(b'x' * 3_000_000)\ns.shutdown(socket.SHUT_WR)\nprint(s.recv(100).decode())"
    );
    for ran in lab.run(&egress, &format!("python3 -c \"{program}\"")).await {
        assert_eq!(ran.said, "3000000 bytes\n");
    }
    server.await.unwrap();
}

/// What was cut off must not look whole.
#[tokio::test]
async fn network_a_connection_that_breaks_is_seen_to_break() {
    let lab = Lab::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let egress = lab.net.under(listed(&[port]));
    let server = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").await.unwrap();
            // Once the program has it.
            assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 1);
            stream.set_zero_linger().unwrap();
        }
    });
    let program = format!(
        "import socket\ns = socket.create_connection(('{NAME}', {port}))\n\
         head = 'POST / HTTP/1.1|Host: {NAME}:{port}|Content-Length: 1||'\n\
         s.sendall(head.replace('|', '\\r\\n').encode())\n\
         said = b''\n\
         while not said.endswith(b'half'): said += s.recv(100)\n\
         s.sendall(b'x')\n\
         try:\n  print(s.recv(100))\nexcept ConnectionResetError:\n  print('reset')"
    );
    for ran in lab.run(&egress, &format!("python3 -c \"{program}\"")).await {
        assert_eq!(ran.said, "reset\n");
    }
    server.await.unwrap();
}

/// The lists of now hold, not those under which the program was started.
#[tokio::test]
async fn network_a_change_of_the_lists_reaches_programs_that_run() {
    struct Changing {
        egress: Mutex<Arc<Egress>>,
        told: Mutex<Vec<Contact>>,
    }
    impl ProgramNetwork for Changing {
        fn egress(self: Arc<Self>) -> Arc<Egress> {
            Arc::clone(&self.egress.lock().unwrap())
        }

        fn contact(&self, contact: &Contact) {
            self.told.lock().unwrap().push(contact.clone());
        }
    }
    let lab = Lab::new();
    let site = Site::at("127.0.0.1:0", |_| ok("page")).await;
    let egress = Mutex::new(lab.net.under(listed(&[site.port()])));
    let network = Arc::new(Changing { egress, told: Mutex::default() });
    let ask = format!("curl -s -o /dev/null -w '%{{http_code}}\\n' http://{NAME}:{}/", site.port());
    let words = ["-c".to_owned(), format!("while read -r; do {ask}; done")].map(Into::into);
    let program = DuplexProgram::new("bash", words.to_vec());
    let room = RoomNetwork::Proxy(Arc::<Changing>::clone(&network));
    let mut child = lab.child("changing", room, program).await;
    let mut deny = listed(&[site.port()]);
    deny["deny"] = json!([NAME]);
    for (rules, code) in [(None, "200"), (Some(deny), "000"), (Some(listed(&[site.port()])), "200")]
    {
        if let Some(rules) = rules {
            *network.egress.lock().unwrap() = lab.net.under(rules);
        }
        child.sender().send("").await.unwrap();
        assert_eq!(heard(&mut child).await.unwrap(), code);
    }
    let end = child.end().await.unwrap();
    assert_eq!(*network.told.lock().unwrap(), end.contacts);
    assert_eq!(site.connections(), 2);
}

/// The network is there by then, and nothing waits for it.
#[tokio::test]
async fn network_a_bubblewrap_that_cannot_be_executed_is_an_error() {
    let mut lab = Lab::new();
    let hidden = lab.home.path().join("hidden");
    fs::create_dir(&hidden).unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o700)).unwrap();
    let mut settings = Settings::new(Level::Confined, Vec::new());
    settings.limits.disk_floor_bytes = 0;
    settings.bubblewrap = network_trial::shim(&hidden, "bwrap", "exec /nonexistent");
    lab.sandbox = Sandbox::new(settings);
    let egress = lab.net.under(listed(&[80]));
    let ran = lab.run_in(RoomNetwork::Proxy(egress), "true");
    let ran = tokio::time::timeout(Duration::from_secs(20), ran).await;
    assert!(ran.expect("an end").is_err());
}

#[tokio::test]
async fn network_a_program_has_64_connections_and_others_wait() {
    let lab = Lab::new();
    let site = Site::at("127.0.0.1:0", |_| ok("page")).await;
    let egress = lab.net.under(listed(&[site.port()]));
    let request = format!("GET / HTTP/1.1\\r\\nHost: {NAME}\\r\\n\\r\\n");
    let program = format!(
        "import socket\ndef ask():\n  s = socket.create_connection(('{NAME}', {0}))\n  \
         s.settimeout(20)\n  s.sendall(b'{request}')\n  return s\n\
         held = [ask() for _ in range(64)]\nassert all(s.recv(9) for s in held)\n\
         more = ask()\nmore.settimeout(1)\nflood = [socket.socket() for _ in range(300)]\n\
         for s in flood:\n  s.setblocking(False)\n  s.connect_ex(held[0].getpeername())\n\
         try:\n  more.recv(9)\n  print('65 at once')\nexcept TimeoutError:\n  print('waits')\n\
         rows = [row.split() for row in open('/proc/net/tcp')]\n\
         here = [r for r in rows if r[1].endswith(':%04X' % {0}) and r[3] == '01']\n\
         print(len({{r[2] for r in here if r[9] != '0'}}))\n\
         for s in flood:\n  s.close()\n\
         more.settimeout(20)\nheld.pop().close()\nprint(more.recv(8).decode())",
        site.port()
    );
    for ran in lab.run(&egress, &format!("python3 -c \"{program}\"")).await {
        assert_eq!(ran.said, "waits\n65\nHTTP/1.1\n");
    }
}

/// Everything that could lead out, tried by a program that knows where the listeners are.
#[tokio::test]
async fn network_nothing_else_leads_out() {
    let (lab, sink) = (Lab::new(), Site::sink("127.0.0.1:0").await);
    let udp = tokio::net::UdpSocket::bind(sink.address).await.unwrap();
    let path = lab.home.path().join("skep.sock");
    let unix = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let name = format!("skep-network-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    unix.set_nonblocking(true).unwrap();
    hidden.set_nonblocking(true).unwrap();
    // Everything is listed, and nothing that is not public may be dialled.
    let port = sink.port();
    lab.net.names.set("loop.test", &["127.0.0.1"]);
    let attacks = [
        (json!({ "hosts": ["*"] }), format!("sockets {port} {} {name}", path.display())),
        (
            json!({ "hosts": ["*", format!("*:{port}")] }),
            format!("network {port} {}", path.display()),
        ),
        (json!({ "hosts": ["*"] }), "privileges".to_owned()),
        (json!({ "hosts": ["*"] }), "descriptors".to_owned()),
        (json!({ "hosts": ["*"] }), format!("server {} none", std::process::id())),
    ];
    for (rules, attack) in attacks {
        let egress = lab.net.under(rules);
        for Ran { said, .. } in lab.run(&egress, &format!("./hostile {attack}")).await {
            assert!(!said.contains("escaped") && said.ends_with("done\n"), "{attack}: {said}");
        }
    }
    assert_eq!(sink.connections(), 0);
    assert!(udp.try_recv(&mut [0; 8]).is_err());
    assert!(unix.accept().is_err() && hidden.accept().is_err());
}

/// Two programs of one agent, each in a network of its own: memory, pipes, ports and abstract
/// sockets of one are not there for the other.
#[tokio::test]
async fn network_programs_do_not_see_each_other() {
    let lab = Lab::new();
    let egress = lab.net.under(json!({ "hosts": ["*"] }));
    let network = RoomNetwork::Proxy(Arc::<Egress>::clone(&egress));
    let script = "import socket, sys\n\
                  tcp = socket.create_server(('127.0.0.1', 7777))\n\
                  hidden = socket.socket(socket.AF_UNIX)\nhidden.bind('\\0of-another')\n\
                  hidden.listen()\nprint('ready', flush=True)\nsecret = input()\n\
                  print('heard', flush=True)\nprint(input())";
    let words = ["-c", script].map(Into::into).to_vec();
    let mut victim = lab.child("one", network, DuplexProgram::new("python3", words)).await;
    assert_eq!(heard(&mut victim).await.unwrap(), "ready");
    let secret = "the-secret-of-another-program";
    victim.sender().send(secret).await.unwrap();
    assert_eq!(heard(&mut victim).await.unwrap(), "heard");
    let turned: String = secret.chars().rev().collect();
    let inside = processes_in(&lab.work().canonicalize().unwrap());
    let mut pids: Vec<&str> = inside.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let outer = victim.pid().to_string();
    pids.push(&outer);
    assert!(pids.len() >= 2, "{pids:?}");
    let line = format!(
        "./unruly spy {turned} {}; ./hostile sockets 7777 /nowhere of-another",
        pids.join(" ")
    );
    for Ran { said, .. } in lab.run(&egress, &line).await {
        // Where the first process of its own sandbox says what is wrong.
        let said = said.replace("escaped: found the pipe \"/proc/1/fd/2\"\n", "");
        assert!(!said.contains("escaped"), "{said}");
        assert_eq!(said.matches("done\n").count(), 2, "{said}");
    }
    victim.sender().send("still there").await.unwrap();
    assert_eq!(heard(&mut victim).await.unwrap(), "still there");
    assert_eq!(victim.end().await.unwrap().ending, Ending::Exited { code: 0 });
}

/// What a child asks for while it is spoken to is told at its end, however it ends.
#[tokio::test]
async fn network_of_a_child_that_dies_in_the_middle_of_a_line() {
    let lab = Lab::new();
    let site = Site::at("127.0.0.1:0", |_| ok("page")).await;
    let port = site.port();
    let network = RoomNetwork::Proxy(lab.net.under(listed(&[port])));
    let script = "for _ in 1 2; do read -r url; curl -sS \"$url\" 2>&1; echo; done; \
                  printf cut; kill -9 $$";
    let words = ["-c", script].map(Into::into).to_vec();
    let mut child = lab.child("one", network, DuplexProgram::new("bash", words)).await;
    let sender = child.sender();
    sender.send(format!("http://{NAME}:{port}/")).await.unwrap();
    assert_eq!(heard(&mut child).await.unwrap(), "page");
    sender.send("http://other.test/").await.unwrap();
    let refused = heard(&mut child).await.unwrap();
    assert!(refused.contains("Could not resolve host: other.test"), "{refused}");
    assert_eq!(heard(&mut child).await.unwrap(), "");
    assert_eq!(child.line().await, Err(LineError::Half(b"cut".to_vec())));
    assert_eq!(child.line().await, Ok(None));
    let end = child.end().await.unwrap();
    assert_eq!(end.ending, Ending::Exited { code: 128 + 9 }, "{end:?}");
    let ran = Ran { said: String::new(), contacts: end.contacts };
    let host = format!("{NAME}:{port}");
    assert_eq!(ran.contacts(), [(host.as_str(), ""), ("other.test", "host_unlisted")]);
}

#[tokio::test]
async fn network_none_has_no_names_and_full_is_the_machine() {
    let lab = Lab::new();
    let site = Site::at("127.0.0.1:0", |_| ok("page")).await;
    let line =
        format!("curl -sS http://127.0.0.1:{}/; getent hosts localhost | wc -l", site.port());
    let none = text(&lab.run_in(RoomNetwork::None, &line).await.unwrap());
    assert!(none.contains("Failed to connect") || none.contains("Couldn't connect"), "{none}");
    assert_eq!(site.connections(), 0);
    let full = lab.run_in(RoomNetwork::Full, &line).await.unwrap();
    assert_eq!(text(&full), "page1\n");
    assert_eq!(full.contacts, []);
}

#[tokio::test]
async fn network_ends_with_its_program() {
    let lab = Lab::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let egress = lab.net.under(json!({ "private": [format!("127.0.0.1:{port}")] }));
    let held = tokio::spawn(async move {
        use tokio::io::AsyncReadExt;
        let (mut stream, _) = listener.accept().await.unwrap();
        // Whatever was sent, and the end.
        stream.read_to_end(&mut Vec::new()).await
    });
    let line = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo begun >&3; echo said");
    let output = lab.run_in(RoomNetwork::Proxy(egress), &line).await.unwrap();
    assert_eq!(text(&output), "said\n");
    let ended = tokio::time::timeout(Duration::from_secs(5), held).await;
    assert!(ended.is_ok(), "a connection outlasts its program");
}

#[tokio::test]
async fn network_that_does_not_fit_is_refused_with_the_reason() {
    let lab = Lab::new();
    let hosts: Vec<String> = (0..70).map(|number| format!("{NAME}:{}", 9000 + number)).collect();
    let egress = lab.net.under(json!({ "hosts": hosts }));
    let refused = lab.run_in(RoomNetwork::Proxy(egress), "true").await.unwrap_err().to_string();
    assert!(
        refused.contains("`network` names 72 ports, and a sandbox has at most 62"),
        "{refused}"
    );
    let ran = lab.run_in(RoomNetwork::None, "true").await.unwrap();
    assert_eq!(ran.ending, Ending::Exited { code: 0 });
}
