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

    /// Whether a mutant is the active one.
    #[inline(never)]
    pub(crate) fn is(mutant: usize) -> bool {
        let active = || std::env::var("NAGAYA_MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(usize::MAX);
        *ACTIVE.get_or_init(active) == mutant
    }

    /// The same. Notes that the mutant was reached, if somebody wants to know.
    #[inline(never)]
    pub(crate) fn reached(mutant: usize) -> bool {
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
        is(mutant)
    }

    /// The value of a condition. Notes the mutant for which it has to be another one, if it is.
    pub(crate) fn condition(mutant: usize, other: bool, value: bool) -> bool {
        if value != other {
            reached(mutant);
        }
        value
    }

    /// Compares. Notes the mutant that differs where both are equal, and the one with the reverse order, where they differ.
    pub(crate) fn compared<L: ?Sized + PartialOrd<R>, R: ?Sized>(
        how: &str,
        [equal, reverse]: [usize; 2],
        left: &L,
        right: &R,
    ) -> bool {
        let is_equal = left == right;
        if is_equal && equal != usize::MAX {
            reached(equal);
        }
        if (!is_equal || how.ends_with('=')) && reverse != usize::MAX {
            reached(reverse);
        }
        match how {
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            _ => left >= right,
        }
    }
}
