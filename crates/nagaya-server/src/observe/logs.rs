//! Where log lines go: one JSON object each, or text for a person.

use std::{cell::Cell, fmt, io::IsTerminal as _, panic::PanicHookInfo, sync::OnceLock};

use tracing::Subscriber;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use super::libraries;

/// Lines that wait for a slow reader; what comes on top is dropped and counted. A few megabytes.
const WAITING: usize = 16_384;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A line of text, for a person.
    Text,
    /// A JSON object, for a program.
    Json,
}

impl LogFormat {
    /// Text if a person looks at the standard error, otherwise JSON.
    pub fn detect() -> Self {
        if std::io::stderr().is_terminal() { LogFormat::Text } else { LogFormat::Json }
    }
}

impl std::str::FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("has to be `text` or `json`"),
        }
    }
}

/// Keeps the log going. What still waits is written when it is dropped.
#[derive(Debug)]
#[must_use = "the log ends when it is dropped"]
pub struct Logs {
    _writer: WorkerGuard,
}

/// A filter that cannot be read.
#[derive(Debug)]
pub struct BadFilter {
    filter: String,
    why: String,
}

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the log filter `{}` cannot be read: {}", self.filter, self.why)
    }
}

impl std::error::Error for BadFilter {}

/// Starts the log of this process, on the standard error. `filter` says what is logged, as in `info,nagaya::access=off`.
///
/// Lines are written by a thread of their own: a reader that is slow, or a pipe that nobody empties, must not hold up
/// requests. When too many wait, lines are lost, and `nagaya_log_lines_dropped_total` says how many.
///
/// Warnings and errors of libraries that log through the crate `log`, such as the storage engine's, are among the lines,
/// under the target `nagaya::library`.
///
/// Panics are logged without what they say, unless it is a text of the program itself: what is put together at run time may
/// hold anything. A log that has been started before by somebody else stays as it is.
pub fn init(format: LogFormat, filter: &str) -> Result<Logs, BadFilter> {
    let lines = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING).thread_name("log");
    let (writer, guard) = lines.finish(std::io::stderr());
    let dropped = writer.error_counter();
    let subscriber = subscriber(format, filter, writer)?;
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        let _ = DROPPED.set(dropped);
        std::panic::set_hook(Box::new(panicked));
        libraries::take_over();
    }
    Ok(Logs { _writer: guard })
}

/// What writes log lines, for those who start the log of their process themselves.
pub fn subscriber<W>(format: LogFormat, filter: &str, writer: W) -> Result<Box<dyn Subscriber + Send + Sync>, BadFilter>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let parsed =
        EnvFilter::try_new(filter).map_err(|why| BadFilter { filter: filter.to_owned(), why: why.to_string() })?;
    let lines = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(lines.with_ansi(colours()).finish()),
        LogFormat::Json => {
            Box::new(lines.json().flatten_event(true).with_current_span(false).with_span_list(false).finish())
        }
    })
}

/// Whether somebody looks who wants colours (https://no-color.org).
fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Lines that were lost.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// How many lines were lost because nobody read them in time.
pub(super) fn dropped() -> u64 {
    DROPPED.get().map_or(0, |counter| u64::try_from(counter.dropped_lines()).unwrap_or(u64::MAX))
}

thread_local! {
    /// Where the last panic of this thread was.
    static PANICKED: Cell<Option<String>> = const { Cell::new(None) };
}

/// Where the last panic of this thread was, if the log knows: it is caught where it is known which request it was.
pub(crate) fn last_panic() -> Option<String> {
    PANICKED.take()
}

fn panicked(panic: &PanicHookInfo<'_>) {
    let at = panic.location().map(|at| format!("{}:{}", at.file(), at.line()));
    // A text that is not put together at run time is one of the program.
    let said = panic.payload().downcast_ref::<&'static str>().copied();
    tracing::error!(at = at.as_deref(), said, "a panic");
    PANICKED.set(at);
}
