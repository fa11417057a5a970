//! One connection of a process, from its first request to its end.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use skep_core::BoxFuture;
use skep_core::provider::RawEndpoint;
use skep_core::relay::{RelayConnection, RelayConnections};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::answer;
use crate::body::RelayBody;
use crate::bounds;
use crate::launch::RelayProcess;
use crate::refusal::RelayRefusal;
use crate::wire;

/// For the head of a request, and between two requests: programs keep connections for later.
const HEAD_WITHIN: Duration = Duration::from_secs(120);
const HEAD_BYTES: usize = 64 * 1024;
const MOST_HEADERS: usize = 128;
/// Connections of one process on the host at the same time; more of them wait to be accepted.
const MOST_CONNECTIONS: usize = 64;

/// Where the process comes in.
pub(crate) struct Door {
    pub launch: Arc<RelayProcess>,
}

impl RelayConnections for Door {
    fn serve(&self, connection: Box<dyn RelayConnection>) -> BoxFuture<'static, ()> {
        let launch = Arc::clone(&self.launch);
        let ended = launch.ended.clone();
        let service = service_fn(move |request| {
            let launch = Arc::clone(&launch);
            async move { Ok::<_, Infallible>(answer(&launch, request).await) }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_headers(MOST_HEADERS)
            .max_header_size(HEAD_BYTES)
            .max_buf_size(HEAD_BYTES);
        let connection = builder.serve_connection(TokioIo::new(connection), service);
        Box::pin(async move {
            if let Some(Err(error)) = ended.run_until_cancelled(connection).await {
                tracing::trace!(%error, "a connection to the model relay broke");
            }
        })
    }
}

/// Serves those who come by the machine's own loopback.
pub(crate) async fn accept(listener: TcpListener, door: Arc<Door>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let ended = door.launch.ended.clone();
    let serve = async {
        let mut connections = JoinSet::new();
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let accepted = listener.accept().await;
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = accepted else {
                // Out of descriptors, as a rule: others have to end first.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let served = door.serve(Box::new(stream));
            connections.spawn(async move {
                let _place = place;
                served.await;
            });
        }
    };
    ended.run_until_cancelled(serve).await;
}

async fn answer(launch: &Arc<RelayProcess>, request: Request<Incoming>) -> Response<RelayBody> {
    let (head, body) = request.into_parts();
    let answered = match admitted(launch, &head) {
        Ok(endpoint) => relayed(launch, endpoint, head, body).await,
        Err(refusal) => {
            bounds::pass_over(body).await;
            Err(refusal)
        }
    };
    answered.unwrap_or_else(|refusal| {
        let (code, text) = (refusal.code, &refusal.text);
        tracing::debug!(code, text, "the model relay refuses a request");
        refusal.response(launch.wire)
    })
}

fn admitted(launch: &RelayProcess, head: &Parts) -> Result<RawEndpoint, RelayRefusal> {
    let rules = wire::rules(launch.wire);
    let endpoint = rules.endpoint(head.uri.path()).filter(|_| head.method == Method::POST);
    let endpoint = endpoint.ok_or_else(RelayRefusal::path)?;
    if head.uri.query().is_some_and(|query| !rules.queries.hold(query)) {
        return Err(RelayRefusal::path());
    }
    launch.admit(&head.headers)?;
    Ok(endpoint)
}

/// The turn's end is the request's, whatever it waits for.
async fn relayed(
    launch: &Arc<RelayProcess>,
    endpoint: RawEndpoint,
    head: Parts,
    body: Incoming,
) -> Result<Response<RelayBody>, RelayRefusal> {
    let turn = match launch.turn() {
        Ok(turn) => turn,
        Err(refusal) => {
            bounds::pass_over(body).await;
            return Err(refusal);
        }
    };
    let answered = async {
        let body = launch.room.read(&head.headers, body).await?;
        answer::relay(launch, &turn, endpoint, &head, body).await
    };
    match turn.closed.run_until_cancelled(answered).await {
        Some(answered) => answered,
        None => Err(RelayRefusal { closes: true, ..RelayRefusal::closed() }),
    }
}
