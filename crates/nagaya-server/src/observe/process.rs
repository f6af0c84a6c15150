//! Resources of the process, where the system reports them.

use nagaya_store::Measurement;

use crate::limits;

/// Open files, and their limit.
pub(crate) fn measurements() -> Vec<Measurement> {
    let open = open_files().map(|open| Measurement::gauge("process_open_fds", "Open files", open as f64));
    let help = "Files that the process may have open";
    let most = limits::open_files_limit().map(|most| Measurement::gauge("process_max_fds", help, most as f64));
    open.into_iter().chain(most).collect()
}

fn open_files() -> Option<usize> {
    // One of them is the directory that is read here.
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// The resident memory of this process. `status` and not `statm`, which counts in pages of unknown size.
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
    fn the_process_reports_its_resources() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1024 * 1024));
        let before = open_files().expect("Linux tells");
        let _more = std::fs::File::open("/proc/self/status").expect("it is there");
        assert!(open_files().is_some_and(|open| open > 0) && before > 0);
        assert_eq!(
            measurements().iter().map(|each| each.name).collect::<Vec<_>>(),
            ["process_open_fds", "process_max_fds"]
        );
    }
}
