//! A proxy that injects network faults and server errors.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// None: the call is forwarded.
    None,
    /// The request is lost.
    RequestLost,
    /// The server carries it out, and the response is lost.
    AnswerLost,
    /// The server carries it out at once, and the response comes after the timeout.
    AnswerLate,
    /// The request reaches the server after the timeout.
    RequestLate,
    /// The server carries it out twice; the caller gets the first response.
    TwiceFirst,
    /// The server carries it out twice; the caller gets the second response.
    TwiceSecond,
    /// It is throttled, with one of the service's error codes.
    Throttled(&'static str),
    /// The server fails before it carries it out.
    Broken,
    /// The server carries it out, and then fails.
    BrokenAfter,
}

/// The proxy: stops when it goes out of scope.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    accepting: tokio::task::JoinHandle<()>,
}

struct State {
    server: String,
    rng: Mutex<Rng>,
    /// Longer than the engine's timeout.
    late: Duration,
    /// The faults of calls, by the marker in their bodies.
    happened: Mutex<BTreeMap<String, Vec<Fault>>>,
    /// The number of calls with each fault.
    counts: Mutex<BTreeMap<Fault, usize>>,
}

impl Proxy {
    /// A proxy in front of the server at this endpoint.
    pub(crate) async fn start(endpoint: &str, seed: u64, late: Duration) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let state = Arc::new(State {
            server: endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned(),
            rng: Mutex::new(Rng::with_seed(seed)),
            late,
            happened: Mutex::default(),
            counts: Mutex::default(),
        });
        let address = listener.local_addr()?;
        let accepting = {
            let state = Arc::clone(&state);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let state = Arc::clone(&state);
                    // Broken connections are expected.
                    tokio::spawn(async move { drop(serve(stream, &state).await) });
                }
            })
        };
        Ok(Proxy { address, state, accepting })
    }

    /// The faults of the calls with this marker, in order.
    pub(crate) fn happened(&self, marker: &str) -> Vec<Fault> {
        self.state.happened.lock().expect("no panic before").get(marker).cloned().unwrap_or_default()
    }

    /// The number of calls with each fault.
    pub(crate) fn counts(&self) -> BTreeMap<Fault, usize> {
        self.state.counts.lock().expect("no panic before").clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Forwards the calls of a connection, until one is lost.
async fn serve(mut caller: TcpStream, state: &State) -> io::Result<()> {
    while let Some(call) = message(&mut caller).await? {
        match state.fault(&call) {
            Fault::None => caller.write_all(&state.ask(&call).await?).await?,
            Fault::RequestLost => return Ok(()),
            Fault::AnswerLost => {
                state.ask(&call).await?;
                return Ok(());
            }
            Fault::AnswerLate => {
                let answer = state.ask(&call).await?;
                tokio::time::sleep(state.late).await;
                caller.write_all(&answer).await?;
            }
            Fault::RequestLate => {
                tokio::time::sleep(state.late).await;
                let answer = state.ask(&call).await?;
                caller.write_all(&answer).await?;
            }
            Fault::TwiceFirst => {
                let answer = state.ask(&call).await?;
                state.ask(&call).await?;
                caller.write_all(&answer).await?;
            }
            Fault::TwiceSecond => {
                state.ask(&call).await?;
                caller.write_all(&state.ask(&call).await?).await?;
            }
            Fault::Throttled(exception) => caller.write_all(&refusal(400, exception)).await?,
            Fault::Broken => caller.write_all(&refusal(500, "InternalServerError")).await?,
            Fault::BrokenAfter => {
                state.ask(&call).await?;
                caller.write_all(&refusal(500, "InternalServerError")).await?;
            }
        }
    }
    Ok(())
}

impl State {
    fn fault(&self, call: &[u8]) -> Fault {
        let mut rng = self.rng.lock().expect("no panic before");
        let fault = match rng.u8(0..100) {
            0..4 => Fault::RequestLost,
            4..10 => Fault::AnswerLost,
            10..12 => Fault::AnswerLate,
            12..14 => Fault::RequestLate,
            14..16 if can_be_doubled(call) => Fault::TwiceFirst,
            16..20 if can_be_doubled(call) => Fault::TwiceSecond,
            20..23 => Fault::Throttled("ProvisionedThroughputExceededException"),
            23..26 => Fault::Throttled("ThrottlingException"),
            26..28 => Fault::Broken,
            28..30 => Fault::BrokenAfter,
            _ => Fault::None,
        };
        *self.counts.lock().expect("no panic before").entry(fault).or_default() += 1;
        if let Some(marker) = marker(call) {
            self.happened.lock().expect("no panic before").entry(marker).or_default().push(fault);
        }
        fault
    }

    /// The server's response.
    async fn ask(&self, call: &[u8]) -> io::Result<Vec<u8>> {
        let mut server = TcpStream::connect(&self.server).await?;
        server.write_all(call).await?;
        message(&mut server).await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Only calls with a token or a condition are sent twice: no server could detect the repetition of others, and TCP does not
/// repeat calls.
fn can_be_doubled(call: &[u8]) -> bool {
    ["ClientRequestToken", "ConditionExpression"].iter().any(|name| position(call, name.as_bytes()).is_some())
}

/// The marker in a call: `~` around digits.
fn marker(call: &[u8]) -> Option<String> {
    let start = position(call, b"~")? + 1;
    let end = start + position(&call[start..], b"~")?;
    String::from_utf8(call[start..end].to_vec()).ok()
}

/// A whole HTTP message with its body; `None` at the end of the connection.
async fn message(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    loop {
        if let Some(head) = position(&bytes, b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if bytes.len() >= head + 4 + length {
                return Ok(Some(bytes));
            }
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}

fn refusal(status: u16, exception: &str) -> Vec<u8> {
    let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{exception}","message":"by the proxy"}}"#);
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Refused\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
