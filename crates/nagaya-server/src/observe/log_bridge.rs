//! Forwards log lines of libraries that use the crate `log`, such as the storage engine.

use log::{Level, LevelFilter, Log, Metadata, Record};

/// The target of the log lines of libraries.
const TARGET: &str = "nagaya::library";

/// Forwards warnings and errors of libraries, unless another logger is installed.
pub(super) fn install() {
    if log::set_logger(&Bridge).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

struct Bridge;

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let library = record.target();
        match record.level() {
            Level::Error => tracing::error!(target: TARGET, library, "{}", record.args()),
            _ => tracing::warn!(target: TARGET, library, "{}", record.args()),
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;
    use crate::observe::{LogFormat, subscriber};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn warnings_and_errors_of_libraries_are_lines_of_the_log() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = subscriber(LogFormat::Json, "info", move || writer.clone()).expect("a filter");
        let _log = tracing::subscriber::set_default(subscriber);
        let log = |level, text: &str| {
            Bridge.log(&Record::builder().level(level).target("lsm_tree::flush").args(format_args!("{text}")).build());
        };
        log(Level::Error, "no space left on device");
        log(Level::Warn, "write stall");
        log(Level::Info, "flushed");
        log(Level::Trace, "a block");

        let text = String::from_utf8(lines.0.lock().expect("no panic").clone()).expect("text");
        let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        let lines: Vec<_> = text
            .lines()
            .map(read)
            .map(|line| format!("{} {} {} {}", line["level"], line["target"], line["library"], line["message"]))
            .collect();
        assert_eq!(
            lines,
            [
                r#""ERROR" "nagaya::library" "lsm_tree::flush" "no space left on device""#,
                r#""WARN" "nagaya::library" "lsm_tree::flush" "write stall""#,
            ]
        );
    }
}
