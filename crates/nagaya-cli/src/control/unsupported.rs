//! Systems without Unix sockets: a directory can be maintained only while no process has it open.

use std::{io::Read, path::Path, sync::Arc};

use anyhow::bail;
use nagaya_embedded::{BackupPosition, EmbeddedStore};
use serde_json::Value as Json;

use super::AskError;

pub(crate) fn listen(_: &Path, _: &Arc<EmbeddedStore>) {}

/// Never constructed.
pub(crate) enum Connection {}

impl Connection {
    pub(crate) fn open(_: &Path) -> anyhow::Result<Self> {
        bail!("a running server can be asked on Unix only; stop it first")
    }

    pub(crate) fn ask(self, _: &Json, _: &mut dyn FnMut(u64)) -> Result<Json, AskError> {
        match self {}
    }

    pub(crate) fn stream(self, _: Option<&BackupPosition>) -> anyhow::Result<Box<dyn Read>> {
        match self {}
    }
}
