//! A small HTTP client, and its load: at maximum speed, or at a constant rate.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bench_common::callers::CALLERS;
use serde_json::Value as Json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::times::micros;

/// A persistent connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> anyhow::Result<Json> {
        let failure = || format!("the answer is {}: {}", self.status, String::from_utf8_lossy(&self.body));
        ensure!((200..300).contains(&self.status), failure());
        serde_json::from_slice(&self.body).with_context(failure)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(each, _)| each.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("the server cannot be reached")?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends a request and reads its response, which has a content length.
    pub(crate) async fn send(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        self.stream.write_all(request).await?;
        let buffer = &mut self.buffer;
        buffer.clear();
        let (end, length) = loop {
            let from = buffer.len().saturating_sub(3);
            let read = self.stream.read_buf(buffer).await?;
            ensure!(read > 0, "the server has hung up");
            if let Some(at) = buffer[from..].windows(4).position(|four| four == b"\r\n\r\n") {
                let end = from + at + 4;
                let head = std::str::from_utf8(&buffer[..end])?;
                let mut lines = head.lines().filter_map(|line| line.split_once(':'));
                let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
                break (end, length.context("an answer does not say how long it is")?.1.trim().parse::<usize>()?);
            }
        };
        while buffer.len() < end + length {
            ensure!(self.stream.read_buf(buffer).await? > 0, "the server has hung up");
        }
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        let status = head.get(9..12).and_then(|status| status.parse().ok()).context("an answer has no status")?;
        Ok(Answer { status, head, body: buffer[end..end + length].to_vec() })
    }
}

/// A serialized request of the API.
pub(crate) fn request(method: &str, path: &str, token: &str, body: Option<&Json>) -> Vec<u8> {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n");
    match body.map(Json::to_string) {
        None => format!("{head}\r\n").into_bytes(),
        Some(body) => {
            let length = body.len();
            format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
        }
    }
}

/// The speed of a load.
#[derive(Clone, Copy)]
pub(crate) enum Speed {
    /// Each request right after the response to the one before, for so many seconds.
    Most(f64),
    /// So many requests per second, independent of the responses, for so many seconds.
    Constant(f64, f64),
}

/// The result of a load.
pub(crate) struct Load {
    /// Responses per second.
    pub(crate) per_second: f64,
    /// The number of each request, and its latency in microseconds from the time at which it was due.
    pub(crate) times: Vec<(u64, u32)>,
}

/// Sends requests over all connections; each has the next number.
pub(crate) async fn load(
    address: SocketAddr,
    speed: Speed,
    make: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static,
) -> anyhow::Result<Load> {
    let (make, next) = (Arc::new(make), Arc::new(AtomicU64::new(0)));
    let mut connections = Vec::new();
    for _ in 0..CALLERS {
        connections.push(Connection::open(address).await?);
    }
    let seconds = match speed {
        Speed::Most(seconds) | Speed::Constant(_, seconds) => seconds,
    };
    let start = Instant::now();
    // A warm-up of a quarter of the time.
    let counted = start + Duration::from_secs_f64(seconds / 4.0);
    let end = counted + Duration::from_secs_f64(seconds);
    let asked = connections.into_iter().map(|mut connection| {
        let (make, next) = (Arc::clone(&make), Arc::clone(&next));
        tokio::spawn(async move {
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let due = match speed {
                    Speed::Most(_) => Instant::now(),
                    Speed::Constant(rate, _) => start + Duration::from_secs_f64(number as f64 / rate),
                };
                if due >= end {
                    return anyhow::Ok(times);
                }
                tokio::time::sleep_until(due.into()).await;
                let answer = connection.send(&make(number)).await?;
                let ended = Instant::now();
                ensure!((200..300).contains(&answer.status), "an answer is {:?}", answer.json());
                // At a constant rate all due requests count, however late; otherwise those with a response in time.
                let counts = match speed {
                    Speed::Most(_) => ended >= counted && ended < end,
                    Speed::Constant(..) => due >= counted,
                };
                if counts {
                    times.push((number, micros(ended - due)));
                }
            }
        })
    });
    let asked: Vec<_> = asked.collect();
    let mut times = Vec::new();
    for connection in asked {
        times.extend(connection.await??);
    }
    let took = match speed {
        Speed::Most(_) => seconds,
        Speed::Constant(..) => counted.elapsed().as_secs_f64().max(seconds),
    };
    Ok(Load { per_second: times.len() as f64 / took, times })
}
