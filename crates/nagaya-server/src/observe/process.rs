//! What the process takes of the machine, where the machine says so.

use nagaya_store::Measurement;

use crate::limits;

/// File handles, and how many there may be.
pub(crate) fn measurements() -> Vec<Measurement> {
    let open = open_handles().map(|open| Measurement::gauge("process_open_fds", "Open file handles", open as f64));
    let help = "File handles that the process may have open";
    let most = limits::file_handles().map(|most| Measurement::gauge("process_max_fds", help, most as f64));
    open.into_iter().chain(most).collect()
}

fn open_handles() -> Option<usize> {
    // One of them is the directory that is being read.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// The memory that this process has in use. `status` and not `statm`: it does not count in pages, whose size would have to be
/// known.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn the_process_knows_what_it_takes() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1024 * 1024));
        let before = open_handles().expect("Linux tells");
        let _more = std::fs::File::open("/proc/self/status").expect("it is there");
        assert!(open_handles().is_some_and(|open| open > 0) && before > 0);
        assert_eq!(
            measurements().iter().map(|each| each.name).collect::<Vec<_>>(),
            ["process_open_fds", "process_max_fds"]
        );
    }
}
