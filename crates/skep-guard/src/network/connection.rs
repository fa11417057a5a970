//! Names and connections of one confined program, answered by the hive.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use skep_core::policy::host::{Host, HostName};
use skep_core::policy::network::HostVerdict;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::contact::ContactLog;
use super::hello;
use super::inflow::{self, ConnectionEnd, IDLE, Inflow, everything};
use super::names::{self, NameAnswer, NameQuestion, NameTable, QUESTION_BYTES};
use super::namespace::InnerListeners;
use super::request::Requests;
use super::{InnerService, NetworkRefusal, ProgramNetwork};
use crate::egress::{Egress, EgressCause, EgressError};

/// Connections of one program at the same time; more of them wait to be accepted.
const MOST_CONNECTIONS: usize = 64;
/// For what tells whom a connection is for.
const FIRST_BYTES_WITHIN: Duration = Duration::from_secs(30);
const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// Leads what a program asks for to where it is allowed to go.
pub(super) struct Switch {
    network: Arc<dyn ProgramNetwork>,
    /// Answered here and not dialled, whatever the network lists.
    service: Option<InnerService>,
    /// Locked to look a name or an address up.
    names: Mutex<NameTable>,
    pub contacts: ContactLog,
    places: Arc<Semaphore>,
}

/// What a program speaks, by its first bytes.
enum Speech {
    Tls,
    Http,
}

impl Switch {
    pub fn new(network: Arc<dyn ProgramNetwork>, service: Option<InnerService>) -> Self {
        let contacts = ContactLog::new(Arc::clone(&network));
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        Self { network, service, names: Mutex::default(), contacts, places }
    }

    fn egress(&self) -> Arc<Egress> {
        Arc::clone(&self.network).egress()
    }

    /// Answers until it is dropped; returns what kept it from that.
    pub async fn serve(self: Arc<Self>, listeners: InnerListeners) -> Option<&'static str> {
        const UNUSABLE: &str = "its listeners cannot be used";
        let InnerListeners { names, long_names, ports } = listeners;
        let mut tasks = JoinSet::new();
        let (Ok(names), Ok(long_names)) =
            (UdpSocket::from_std(names), TcpListener::from_std(long_names))
        else {
            return Some(UNUSABLE);
        };
        tasks.spawn(Arc::clone(&self).datagrams(names));
        tasks.spawn(Arc::clone(&self).accept(long_names, Port::Names));
        for listener in ports {
            let port = listener.local_addr().map(|address| address.port());
            let (Ok(listener), Ok(port)) = (TcpListener::from_std(listener), port) else {
                return Some(UNUSABLE);
            };
            tasks.spawn(Arc::clone(&self).accept(listener, Port::Web(port)));
        }
        tasks.join_all().await;
        None
    }

    async fn datagrams(self: Arc<Self>, socket: UdpSocket) {
        let mut bytes = [0; QUESTION_BYTES + 1];
        loop {
            // An error is about an answer that nobody waited for.
            let Ok((count, from)) = socket.recv_from(&mut bytes).await else { continue };
            if let Some(reply) = self.reply(&bytes[..count]) {
                let _ = socket.send_to(&reply, from).await;
            }
        }
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, port: Port) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = listener.accept().await;
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = accepted else {
                // Out of descriptors, as a rule: others have to end first.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            // Before the next one is accepted: a program that opens thousands fills its own
            // queue, and not the hive's table of descriptors.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
            let switch = Arc::clone(&self);
            connections.spawn(async move {
                let _place = place;
                match port {
                    Port::Names => drop(timeout(IDLE, switch.long_names(stream)).await),
                    Port::Web(port) => switch.connection(stream, port).await,
                }
            });
        }
    }

    async fn long_names(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let length = usize::from(stream.read_u16().await?);
            if length > QUESTION_BYTES {
                return Ok(());
            }
            let mut bytes = vec![0; length];
            stream.read_exact(&mut bytes).await?;
            let Some(reply) = self.reply(&bytes) else { return Ok(()) };
            stream.write_u16(u16::try_from(reply.len()).unwrap_or(0)).await?;
            stream.write_all(&reply).await?;
        }
    }

    fn reply(&self, asked: &[u8]) -> Option<Vec<u8>> {
        let Some(question) = NameQuestion::read(asked) else { return names::refusal(asked) };
        Some(question.reply(asked, self.resolve(&question)))
    }

    /// What an allowed name gets; nothing is looked up for it.
    fn resolve(&self, question: &NameQuestion) -> NameAnswer {
        let Ok(name) = HostName::parse(&question.name) else { return NameAnswer::Unknown };
        if self.service.as_ref().is_some_and(|service| service.name == name) {
            return self.address_of(&name, question);
        }
        let host = Host::Name(name);
        let egress = self.egress();
        let rules = egress.rules();
        let mut cause = EgressCause::HostUnlisted;
        for port in rules.ports() {
            match rules.judge(&host, port) {
                HostVerdict::Unlisted => {}
                HostVerdict::Denied { entry } => cause = EgressCause::HostDenied { entry },
                HostVerdict::Listed => {
                    let address = host.name().map(|name| self.address_of(name, question));
                    return address.unwrap_or(NameAnswer::Unknown);
                }
            }
        }
        if question.is_forward() {
            // Which port it would be for is not known yet.
            let error = EgressError::new(&host, HTTPS, cause);
            let refusal = NetworkRefusal::new(error.code(), error.reason());
            self.contacts.refused(host.to_string(), refusal);
        }
        NameAnswer::Unknown
    }

    fn address_of(&self, name: &HostName, question: &NameQuestion) -> NameAnswer {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let address = names.address_of(name);
        address.map_or(NameAnswer::Full, |address| question.answer_with(address))
    }

    async fn connection(&self, stream: TcpStream, port: u16) {
        let Ok(SocketAddr::V4(local)) = stream.local_addr() else { return };
        let name = {
            let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            names.name_of(*local.ip()).cloned()
        };
        if let Some(service) = &self.service
            && port == service.port
            && name.as_ref() == Some(&service.name)
        {
            // Small pieces of an answer leave at once.
            let _ = stream.set_nodelay(true);
            return service.connections.serve(Box::new(stream)).await;
        }
        let host = match name {
            Some(name) => Host::Name(name),
            None => Host::Address(IpAddr::V4(*local.ip())),
        };
        let shown = match (&host, port) {
            (Host::Name(name), HTTP | HTTPS) => name.to_string(),
            (Host::Name(name), port) => format!("{name}:{port}"),
            (Host::Address(address), port) => format!("{address}:{port}"),
        };
        let ended = match &host {
            Host::Name(name) => self.named(stream, name, port, &shown).await,
            Host::Address(_) if self.egress().rules().judge(&host, port) == HostVerdict::Listed => {
                self.address(stream, &host, port, &shown).await
            }
            Host::Address(_) => Err(NetworkRefusal::new(
                "address_refused",
                "it is an address and not the name of a listed host, and `network` of the agent \
                 does not list it",
            )),
        };
        if let Err(refusal) = ended {
            self.contacts.refused(shown, refusal);
        }
    }

    /// An address that the operator wrote down: no name is claimed, so none is checked.
    async fn address(
        &self,
        stream: TcpStream,
        host: &Host,
        port: u16,
        shown: &str,
    ) -> Result<(), NetworkRefusal> {
        let server = self.dial(host, port, shown).await?;
        let (client, mut to_client) = stream.into_split();
        let (server, to_server) = server.into_split();
        let (client, server) = (Inflow::new(client), Inflow::new(server));
        let carried = inflow::carry((client, to_server), (server, &mut to_client), everything);
        ended(carried.await?, to_client)
    }

    /// A name: what is said first has to name the same one.
    async fn named(
        &self,
        stream: TcpStream,
        name: &HostName,
        port: u16,
        shown: &str,
    ) -> Result<(), NetworkRefusal> {
        let (client, mut to_client) = stream.into_split();
        let mut client = Inflow::new(client);
        match timeout(FIRST_BYTES_WITHIN, client.more()).await {
            Ok(Ok(true)) => {}
            // Whoever only tries whether a port is open is told nothing.
            Ok(_) => return Ok(()),
            Err(_) => {
                return Err(NetworkRefusal::new(
                    "nothing_said",
                    "the program waits for the server to speak first; only http and https are \
                     offered, where the client does",
                ));
            }
        }
        let speech = match (port, client.bytes[0]) {
            (HTTP, _) => Speech::Http,
            (HTTPS, _) | (_, hello::HANDSHAKE) => Speech::Tls,
            _ => Speech::Http,
        };
        let (host, name) = (Host::Name(name.clone()), name.to_string());
        let carried = match speech {
            Speech::Tls => self.tls(client, &mut to_client, (&host, &name), port, shown).await,
            Speech::Http => self.http(client, &mut to_client, (&host, &name), port, shown).await,
        };
        match carried {
            Ok(carried) => ended(carried, to_client),
            Err(refusal) => {
                let page = refused_page(shown, &refusal);
                let _ = match speech {
                    Speech::Tls => to_client.write_all(&hello::ALERT).await,
                    Speech::Http => to_client.write_all(page.as_bytes()).await,
                };
                Err(refusal)
            }
        }
    }

    async fn http(
        &self,
        mut client: Inflow<OwnedReadHalf>,
        to_client: &mut OwnedWriteHalf,
        (host, name): (&Host, &str),
        port: u16,
        shown: &str,
    ) -> Result<ConnectionEnd, NetworkRefusal> {
        let mut requests = Requests::new(name, port);
        let head = within_time(async {
            loop {
                match requests.check(&client.bytes)? {
                    0 if client.more().await.unwrap_or(false) => {}
                    0 => return Ok(None),
                    count => return Ok(Some(count)),
                }
            }
        });
        let Some(count) = head.await? else { return Ok(ConnectionEnd::Whole) };
        let (server, mut to_server) = self.dial(host, port, shown).await?.into_split();
        if client.pass(&mut to_server, count).await.is_err() {
            return Ok(ConnectionEnd::Broken);
        }
        let check = |bytes: &[u8]| requests.check(bytes);
        inflow::carry((client, to_server), (Inflow::new(server), to_client), check).await
    }

    async fn tls(
        &self,
        mut client: Inflow<OwnedReadHalf>,
        to_client: &mut OwnedWriteHalf,
        (host, name): (&Host, &str),
        port: u16,
        shown: &str,
    ) -> Result<ConnectionEnd, NetworkRefusal> {
        let Some(count) = within_time(greeting(&mut client, name)).await? else {
            return Ok(ConnectionEnd::Whole);
        };
        let (server, mut to_server) = self.dial(host, port, shown).await?.into_split();
        let mut server = Inflow::new(server);
        let again = async {
            if client.pass(&mut to_server, count).await.is_err() {
                return None;
            }
            while server.bytes.len() < hello::ANSWER_BYTES && hello::may_ask_again(&server.bytes) {
                if !server.more().await.unwrap_or(false) {
                    break;
                }
            }
            let again = hello::asks_again(&server.bytes);
            let count = server.bytes.len();
            server.pass(to_client, count).await.ok().map(|()| again)
        };
        let silent = |_| {
            let why =
                "the server does not answer its TLS hello; check whether it speaks https there";
            NetworkRefusal::new("connect_timeout", why)
        };
        match timeout(FIRST_BYTES_WITHIN, again).await.map_err(silent)? {
            None => return Ok(ConnectionEnd::Broken),
            Some(false) => {}
            // The second hello is as readable as the first, and has to name the same host.
            Some(true) => {
                let second = within_time(async {
                    while client.bytes.len() < 5 || hello::other_record(&client.bytes).is_some() {
                        let ready = hello::other_record(&client.bytes)
                            .filter(|length| client.bytes.len() >= *length);
                        let went = match ready {
                            Some(length) => client.pass(&mut to_server, length).await.is_ok(),
                            None => client.more().await.unwrap_or(false),
                        };
                        if !went {
                            return Ok(None);
                        }
                    }
                    greeting(&mut client, name).await
                });
                if second.await?.is_none() {
                    return Ok(ConnectionEnd::Broken);
                }
            }
        }
        inflow::carry((client, to_server), (server, to_client), everything).await
    }

    async fn dial(&self, host: &Host, port: u16, shown: &str) -> Result<TcpStream, NetworkRefusal> {
        let stream = self.egress().connect(host, port).await.map_err(NetworkRefusal::from)?;
        self.contacts.reached(shown.to_owned());
        Ok(stream)
    }
}

#[derive(Clone, Copy)]
enum Port {
    Names,
    Web(u16),
}

/// Bytes of the whole ClientHello for this name; `None` where the client went away.
async fn greeting(
    client: &mut Inflow<OwnedReadHalf>,
    name: &str,
) -> Result<Option<usize>, NetworkRefusal> {
    loop {
        if let Some(count) = hello::check(&client.bytes, name)? {
            return Ok(Some(count));
        }
        if !client.more().await.unwrap_or(false) {
            return Ok(None);
        }
    }
}

async fn within_time<T>(
    work: impl Future<Output = Result<Option<T>, NetworkRefusal>>,
) -> Result<Option<T>, NetworkRefusal> {
    let late = |_| {
        NetworkRefusal::new(
            "not_understood",
            "what it said within 30 s is no whole request of HTTP/1 (its lines end with CR LF) and \
             no TLS hello",
        )
    };
    timeout(FIRST_BYTES_WITHIN, work).await.map_err(late)?
}

/// The program's side of a connection that was carried as far as it went.
fn ended(carried: ConnectionEnd, to_client: OwnedWriteHalf) -> Result<(), NetworkRefusal> {
    if carried != ConnectionEnd::Whole {
        inflow::reset(to_client);
    }
    match carried {
        ConnectionEnd::Whole | ConnectionEnd::Broken => Ok(()),
        ConnectionEnd::Idle => Err(NetworkRefusal::new(
            "idle",
            format!("nothing went through the connection for {} s", IDLE.as_secs()),
        )),
    }
}

fn refused_page(shown: &str, refusal: &NetworkRefusal) -> String {
    let text = format!("{}: {shown}: {}\n", refusal.code, refusal.why);
    // A host that does not answer is no matter of rights: clients try again.
    let status = match refusal.is_failure() {
        true => "502 Bad Gateway",
        false => "403 Forbidden",
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}
