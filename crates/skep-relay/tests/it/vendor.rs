//! A vendor that keeps every byte it is sent and answers bytes that a test gave it.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub struct RawVendor {
    pub url: String,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl RawVendor {
    /// Each connection is answered once, with these bytes, and closed.
    pub async fn new(answer: impl Into<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (heard, answer) = (Arc::<Mutex<Vec<_>>>::default(), answer.into());
        let vendor = Self { url, heard: Arc::clone(&heard) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (request, mut stream) = hear(stream).await;
                heard.lock().unwrap().push(request);
                let _ = stream.write_all(&answer).await;
            }
        });
        vendor
    }

    /// A whole answer with a length.
    pub async fn answering(status: &str, headers: &str, body: &[u8]) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n");
        Self::new([head.as_bytes(), body].concat()).await
    }

    /// Head and body of each request.
    pub fn heard(&self) -> Vec<(String, Vec<u8>)> {
        let heard = self.heard.lock().unwrap();
        let split = |bytes: &Vec<u8>| {
            let at = end_of_head(bytes).unwrap();
            (String::from_utf8(bytes[..at].to_vec()).unwrap(), bytes[at..].to_vec())
        };
        heard.iter().map(split).collect()
    }
}

async fn hear(mut stream: TcpStream) -> (Vec<u8>, TcpStream) {
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = end_of_head(&bytes) {
            let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= at + length {
                break;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            break;
        }
    }
    (bytes, stream)
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}
