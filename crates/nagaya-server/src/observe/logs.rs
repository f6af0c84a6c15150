//! Where log lines go: one JSON object each, or text for a person.

use std::{cell::Cell, io::IsTerminal as _, panic::PanicHookInfo, sync::OnceLock};

use tracing::Subscriber;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use super::log_bridge;

/// Lines that wait for a slow reader; further ones are dropped and counted. A few megabytes.
const MAX_WAITING: usize = 16_384;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A line of text, for a person.
    Text,
    /// A JSON object, for a program.
    Json,
}

impl LogFormat {
    /// Text if the standard error is a terminal, otherwise JSON.
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

/// Keeps the log running. Dropping it writes the lines that still wait.
#[derive(Debug)]
#[must_use = "the log ends when it is dropped"]
pub struct LogGuard {
    _writer: WorkerGuard,
}

/// A filter that is not valid.
#[derive(Debug, thiserror::Error)]
#[error("the log filter `{filter}` is not valid: {why}")]
pub struct BadFilter {
    filter: String,
    why: String,
}

/// Starts the log of this process, on the standard error. `filter` says what is logged, as in `info,nagaya::access=off`.
///
/// A thread of its own writes the lines: a slow reader must not delay requests. When too many lines wait, further ones are
/// dropped and counted in `nagaya_log_lines_dropped_total`.
///
/// Warnings and errors of libraries that log through the crate `log`, such as the storage engine's, are among the lines,
/// under the target `nagaya::library`.
///
/// Panics are logged without their message, unless it is a constant of the program: a formatted message may contain
/// personal data. If a log is already running, nothing changes.
pub fn init(format: LogFormat, filter: &str) -> Result<LogGuard, BadFilter> {
    let lines = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(MAX_WAITING).thread_name("log");
    let (writer, guard) = lines.finish(std::io::stderr());
    let dropped = writer.error_counter();
    let subscriber = subscriber(format, filter, writer)?;
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        let _ = DROPPED_LINES.set(dropped);
        std::panic::set_hook(Box::new(panicked));
        log_bridge::install();
    }
    Ok(LogGuard { _writer: guard })
}

/// The same without a thread of its own: each line is written before the call that logs it returns. For processes that are
/// stopped between requests, such as functions of AWS Lambda.
pub fn init_unbuffered(format: LogFormat, filter: &str) -> Result<(), BadFilter> {
    if tracing::subscriber::set_global_default(subscriber(format, filter, std::io::stderr)?).is_ok() {
        std::panic::set_hook(Box::new(panicked));
        log_bridge::install();
    }
    Ok(())
}

/// The subscriber that writes log lines, for programs that start the log themselves.
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

/// Whether to use colours (https://no-color.org).
fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Counts dropped lines.
static DROPPED_LINES: OnceLock<ErrorCounter> = OnceLock::new();

/// How many lines were dropped.
pub(super) fn dropped() -> u64 {
    DROPPED_LINES.get().map_or(0, |counter| u64::try_from(counter.dropped_lines()).unwrap_or(u64::MAX))
}

thread_local! {
    /// The location of the last panic of this thread.
    static PANICKED: Cell<Option<String>> = const { Cell::new(None) };
}

/// Takes the location of the last panic of this thread, so that it is given once; the code that catches a panic knows the
/// request.
pub(crate) fn last_panic() -> Option<String> {
    PANICKED.take()
}

fn panicked(panic: &PanicHookInfo<'_>) {
    let at = panic.location().map(|at| format!("{}:{}", at.file(), at.line()));
    // A message that is a constant contains no data of a request.
    let panic_message = panic.payload().downcast_ref::<&'static str>().copied();
    tracing::error!(at = at.as_deref(), panic_message, "the program panicked");
    PANICKED.set(at);
}
