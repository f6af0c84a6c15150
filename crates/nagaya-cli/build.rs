//! Lists the pages about diagnostic codes, which `nagaya explain NG0101` prints.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let pages = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../docs/reference/errors").canonicalize()?;
    println!("cargo::rerun-if-changed={}", pages.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&pages)? {
        let path = entry?.path();
        if let Some(code) = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| stem.starts_with("NG")) {
            names.push(format!("    ({code:?}, include_str!({:?})),\n", path.display().to_string()));
        }
    }
    names.sort();
    let list =
        format!("/// The pages about diagnostic codes.\nconst PAGES: &[(&str, &str)] = &[\n{}];\n", names.concat());
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("pages.rs"), list)?;
    Ok(())
}
