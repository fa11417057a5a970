//! HTTP to a hive: over `run/skep.sock` of a home, or to `--url` with the token of `SKEP_TOKEN`.

use std::fmt;
use std::io;
use std::time::Duration;

use http::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use skep_guard::egress::{
    EgressCause, EgressError, HttpClient, HttpError, HttpRequest, HttpResponse, HttpUpgrade,
};
use skep_guard::{environment, http as guarded};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::failure::{Exit, Failure};
use crate::hive::Globals;

const CONNECT: Duration = Duration::from_secs(10);
/// For answers that do not wait for an agent.
const ANSWER: Duration = Duration::from_secs(30);
/// For the upload of a whole session.
const UPLOAD: Duration = Duration::from_secs(180);

const KEY: &str = "Idempotency-Key";

/// The socket is the owner's alone.
const DENIED: &str = "it belongs to another user, and only its owner may use it";

const NOT_TLS: &str = "it does not speak TLS; write http:// instead of https://";

const OWNER: &str = "run it as the owner of the home, or use --url with a token in SKEP_TOKEN";

const LOOK: &str = "look whether the hive runs and the address is right";

const NEW_TOKEN: &str = "on the hive's machine: skep token new NAME, for SKEP_TOKEN";

pub type HiveSocket = WebSocketStream<HttpUpgrade>;

pub struct Client {
    door: Transport,
    /// The hive's name in messages.
    pub hive: String,
}

enum Transport {
    Socket(HttpClient),
    Web { http: HttpClient, base: String, token: SecretString },
}

/// Why a call failed.
#[derive(Debug)]
pub enum CallError {
    /// No connection; or it broke (`connected`), and it is unknown whether the hive acted.
    Unreachable { connected: bool, why: String },
    /// The hive answered with a problem.
    Problem { status: u16, code: String, detail: String },
    /// The answer is not from a hive.
    Strange(String),
}

impl Client {
    pub fn open(globals: &Globals) -> Result<Self, Failure> {
        match &globals.url {
            Some(url) => Self::web(url),
            None => Self::local(globals),
        }
    }

    fn local(globals: &Globals) -> Result<Self, Failure> {
        let home = globals.home()?;
        let hive = format!("the hive in {}", home.root().display());
        let failed =
            |why: &str, next| Failure::new(Exit::Failed, format!("reach {hive}"), why).next(next);
        // Opening the folder detects another user's home; a check for existence would not.
        match std::fs::read_dir(home.run()) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(failed(DENIED, OWNER));
            }
            Err(_) => return Err(failed("no hive was ever started there", "skep up")),
        }
        let local = guarded::local_client(&home.run())
            .map_err(|error| failed(&error.to_string(), "skep up"))?;
        Ok(Self { door: Transport::Socket(local), hive })
    }

    fn web(url: &str) -> Result<Self, Failure> {
        let hive = format!("the hive at {url}");
        let attempted = format!("reach {hive}");
        let usage = |why: &str| Failure::new(Exit::Usage, &attempted, why);
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            let failure = usage("--url has to start with http:// or https://");
            return Err(failure.next(format!("skep --url http://{url} status")));
        }
        let Some(token) = environment::var("SKEP_TOKEN") else {
            let failure = usage("SKEP_TOKEN is not set, and a hive elsewhere asks for a token");
            return Err(failure.next(NEW_TOKEN));
        };
        let http = guarded::client(url, CONNECT)
            .map_err(|error| Failure::new(Exit::Failed, &attempted, error.to_string()))?;
        let base = url.trim_end_matches('/').to_owned();
        Ok(Self { door: Transport::Web { http, base, token: SecretString::from(token) }, hive })
    }

    pub async fn get(&self, path: &str) -> Result<Value, CallError> {
        self.json(self.request(Method::GET, path).timeout(ANSWER)).await
    }

    /// `get` for a command that fails if this fails.
    pub async fn fetch(&self, path: &str, attempted: impl Into<String>) -> Result<Value, Failure> {
        self.get(path).await.map_err(|error| self.failure(attempted, error))
    }

    /// The same for `post`, without an idempotency key.
    pub async fn submit(
        &self,
        path: &str,
        body: &Value,
        attempted: impl Into<String>,
    ) -> Result<Value, Failure> {
        self.post(path, body, None).await.map_err(|error| self.failure(attempted, error))
    }

    /// For an answer that may take until `wait` has passed.
    pub async fn get_waiting(&self, path: &str, wait: Duration) -> Result<Value, CallError> {
        self.json(self.request(Method::GET, path).timeout(wait + ANSWER)).await
    }

    pub async fn post(
        &self,
        path: &str,
        body: &Value,
        key: Option<&str>,
    ) -> Result<Value, CallError> {
        let request = self.request(Method::POST, path).timeout(ANSWER).json(body);
        self.json(match key {
            Some(key) => request.header(KEY, key),
            None => request,
        })
        .await
    }

    /// The same, for an answer that may take until `wait` has passed.
    pub async fn post_waiting(
        &self,
        path: &str,
        body: &Value,
        wait: Duration,
    ) -> Result<Value, CallError> {
        self.json(self.request(Method::POST, path).timeout(wait + ANSWER).json(body)).await
    }

    /// `post` with a streamed answer.
    pub async fn post_for_stream(
        &self,
        path: &str,
        body: &Value,
        key: &str,
    ) -> Result<HttpResponse, CallError> {
        let request = self.request(Method::POST, path).header(KEY, key).json(body);
        let sent = timeout(ANSWER, request.send()).await;
        unless_problem(sent.map_err(|_| silent())?.map_err(unreachable)?).await
    }

    /// Uploads JSON lines of any size, with a longer time-out.
    pub async fn post_lines(&self, path: &str, lines: String) -> Result<Value, CallError> {
        let kind = "application/x-ndjson";
        let request = self.request(Method::POST, path).header("Content-Type", kind).body(lines);
        self.json(request.timeout(UPLOAD)).await
    }

    pub async fn patch(
        &self,
        path: &str,
        body: &Value,
        attempted: impl Into<String>,
    ) -> Result<Value, Failure> {
        let changed = self.json(self.request(Method::PATCH, path).timeout(ANSWER).json(body)).await;
        changed.map_err(|error| self.failure(attempted, error))
    }

    pub async fn put(
        &self,
        path: &str,
        body: &Value,
        attempted: impl Into<String>,
    ) -> Result<Value, Failure> {
        let put = self.json(self.request(Method::PUT, path).timeout(ANSWER).json(body)).await;
        put.map_err(|error| self.failure(attempted, error))
    }

    /// `put` of what may not be there yet; whether it was not, and is now.
    pub async fn put_new(
        &self,
        path: &str,
        body: &Value,
        exists: &str,
        attempted: impl Into<String>,
    ) -> Result<bool, Failure> {
        let request = self.request(Method::PUT, path).timeout(ANSWER).json(body);
        match self.json(request.header("If-None-Match", "*")).await {
            Ok(_) => Ok(true),
            Err(CallError::Problem { code, .. }) if code == exists => Ok(false),
            Err(error) => Err(self.failure(attempted, error)),
        }
    }

    pub async fn delete(&self, path: &str, attempted: impl Into<String>) -> Result<(), Failure> {
        let gone = self.json(self.request(Method::DELETE, path).timeout(ANSWER)).await;
        gone.map(drop).map_err(|error| self.failure(attempted, error))
    }

    /// A streamed answer, without a time limit.
    pub async fn stream(&self, path: &str) -> Result<HttpResponse, CallError> {
        let request = self.request(Method::GET, path).header("Accept", "text/event-stream");
        unless_problem(request.send().await.map_err(unreachable)?).await
    }

    /// A WebSocket at the path.
    pub async fn socket(&self, path: &str) -> Result<HiveSocket, CallError> {
        let key = generate_key();
        let request = self
            .request(Method::GET, path)
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", &key);
        let sent = timeout(ANSWER, request.send()).await;
        let response = unless_problem(sent.map_err(|_| silent())?.map_err(unreachable)?).await?;
        let accepted = response.headers().get("Sec-WebSocket-Accept");
        if accepted.is_none_or(|given| *given != derive_accept_key(key.as_bytes())) {
            return Err(CallError::Strange("it did not open the WebSocket asked for".to_owned()));
        }
        let stream = response.upgrade().await.map_err(unreachable)?;
        Ok(WebSocketStream::from_raw_socket(stream, Role::Client, None).await)
    }

    fn request(&self, method: Method, path: &str) -> HttpRequest {
        match &self.door {
            Transport::Socket(local) => local.request(method, &format!("http://localhost{path}")),
            Transport::Web { http, base, token } => {
                let bearer = format!("Bearer {}", token.expose_secret());
                http.request(method, &format!("{base}{path}")).header("Authorization", bearer)
            }
        }
    }

    async fn json(&self, request: HttpRequest) -> Result<Value, CallError> {
        let response = unless_problem(request.send().await.map_err(unreachable)?).await?;
        let body = response.bytes().await.map_err(unreachable)?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body)
            .map_err(|_| CallError::Strange("the answer is not JSON".to_owned()))
    }

    /// Turns a call's error into the failure of a command.
    pub fn failure(&self, attempted: impl Into<String>, error: CallError) -> Failure {
        match error {
            CallError::Unreachable { connected, why } => {
                let what = if connected { "broke off" } else { "does not answer" };
                let why = format!("{} {what}: {why}", self.hive);
                let denied = why.ends_with(DENIED);
                Failure::new(Exit::Failed, attempted, why).next(match &self.door {
                    Transport::Socket(_) if denied => OWNER,
                    Transport::Socket(_) => "skep up",
                    Transport::Web { .. } => LOOK,
                })
            }
            CallError::Problem { status, code, detail } => {
                let exit = if matches!(status, 401 | 403) { Exit::Refused } else { Exit::Failed };
                let why = match code.as_str() {
                    "unknown_route" => "it does not know this request; it may be of another \
                                        version, or the address has a path"
                        .to_owned(),
                    _ => format!("{detail} ({code})"),
                };
                let failure = Failure::new(exit, attempted, why).code(&code);
                match (status, code.as_str()) {
                    (401 | 403, _) if matches!(self.door, Transport::Web { .. }) => {
                        failure.next(NEW_TOKEN)
                    }
                    (_, "unknown_route") if matches!(self.door, Transport::Web { .. }) => {
                        failure.next(LOOK)
                    }
                    (_, "unknown_agent") => failure.next("skep agent list"),
                    (_, "unknown_item") => failure.next("skep inbox"),
                    (_, "unknown_approval") => failure.next("skep approve"),
                    (_, "unknown_profile") => failure.next("skep provider list"),
                    // The text says what to do, or the command does.
                    (_, "unknown_session" | "unknown_tool" | "not_found") => failure,
                    (404, _) => failure.next("skep status"),
                    _ => failure,
                }
            }
            CallError::Strange(why) => {
                let why = format!("{} gave an answer that is not a hive's: {why}", self.hive);
                Failure::new(Exit::Failed, attempted, why).next(match &self.door {
                    Transport::Socket(_) => "skep doctor",
                    Transport::Web { .. } => LOOK,
                })
            }
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { why, .. } | Self::Strange(why) => f.write_str(why),
            Self::Problem { code, detail, .. } => write!(f, "{detail} ({code})"),
        }
    }
}

fn silent() -> CallError {
    let why = format!("no answer within {} s", ANSWER.as_secs());
    CallError::Unreachable { connected: true, why }
}

/// What people can act on.
fn unreachable(error: HttpError) -> CallError {
    let why = match (&error, error.kind()) {
        (_, Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)) => {
            "nobody listens there".to_owned()
        }
        (_, Some(io::ErrorKind::PermissionDenied)) => DENIED.to_owned(),
        // What rustls says of an answer that is not TLS.
        (HttpError::Egress(EgressError { cause: EgressCause::Tls { why }, .. }), _)
            if why.contains("InvalidContentType") =>
        {
            NOT_TLS.to_owned()
        }
        (HttpError::Egress(error), _) => error.reason(),
        _ => error.to_string(),
    };
    CallError::Unreachable { connected: !error.is_connect(), why }
}

async fn unless_problem(response: HttpResponse) -> Result<HttpResponse, CallError> {
    if response.status().is_success() || response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response);
    }
    let status = response.status().as_u16();
    let body = response.bytes().await.map_err(unreachable)?;
    let Ok(problem) = serde_json::from_slice::<Value>(&body) else {
        return Err(CallError::Strange(format!("status {status} without a problem document")));
    };
    let text = |key: &str| problem[key].as_str().map(str::to_owned);
    Err(CallError::Problem {
        status,
        code: text("code").unwrap_or_else(|| status.to_string()),
        detail: text("detail").or_else(|| text("title")).unwrap_or_default(),
    })
}

/// The path with those parts of a query that are given.
pub fn with_query<const N: usize>(path: &str, parts: [(&str, Option<String>); N]) -> String {
    let given = parts.into_iter().filter_map(|(name, value)| Some((name, value?)));
    given.fold(path.to_owned(), |path, (name, value)| {
        let sign = if path.contains('?') { '&' } else { '?' };
        format!("{path}{sign}{name}={}", escaped(&value))
    })
}

/// A piece of a path or query: everything but letters, digits and `-_.~` is escaped.
pub fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
