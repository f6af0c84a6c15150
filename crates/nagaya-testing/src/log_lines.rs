//! The log of a test.

use std::{
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use nagaya_server::observe::{LogFormat, subscriber};
use serde_json::Value as Json;
use tracing::subscriber::DefaultGuard;

/// Captured log output.
#[derive(Clone, Default)]
pub struct LogLines(Arc<Mutex<Vec<u8>>>);

impl LogLines {
    /// Captures the log of this thread, on which a test runs, as lines of JSON, until the guard is dropped.
    pub fn capture(filter: &str) -> (LogLines, DefaultGuard) {
        LogLines::capture_as(LogFormat::Json, filter)
    }

    /// The same in this format.
    pub fn capture_as(format: LogFormat, filter: &str) -> (LogLines, DefaultGuard) {
        let lines = LogLines::default();
        let writer = lines.clone();
        let subscriber = subscriber(format, filter, move || writer.clone()).expect("a filter");
        (lines, tracing::subscriber::set_default(subscriber))
    }

    /// All lines.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).expect("text")
    }

    /// The lines of requests.
    pub fn requests(&self) -> Vec<Json> {
        self.of("nagaya::access")
    }

    /// The lines of the server itself.
    pub fn server(&self) -> Vec<Json> {
        self.of("nagaya::server")
    }

    /// How many lines have this text.
    pub fn count(&self, message: &str) -> usize {
        self.text().lines().filter(|line| line.contains(message)).count()
    }

    fn of(&self, target: &str) -> Vec<Json> {
        let lines = self.text();
        let lines = lines.lines().map(|line| serde_json::from_str::<Json>(line).expect("each line is an object"));
        lines.filter(|line| line["target"] == target).collect()
    }
}

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
