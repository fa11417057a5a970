//! A service of the hive as all that a program reaches.

use std::sync::Arc;

use skep_core::BoxFuture;
use skep_core::relay::{RelayConnection, RelayConnections, RelayService};
use skep_guard::network::RoomNetwork;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Lab, NAME};
use crate::scene::text;
use crate::web::Site;

/// Says what it was asked for.
struct Parrot;

impl RelayConnections for Parrot {
    fn serve(&self, mut connection: Box<dyn RelayConnection>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(connection.read_u8().await.unwrap());
            }
            let line = String::from_utf8(head).unwrap().lines().next().unwrap().to_owned();
            let length = line.len() + 1;
            let answer = format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{line}\n");
            connection.write_all(answer.as_bytes()).await.unwrap();
        })
    }
}

/// It takes no entry of a list, and lists nothing else.
#[tokio::test]
async fn network_a_service_of_the_hive_is_all_there_is() {
    let (lab, sink) = (Lab::new(), Site::sink("127.0.0.1:0").await);
    let host = "service.skep".to_owned();
    for port in [80, 8123] {
        let service = RelayService { host: host.clone(), port, connections: Arc::new(Parrot) };
        let address = if port == 80 { host.clone() } else { format!("{host}:{port}") };
        let fetch = "import urllib.request as r; print(r.urlopen('http://ADDRESS/b').read())";
        let line = format!(
            "curl -sS http://{address}/a; curl -sS http://SERVICE.skep:{port}/c; \
             python3 -c \"{}\"; echo; curl -sS -m 5 http://{NAME}/; \
             curl -sS -m 5 http://127.0.0.1:{}/ http://127.0.0.1/; curl -sS -m 5 https://{host}/; \
             curl -sS -m 5 -o /dev/null http://10.1.2.3/",
            fetch.replace("ADDRESS", &address),
            sink.port(),
        );
        let output = lab.run_in(RoomNetwork::Service(service), &line).await.unwrap();
        let (said, contacts) = (text(&output), output.contacts);
        let begin = "GET /a HTTP/1.1\nGET /c HTTP/1.1\nb'GET /b HTTP/1.1\\n'\n\n";
        assert!(said.starts_with(begin), "{said}");
        assert!(said.contains(&format!("Could not resolve host: {NAME}")), "{said}");
        let refused: Vec<(&str, &str)> =
            contacts.iter().map(|contact| (contact.host.as_str(), contact.verdict())).collect();
        let expected = [
            (NAME, "host_unlisted"),
            ("127.0.0.1:80", "address_refused"),
            (host.as_str(), "host_unlisted"),
        ];
        assert_eq!(refused, expected, "{said}");
    }
    assert_eq!(sink.connections(), 0);
}
