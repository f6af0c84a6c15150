//! Open files: how many the process may have, and how many of them are left for connections.

/// Open files that are not for connections: up to 900 of the embedded store, its journals and new files, the listener, the
/// log, and connections to other services.
const RESERVED: u64 = 1_200;

/// How many files this process may have open; `None` where it is not known.
pub(crate) fn open_files_limit() -> Option<u64> {
    #[cfg(unix)]
    {
        // No limit is a limit that is never reached.
        Some(rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX))
    }
    #[cfg(not(unix))]
    None
}

/// Raises the limit of open files as far as the system allows, and returns it. The default is low for the sake of old
/// programs.
pub fn raise_open_files_limit() -> Option<u64> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current != maximum {
            // Some systems have a lower limit that they do not report; then it stays as it is.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        }
    }
    open_files_limit()
}

/// How many connections this many open files allow. The store comes first: without a file for a connection one client waits,
/// without one for the store every request fails.
pub(super) fn for_connections(limit: u64) -> usize {
    let left = limit - RESERVED.min(limit / 2);
    usize::try_from(left).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn the_store_gets_open_files_before_connections_do() {
        let connections = |limit| Limits::default().within_open_files(limit).connections;
        assert_eq!(connections(u64::MAX), 10_000);
        assert_eq!(connections(20_000), 10_000);
        assert_eq!(connections(4_096), 2_896);
        assert_eq!(connections(1_024), 512, "a low limit is halved");
        assert_eq!(connections(0), 1);
    }

    #[test]
    #[cfg(unix)]
    fn the_limit_of_open_files_is_raised_to_the_maximum() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum }).expect("the limit can be lowered");
        assert_eq!(open_files_limit(), Some(256));
        assert_eq!(raise_open_files_limit(), Some(maximum.unwrap_or(u64::MAX)));
    }
}
