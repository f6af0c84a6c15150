//! Who owns files, and who can use them.

#[cfg(unix)]
pub(super) use self::unix::{can_write, is_of_administrator, is_other, others_can_use};

#[cfg(unix)]
mod unix {
    use std::{
        fs::Metadata,
        os::unix::fs::{MetadataExt as _, PermissionsExt as _},
        path::Path,
    };

    use rustix::{
        fs::{Access, access},
        process::geteuid,
    };

    /// Whether somebody else than the one who runs this owns a file.
    pub(crate) fn is_other(found: &Metadata) -> bool {
        found.uid() != geteuid().as_raw()
    }

    pub(crate) fn is_of_administrator(found: &Metadata) -> bool {
        found.uid() == 0
    }

    /// Whether others than the owner can use a file.
    pub(crate) fn others_can_use(found: &Metadata) -> bool {
        found.permissions().mode() & 0o077 != 0
    }

    /// Whether files can be created in a directory.
    pub(crate) fn can_write(directory: &Path) -> bool {
        access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    }
}

#[cfg(not(unix))]
mod other {
    use std::{fs::Metadata, path::Path};

    pub(crate) fn is_other(_: &Metadata) -> bool {
        false
    }

    pub(crate) fn is_of_administrator(_: &Metadata) -> bool {
        false
    }

    pub(crate) fn others_can_use(_: &Metadata) -> bool {
        false
    }

    pub(crate) fn can_write(_: &Path) -> bool {
        true
    }
}

#[cfg(not(unix))]
pub(super) use self::other::{can_write, is_of_administrator, is_other, others_can_use};
