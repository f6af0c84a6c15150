//! Connections: accepting them, and draining them at the end without losing requests.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::Body;
use futures_util::future::BoxFuture;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::net::{TcpListener, TcpStream};

use crate::{observe::TARGET, pipeline::Pipeline};

/// Time to write an answer after its request has reached the time limit, when the server stops.
const WRITE_TIME: Duration = Duration::from_secs(5);
/// The longest idle time of a connection: timers overflow on very large settings.
const IDLE_TIMEOUT_CAP: Duration = Duration::from_secs(24 * 60 * 60);
/// The smallest buffer of a connection that hyper accepts.
const MIN_BUFFER: usize = 64 * 1024;

/// Accepts connections until `stop`, and for `shutdown_delay` after that. Then closes idle connections and waits for the
/// others. Calls `draining` when no new connection is accepted any more. Returns the moment of `stop`.
pub(crate) async fn serve(
    listener: TcpListener,
    pipeline: Arc<Pipeline>,
    shutdown_delay: Duration,
    stop: impl Future<Output = ()>,
    draining: impl FnOnce(),
) -> Instant {
    let graceful = GracefulShutdown::new();
    let stopping = {
        let mut accepting = accept(&listener, &pipeline, &graceful);
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
    drop(listener);
    draining();
    // No request takes longer than this.
    let drain_limit = pipeline.limits().time.saturating_add(WRITE_TIME);
    if tokio::time::timeout(drain_limit, graceful.shutdown()).await.is_err() {
        let (in_flight, connections) = pipeline.in_use();
        tracing::warn!(target: TARGET, in_flight, connections, "some requests did not finish before the shutdown limit");
    }
    stopping
}

/// Accepts connections for ever. Boxed, so that the HTTP server is compiled in this crate, and not in those that start it.
fn accept<'a>(
    listener: &'a TcpListener,
    pipeline: &'a Arc<Pipeline>,
    graceful: &'a GracefulShutdown,
) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        let mut http = http1::Builder::new();
        let idle = pipeline.limits().idle.min(IDLE_TIMEOUT_CAP);
        http.timer(TokioTimer::new()).header_read_timeout(idle);
        http.max_header_size(pipeline.limits().head_bytes).max_buf_size(pipeline.limits().head_bytes.max(MIN_BUFFER));
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
            // At the limit, this connection waits here and all others wait in the backlog of the listener. The semaphore is
            // never closed.
            let permit = Arc::clone(pipeline.connections()).try_acquire_owned();
            if permit.is_err() {
                let limit = pipeline.limits().connections;
                tracing::warn!(target: TARGET, limit, "the connection limit is reached: new connections wait, probes too");
            }
            let permit = match permit {
                Ok(permit) => permit,
                Err(_) => match Arc::clone(pipeline.connections()).acquire_owned().await {
                    Ok(permit) => permit,
                    Err(_) => return,
                },
            };
            prepare(&stream, idle);
            let pipeline = Arc::clone(pipeline);
            let peer = address(peer);
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let (pipeline, peer) = (Arc::clone(&pipeline), Arc::clone(&peer));
                async move { Ok::<_, Infallible>(pipeline.answer(&peer, request.map(Body::new)).await) }
            });
            let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection ended early");
                }
                drop(permit);
            });
        }
    })
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

/// The address of the client; an IPv4 address that is mapped to IPv6 is shown as IPv4.
fn address(peer: SocketAddr) -> Arc<str> {
    peer.ip().to_canonical().to_string().into()
}
