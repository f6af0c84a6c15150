//! File handles: how many the process may have, and how many of them are left for connections.

/// Handles that are not for connections. The embedded store keeps up to 900 files open; its journals, the listener, the log,
/// connections to other services and what is just being written take the rest.
const RESERVED: u64 = 1_200;

/// How many file handles this process may have open; `None` where it is not known.
pub fn file_handles() -> Option<u64> {
    #[cfg(unix)]
    {
        // No limit at all is one that nobody reaches.
        Some(rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX))
    }
    #[cfg(not(unix))]
    None
}

/// Lets this process have as many file handles as it may, and gives how many those are. Systems start processes with few,
/// for the sake of old programs, and let those who want more ask for them.
pub fn raise_file_handles() -> Option<u64> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current != maximum {
            // Some systems have a lower limit that they do not tell; then it stays as it is.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        }
    }
    file_handles()
}

/// How many connections a process can hold that may have so many file handles. The store comes first: without a handle for
/// a connection somebody waits, without one for the store everybody fails.
pub(super) fn for_connections(handles: u64) -> usize {
    let left = handles - RESERVED.min(handles / 2);
    usize::try_from(left).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn the_store_has_its_handles_before_connections_have_theirs() {
        let connections = |handles| Limits::default().within_file_handles(handles).connections;
        assert_eq!(connections(u64::MAX), 10_000);
        assert_eq!(connections(20_000), 10_000);
        assert_eq!(connections(4_096), 2_896);
        assert_eq!(connections(1_024), 512, "what is little is halved");
        assert_eq!(connections(0), 1);
    }

    #[test]
    #[cfg(unix)]
    fn the_process_takes_as_many_handles_as_it_may() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum }).expect("fewer can be had");
        assert_eq!(file_handles(), Some(256));
        assert_eq!(raise_file_handles(), Some(maximum.unwrap_or(u64::MAX)));
    }
}
