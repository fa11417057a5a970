//! A network that holds nothing but our listeners, made by the program's own process before its
//! exec, and how the hive gets hold of them.
//!
//! A socket stays in the network it was made in, whoever holds it: the hive answers in there, and
//! the program has no way out but to ask it. Made before `bwrap` starts, as that has none of the
//! rights it takes.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::thread::UnshareFlags;
use skep_core::policy::network::NetworkRules;
use tokio::io::Interest;
use tokio::net::UnixStream;

pub(super) const NAMES_PORT: u16 = 53;
/// Ports of a list of hosts, so that all descriptors fit into one message (253) and an array.
const MOST_PORTS: usize = 62;
const MOST_SOCKETS: usize = 2 + MOST_PORTS;
/// Addresses that a network is given; the kernel numbers them by a label each.
const MOST_ADDRESSES: usize = 64;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Where the making of a network stopped. The child says so, and only a number: it cannot
/// allocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    Done,
    Namespace,
    Users,
    Loopback,
    Address,
    Listener,
    Handover,
}

/// What the child needs, made before the start.
#[derive(Debug)]
pub(crate) struct NetworkEntrance {
    /// Lines for the maps of users and groups, where a user namespace has to be made: of whoever
    /// is not root.
    maps: Option<[String; 2]>,
    addresses: Vec<Ipv4Addr>,
    ports: Vec<u16>,
    hive: OwnedFd,
}

/// What the hive listens on inside.
#[derive(Debug)]
pub(super) struct InnerListeners {
    pub names: UdpSocket,
    pub long_names: TcpListener,
    pub ports: Vec<TcpListener>,
}

/// The hive's end, until the listeners have come.
#[derive(Debug)]
pub(super) struct Handover {
    child: UnixStream,
    sockets: usize,
}

pub(super) fn prepare(
    rules: &NetworkRules,
    ports: &BTreeSet<u16>,
) -> Result<(NetworkEntrance, Handover), String> {
    let ports: Vec<u16> = ports.iter().copied().filter(|port| *port != NAMES_PORT).collect();
    if ports.len() > MOST_PORTS {
        return Err(format!(
            "`network` names {} ports, and a sandbox has at most {MOST_PORTS}",
            ports.len()
        ));
    }
    let inside = |address| match address {
        IpAddr::V4(address) if !address.is_loopback() => Some(address),
        // Loopback is there already, and of IPv6 there is nothing else.
        _ => None,
    };
    let addresses: Vec<Ipv4Addr> = rules.addresses().filter_map(inside).collect();
    if addresses.len() > MOST_ADDRESSES {
        return Err(format!(
            "`network` names {} addresses, and a sandbox has at most {MOST_ADDRESSES}",
            addresses.len()
        ));
    }
    let (child, hive) = std::os::unix::net::UnixStream::pair()
        .and_then(|(child, hive)| child.set_nonblocking(true).map(|()| (child, hive)))
        .map_err(|error| error.to_string())?;
    let child = UnixStream::from_std(child).map_err(|error| error.to_string())?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let same = |id: u32| format!("{id} {id} 1\n");
    let maps = (!uid.is_root()).then(|| [same(uid.as_raw()), same(gid.as_raw())]);
    let sockets = 2 + ports.len();
    Ok((NetworkEntrance { maps, addresses, ports, hive: hive.into() }, Handover { child, sockets }))
}

impl NetworkEntrance {
    /// Runs in the child: bare system calls only, nothing allocated, no lock taken.
    pub fn enter(&self) -> io::Result<()> {
        let mut step = Step::Namespace;
        let made = self.make(&mut step);
        if made.is_err() {
            // The reason of the start's failure has only a number; this is its other half.
            let _ = rustix::net::send(&self.hive, &[step as u8], SendFlags::NOSIGNAL);
        }
        made
    }

    fn make(&self, step: &mut Step) -> io::Result<()> {
        let mut flags = UnshareFlags::NEWNET;
        flags.set(UnshareFlags::NEWUSER, self.maps.is_some());
        // SAFETY: this process has one thread and shares nothing with anyone but its memory, with
        // a thread that waits.
        unsafe { rustix::thread::unshare_unsafe(flags)? };
        if let Some([users, groups]) = &self.maps {
            *step = Step::Users;
            write(c"/proc/self/setgroups", b"deny")?;
            write(c"/proc/self/uid_map", users.as_bytes())?;
            write(c"/proc/self/gid_map", groups.as_bytes())?;
        }
        *step = Step::Loopback;
        let control = socket(SocketType::DGRAM)?;
        set_up_loopback(&control)?;
        *step = Step::Address;
        for (number, address) in self.addresses.iter().enumerate() {
            add_address(&control, number, *address)?;
        }
        *step = Step::Listener;
        let mut sockets: [Option<OwnedFd>; MOST_SOCKETS] = [const { None }; MOST_SOCKETS];
        let names = SocketAddrV4::new(Ipv4Addr::LOCALHOST, NAMES_PORT);
        let datagrams = socket(SocketType::DGRAM)?;
        rustix::net::bind(&datagrams, &names)?;
        sockets[0] = Some(datagrams);
        let web = self.ports.iter().map(|port| SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, *port));
        for (address, place) in std::iter::once(names).chain(web).zip(&mut sockets[1..]) {
            let listener = socket(SocketType::STREAM)?;
            rustix::net::bind(&listener, &address)?;
            rustix::net::listen(&listener, BACKLOG)?;
            *place = Some(listener);
        }
        *step = Step::Handover;
        self.hand_over(&sockets)?;
        Ok(())
    }

    fn hand_over(&self, sockets: &[Option<OwnedFd>; MOST_SOCKETS]) -> rustix::io::Result<()> {
        let mut all: [BorrowedFd<'_>; MOST_SOCKETS] = [self.hive.as_fd(); MOST_SOCKETS];
        let open = sockets.iter().flatten();
        let count = all.iter_mut().zip(open).map(|(place, one)| *place = one.as_fd()).count();
        let mut space = [std::mem::MaybeUninit::uninit(); SPACE];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&all[..count])) {
            return Err(Errno::NOBUFS);
        }
        let byte = [Step::Done as u8];
        let bytes = [io::IoSlice::new(&byte)];
        rustix::net::sendmsg(&self.hive, &bytes, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

const SPACE: usize = rustix::cmsg_space!(ScmRights(MOST_SOCKETS));

impl Handover {
    /// The listeners, once the child has made them; `Err` says what could not be made, and nothing
    /// where the child never came to it.
    pub async fn listeners(self) -> Result<InnerListeners, Option<&'static str>> {
        let mut space = [std::mem::MaybeUninit::uninit(); SPACE];
        loop {
            self.child.readable().await.map_err(|_| None)?;
            let mut byte = [Step::Done as u8];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let received = self.child.try_io(Interest::READABLE, || {
                let mut bytes = [io::IoSliceMut::new(&mut byte)];
                let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
                Ok(rustix::net::recvmsg(&self.child, &mut bytes, &mut control, flags)?.bytes)
            });
            match received {
                Ok(0) => return Err(None),
                Ok(_) if byte[0] != Step::Done as u8 => return Err(Some(what(byte[0]))),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(_) => return Err(None),
            }
            let handed = control.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(handed) => Some(handed),
                _ => None,
            });
            let mut handed = handed.flatten();
            let (names, long_names) = (handed.next(), handed.next());
            let ports: Vec<TcpListener> = handed.map(TcpListener::from).collect();
            return match (names, long_names) {
                (Some(names), Some(long)) if ports.len() + 2 == self.sockets => {
                    Ok(InnerListeners { names: names.into(), long_names: long.into(), ports })
                }
                _ => Err(Some(what(Step::Handover as u8))),
            };
        }
    }
}

fn what(step: u8) -> &'static str {
    const NAMED: [(Step, &str); 5] = [
        (Step::Namespace, "a network of its own cannot be made"),
        (Step::Users, "the users of its own namespace cannot be set"),
        (Step::Loopback, "its loopback cannot be brought up"),
        (Step::Address, "an address of `network` cannot be set in its network"),
        (Step::Listener, "a listener cannot be made in its network"),
    ];
    let named = NAMED.iter().find(|(named, _)| *named as u8 == step);
    named.map_or("its listeners cannot be handed over", |(_, text)| text)
}

fn socket(kind: SocketType) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::INET, kind, flags, None)
}

fn write(path: &std::ffi::CStr, text: &[u8]) -> rustix::io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, text).map(drop)
}

fn set_up_loopback(control: &OwnedFd) -> io::Result<()> {
    let mut request = request(None);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    set(control, libc::SIOCSIFFLAGS, &request)
}

/// Alone, without the rest of its network.
fn add_address(control: &OwnedFd, number: usize, address: Ipv4Addr) -> io::Result<()> {
    let mut request = request(Some(number));
    for (call, address) in
        [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, Ipv4Addr::BROADCAST)]
    {
        let [a, b, c, d] = address.octets().map(u8::cast_signed);
        request.ifr_ifru.ifru_addr = libc::sockaddr {
            sa_family: libc::AF_INET as libc::sa_family_t,
            sa_data: [0, 0, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0].map(|byte| byte as libc::c_char),
        };
        set(control, call, &request)?;
    }
    Ok(())
}

/// About loopback, or about one of its further addresses by its label.
fn request(number: Option<usize>) -> libc::ifreq {
    // SAFETY: plain numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let digit = |value: usize| b'0' + (value % 10) as u8;
    let label = match number {
        None => [b'l', b'o', 0, 0, 0],
        Some(number) => [b'l', b'o', b':', digit(number / 10), digit(number)],
    };
    for (place, byte) in request.ifr_name.iter_mut().zip(label) {
        *place = byte as libc::c_char;
    }
    request
}

fn set(control: &OwnedFd, call: libc::Ioctl, request: &libc::ifreq) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: reads a request of the type that the call wants.
    match unsafe { libc::ioctl(control.as_raw_fd(), call, std::ptr::from_ref(request)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
