//! Options that all benchmarks have.

use std::{fmt::Display, fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use tempfile::TempDir;

/// Where the report goes, and where the benchmark works.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Also write the report to this page
    #[arg(long)]
    page: Option<PathBuf>,
    /// The folder for temporary directories
    #[arg(long, default_value = "target")]
    scratch: PathBuf,
}

impl ReportArgs {
    /// A temporary directory. It is removed when it goes out of scope, also after an error.
    pub fn scratch(&self, prefix: &str) -> anyhow::Result<TempDir> {
        fs::create_dir_all(&self.scratch).with_context(|| format!("{} cannot be made", self.scratch.display()))?;
        // PostgreSQL does not run as root, and needs access to it.
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).permissions(fs::Permissions::from_mode(0o755));
        Ok(builder.tempdir_in(fs::canonicalize(&self.scratch)?)?)
    }

    /// Prints the report, and writes the page.
    pub fn print<R: Serialize + Display>(&self, report: &R) -> anyhow::Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(report)?);
        } else {
            println!("{report}");
        }
        if let Some(path) = &self.page {
            fs::write(path, report.to_string()).with_context(|| format!("{} cannot be written", path.display()))?;
            eprintln!("wrote {}", path.display());
        }
        Ok(())
    }
}
