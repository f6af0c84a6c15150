//! The log of a process: lines of a file outside of the simulated directory.

use std::{
    fs::File,
    io::{self, Write as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

#[derive(Debug, Clone)]
pub(crate) struct Log {
    file: Arc<File>,
    /// Whether the last line is `synced`.
    synced: Arc<AtomicBool>,
}

impl Log {
    pub(crate) fn append(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Log { file: Arc::new(file), synced: Arc::default() })
    }

    pub(crate) fn line(&self, line: &str) {
        self.synced.store(false, Ordering::SeqCst);
        // One call per line, so that lines of several threads do not mix and none is buffered.
        let _ = (&*self.file).write_all(format!("{line}\n").as_bytes());
    }

    /// Logs that a journal was really synced.
    pub(crate) fn synced(&self) {
        if !self.synced.swap(true, Ordering::SeqCst) {
            let _ = (&*self.file).write_all(b"synced\n");
        }
    }
}
