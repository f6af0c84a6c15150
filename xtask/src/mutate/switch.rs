#[doc(hidden)]
#[allow(warnings, clippy::all)]
pub(crate) mod mutants {
    use std::{
        fs::{File, OpenOptions},
        io::Write as _,
        sync::{
            OnceLock,
            atomic::{AtomicBool, Ordering},
        },
    };

    static ACTIVE: OnceLock<usize> = OnceLock::new();
    static REACHED: OnceLock<Option<(File, Vec<AtomicBool>)>> = OnceLock::new();

    #[inline(never)]
    /// Whether a mutant is the active one. Notes that it was reached, if somebody wants to know.
    pub(crate) fn is(mutant: usize) -> bool {
        let reached = REACHED.get_or_init(|| {
            let file = OpenOptions::new().append(true).open(std::env::var_os("NAGAYA_MUTANTS_REACHED")?).ok()?;
            Some((file, (0..100_000).map(|_| AtomicBool::new(false)).collect()))
        });
        if let Some((file, seen)) = reached {
            if !seen[mutant].swap(true, Ordering::Relaxed) {
                let mut file: &File = file;
                let _ = file.write_all(format!("{mutant}\n").as_bytes());
            }
        }
        let active = || std::env::var("NAGAYA_MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(usize::MAX);
        *ACTIVE.get_or_init(active) == mutant
    }
}
