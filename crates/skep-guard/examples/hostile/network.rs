//! Ways out of a network in which the hive answers.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::escaped;

/// Nobody there, or somebody who must not hear of us.
const OUTSIDE: [&str; 12] = [
    "1.1.1.1:443",
    "8.8.8.8:53",
    "10.1.2.3:80",
    "192.168.1.1:80",
    "172.17.0.1:80",
    "100.64.0.1:80",
    "169.254.169.254:80",
    "[2606:4700:4700::1111]:443",
    "[fe80::1]:80",
    "[fd00::1]:80",
    "[::ffff:10.1.2.3]:80",
    "[64:ff9b::7f00:1]:80",
];

/// Where others listen on many machines.
const SOCKETS: [&str; 8] = [
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/snapd.socket",
];

pub fn network(port: u16, path: &str) {
    for address in OUTSIDE.map(|text| text.parse::<SocketAddr>().unwrap()) {
        if TcpStream::connect_timeout(&address, Duration::from_secs(2)).is_ok() {
            escaped(&format!("connected to {address}"));
        }
        let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let sent = UdpSocket::bind(own).and_then(|socket| socket.send_to(b"x", address));
        if sent.is_ok() {
            escaped(&format!("sent a datagram to {address}"));
        }
    }
    many(port);
    this_machine(port);
    names();
    sockets(path);
    rights();
}

/// Groups and everybody.
fn many(port: u16) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_broadcast(true).unwrap();
    for address in ["224.0.0.251:5353".to_owned(), format!("255.255.255.255:{port}")] {
        if socket.send_to(b"x", &address).is_ok() {
            escaped(&format!("sent a datagram to {address}"));
        }
    }
}

/// The hive listens on `port` inside; what answers must be the hive itself, which refuses.
fn this_machine(port: u16) {
    for host in ["127.0.0.1", "127.9.0.1", "127.0.0.53", "::1", "0.0.0.0", "loop.test"] {
        for said in [host.to_owned(), format!("{host}:{port}"), "loop.test".to_owned()] {
            let Ok(mut stream) = TcpStream::connect((host, port)) else { continue };
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let _ = write!(stream, "GET / HTTP/1.1\r\nHost: {said}\r\n\r\n");
            let mut answer = [0; 4096];
            let count = stream.read(&mut answer).unwrap_or(0);
            let answer = String::from_utf8_lossy(&answer[..count]);
            if answer.contains("sink") || answer.contains("200 OK") {
                escaped(&format!("reached this machine by {host}, {said}"));
            }
        }
        let datagram = UdpSocket::bind("0.0.0.0:0").unwrap();
        let _ = datagram.send_to(b"x", (host, port));
        let _ = datagram.send_to(b"x", (host, 443));
    }
}

/// Text in names, and every kind of record that could bring text back.
fn names() {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for kind in [2_u16, 5, 6, 10, 12, 15, 16, 28, 33, 64, 65, 252, 255] {
        let mut question = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in ["c2VjcmV0LW9mLXRoZS1hZ2VudA", "tunnel", "test"] {
            question.push(u8::try_from(label.len()).unwrap());
            question.extend(label.as_bytes());
        }
        question.push(0);
        question.extend(kind.to_be_bytes());
        question.extend([0, 1]);
        socket.send_to(&question, "127.0.0.1:53").unwrap();
        let mut answer = [0; 2048];
        let Ok(count) = socket.recv(&mut answer) else {
            escaped("somebody else answers names, or nobody");
            continue;
        };
        // No answers, no authorities, nothing additional, and not a byte more than was asked.
        if answer[6..12] != [0; 6] || count != question.len() {
            escaped(&format!("a name of kind {kind} has content"));
        }
    }
}

fn sockets(path: &str) {
    let agent = std::env::var("SSH_AUTH_SOCK").unwrap_or_default();
    for path in SOCKETS.into_iter().chain([path, agent.as_str()]) {
        if UnixStream::connect(path).is_ok() {
            escaped(&format!("connected to {path}"));
        }
    }
    for (family, protocol) in
        [(libc::AF_INET, libc::IPPROTO_ICMP), (libc::AF_INET6, libc::IPPROTO_ICMPV6)]
    {
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            // SAFETY: a plain system call without memory.
            if unsafe { libc::socket(family, kind, protocol) } >= 0 {
                escaped(&format!("opened a socket for ICMP, family {family}, kind {kind}"));
            }
        }
    }
    // SAFETY: as above.
    if unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) } >= 0 {
        escaped("opened a packet socket");
    }
}

/// To change the network, to leave it, and to stand where the hive stands.
fn rights() {
    for port in [53, 80, 443] {
        if TcpListener::bind(("127.9.0.1", port)).is_ok() {
            escaped(&format!("listens on port {port}"));
        }
    }
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // SAFETY: zero is a value of all that is in it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    for call in [libc::SIOCSIFFLAGS, libc::SIOCSIFADDR, libc::SIOCSIFNETMASK, libc::SIOCADDRT] {
        // SAFETY: reads a request of the size that each of them takes at most.
        if unsafe { libc::ioctl(socket.as_raw_fd(), call, &raw const request) } == 0 {
            escaped(&format!("changed the network by {call:x}"));
        }
    }
    for place in ["/proc/1/ns/net", "/proc/self/ns/net"] {
        let Ok(file) = fs::File::open(place) else { continue };
        // SAFETY: plain numbers.
        if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } == 0 {
            escaped(&format!("entered {place}"));
        }
    }
    // SAFETY: plain numbers.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        escaped("made a network");
    }
}
