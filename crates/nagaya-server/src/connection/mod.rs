//! Connections: accepting them, and draining them at the end without losing requests.

mod client_stream;
mod guarded_stream;
mod table;
mod tls;

use std::{
    convert::Infallible,
    future::Future,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::{Body, HttpBody as _};
use futures_util::future::BoxFuture;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::net::{TcpListener, TcpStream};

pub(crate) use self::table::ConnectionTable;
pub use self::tls::{Tls, TlsError, TlsFiles};
use self::{
    client_stream::ClientStream,
    guarded_stream::{GuardedStream, TimeLimits},
    table::Connection,
};
use crate::{
    limits::{Limits, hold_until_sent, large_size},
    observe::TARGET,
    pipeline::Pipeline,
};

/// Time to write an answer after its request has reached the time limit, when the server stops.
const WRITE_TIME: Duration = Duration::from_secs(5);
/// The longest idle time of a connection: timers overflow on very large settings.
const IDLE_TIMEOUT_CAP: Duration = Duration::from_secs(24 * 60 * 60);
/// The smallest buffer of a connection that hyper accepts.
const MIN_BUFFER: usize = 64 * 1024;

/// What a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The systems.
    Public,
    /// Health, readiness and metrics alone. Its connections do not count towards the limits of the public listener, so that
    /// probes are answered under any load.
    Admin,
}

/// The listeners of a server.
pub(crate) struct Listeners {
    pub(crate) public: TcpListener,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) admin: Option<TcpListener>,
}

/// Accepts connections until `stop`, and for `shutdown_delay` after that. Then closes idle connections and waits for the
/// others. Calls `draining` when no new connection is accepted any more. Returns the moment of `stop`.
pub(crate) async fn serve(
    listeners: Listeners,
    pipeline: Arc<Pipeline>,
    shutdown_delay: Duration,
    stop: impl Future<Output = ()>,
    draining: impl FnOnce(),
) -> Instant {
    let Listeners { public, tls, admin } = listeners;
    let graceful = GracefulShutdown::new();
    let stopping = {
        let mut accepting = accept(&public, Purpose::Public, tls, &pipeline, &graceful);
        // Answers until the end, so that probes see the server stop.
        let _admin = admin.map(|listener| {
            let pipeline = Arc::clone(&pipeline);
            AbortOnDrop(tokio::spawn(async move {
                accept(&listener, Purpose::Admin, None, &pipeline, &GracefulShutdown::new()).await;
            }))
        });
        tokio::select! {
            () = &mut accepting => {}
            () = stop => {}
        }
        pipeline.health().stop();
        let stopping = Instant::now();
        let (in_flight, connections) = pipeline.in_use();
        tracing::info!(target: TARGET, in_flight, connections, shutdown_delay = shutdown_delay.as_secs_f64(), "stopping");
        if !shutdown_delay.is_zero() {
            let _ = tokio::time::timeout(shutdown_delay, accepting).await;
        }
        stopping
    };
    drop(public);
    draining();
    // No request takes longer than this.
    let drain_limit = pipeline.limits().time.saturating_add(WRITE_TIME);
    if tokio::time::timeout(drain_limit, graceful.shutdown()).await.is_err() {
        let (in_flight, connections) = pipeline.in_use();
        tracing::warn!(target: TARGET, in_flight, connections, "some requests did not finish before the shutdown limit");
    }
    stopping
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Accepts connections for ever. Boxed, so that the HTTP server is compiled in this crate, and not in those that start it.
fn accept<'a>(
    listener: &'a TcpListener,
    purpose: Purpose,
    tls: Option<Arc<Tls>>,
    pipeline: &'a Arc<Pipeline>,
    graceful: &'a GracefulShutdown,
) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        let http = Arc::new(http_settings(pipeline.limits()));
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely the open files limit: open connections go on, and release files when they close.
                    tracing::warn!(target: TARGET, %error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let address = peer.ip().to_canonical();
            let connection = match purpose {
                // At a limit, a connection without a request makes room. A connection that finds no room is closed: if it
                // waited, all others would wait behind it.
                Purpose::Public => match pipeline.connections().open(address) {
                    Some(connection) => Some(connection),
                    None => continue,
                },
                Purpose::Admin => None,
            };
            prepare(&stream, pipeline.limits().idle.min(IDLE_TIMEOUT_CAP));
            let serving = Serving {
                purpose,
                http: Arc::clone(&http),
                tls: tls.clone(),
                pipeline: Arc::clone(pipeline),
                connection,
                watcher: graceful.watcher(),
            };
            tokio::spawn(serving.run(stream, address));
        }
    })
}

fn http_settings(limits: &Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    // The time limits of heads and of idle connections are those of the stream.
    http.timer(TokioTimer::new()).header_read_timeout(None);
    http.max_header_size(limits.head_bytes).max_buf_size(limits.head_bytes.max(MIN_BUFFER));
    http
}

/// A connection that is being served.
struct Serving {
    purpose: Purpose,
    http: Arc<http1::Builder>,
    tls: Option<Arc<Tls>>,
    pipeline: Arc<Pipeline>,
    connection: Option<Connection>,
    watcher: Watcher,
}

impl Serving {
    async fn run(self, stream: TcpStream, address: IpAddr) {
        let Serving { purpose, http, tls, pipeline, connection, watcher } = self;
        let state = connection.as_ref().map(|connection| Arc::clone(connection.state())).unwrap_or_default();
        let serving = async {
            let limits = TimeLimits::new(pipeline.limits());
            let stream = match tls {
                None => ClientStream::Plain(stream),
                Some(tls) => match tokio::time::timeout(limits.head, tls.accept(stream)).await {
                    Ok(Ok(stream)) => ClientStream::Tls(Box::new(stream)),
                    Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_elapsed) => return tracing::debug!("a TLS handshake took too long"),
                },
            };
            let stream = GuardedStream::new(stream, limits, Arc::clone(&state));
            let peer: Arc<str> = address.to_string().into();
            let service = service_fn(|request: hyper::Request<Incoming>| {
                let (pipeline, peer, state) = (Arc::clone(&pipeline), Arc::clone(&peer), Arc::clone(&state));
                async move {
                    let busy = state.begin_request();
                    let request = request.map(Body::new);
                    let response = match purpose {
                        Purpose::Public => pipeline.answer(&peer, request).await,
                        Purpose::Admin => pipeline.answer_admin(&peer, request).await,
                    };
                    // A connection whose client reads a long answer makes no room for another one.
                    let is_stream = response.body().size_hint().exact().is_none();
                    Ok::<_, Infallible>(match is_stream || large_size(&response).is_some() {
                        true => hold_until_sent(response, busy),
                        false => response,
                    })
                }
            });
            if let Err(error) = watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await {
                tracing::debug!(%error, "a connection ended early");
            }
        };
        match &connection {
            Some(connection) => tokio::select! {
                biased;
                () = serving => {}
                () = connection.evicted() => {}
            },
            None => serving.await,
        }
    }
}

/// Sets socket options. They are optional: a socket that refuses them works.
fn prepare(stream: &TcpStream, idle: Duration) {
    // Answers are small: do not wait for more bytes to send.
    let _ = stream.set_nodelay(true);
    // Close the connection of a client that does not read its answer.
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(idle));
    #[cfg(not(target_os = "linux"))]
    let _ = idle;
}
