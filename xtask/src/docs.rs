//! `cargo xtask docs`: what the documentation says about files, compared with the files.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

use crate::run::root;

/// The page whose guarantees name their tests.
const THREAT_MODEL: &str = "docs/explanation/threat-model.md";

/// Checks the links of all pages, the code map and the walks of ARCHITECTURE.md, and the tests that the threat model names.
pub(crate) fn run() -> anyhow::Result<()> {
    let root = root();
    let mut wrong = Vec::new();
    let pages = pages(&root)?;
    for page in &pages {
        let text = read(page)?;
        let name = page.strip_prefix(&root).unwrap_or(page).display();
        wrong.extend(broken_links(page, &text).iter().map(|link| format!("{name}: nothing is at `{link}`")));
    }
    let architecture = read(&root.join("ARCHITECTURE.md"))?;
    let (named, listed) = code_map(&architecture);
    for path in listed.iter().chain(&named).filter(|path| !root.join(path).exists()) {
        wrong.push(format!("ARCHITECTURE.md: the code map names `{path}`, which does not exist"));
    }
    for package in packages(&root)?.difference(&named) {
        wrong.push(format!("ARCHITECTURE.md: the code map does not name `{package}`"));
    }
    if examples(&read(&root.join("README.md"))?) != examples(&read(&root.join("README.ja.md"))?) {
        wrong.push("README.ja.md: its examples are not those of README.md".to_owned());
    }
    let tests = tests(&root)?;
    for test in tests_of_guarantees(&read(&root.join(THREAT_MODEL))?) {
        if !tests.contains(&test) {
            wrong.push(format!("{THREAT_MODEL}: there is no test `{test}`"));
        }
    }
    let walks = walks(&architecture);
    for (walk, files) in &walks {
        let mut left = BTreeSet::new();
        let mut current = None;
        for file in files {
            if !root.join(file).exists() {
                wrong.push(format!("ARCHITECTURE.md: the walk `{walk}` names `{file}`, which does not exist"));
            }
            if current != Some(file) && !left.insert(file) {
                wrong.push(format!("ARCHITECTURE.md: the walk `{walk}` enters `{file}` twice"));
            }
            current = Some(file);
        }
    }
    if walks.len() != 5 {
        wrong.push(format!("ARCHITECTURE.md: {} walks instead of five", walks.len()));
    }
    if !wrong.is_empty() {
        bail!("the documentation names what is not there:\n  {}", wrong.join("\n  "));
    }
    eprintln!("{} pages: links, code map, walks and named tests agree with the files", pages.len());
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Every Markdown page of the repository.
fn pages(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    files(root, ".md")
}

/// The names of all tests of the repository.
fn tests(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for file in files(root, ".rs")? {
        names.extend(tests_in(&read(&file)?).into_iter().map(str::to_owned));
    }
    Ok(names)
}

/// The functions of a file that have the attribute of a test, also those inside `proptest!`.
fn tests_in(text: &str) -> Vec<&str> {
    let (mut found, mut is_test) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            // The attributes are those of what follows them.
            let name = line.split_once("fn ").and_then(|(_, rest)| rest.split(['(', '<']).next());
            found.extend(name.filter(|_| is_test));
            is_test = false;
        }
    }
    found
}

/// The tests in the last column of the tables of guarantees.
fn tests_of_guarantees(page: &str) -> Vec<String> {
    let rows = page.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit_once("| "));
    rows.flat_map(|(_, tests)| quoted(tests)).map(str::to_owned).collect()
}

/// Every file of the repository whose name ends like this.
fn files(root: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The targets of a page's relative links that do not exist.
fn broken_links(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().unwrap_or(page);
    let targets = prose(text).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    let paths = files.map(|target| target.split('#').next().unwrap_or(target));
    paths.filter(|path| !folder.join(path).exists()).map(str::to_owned).collect()
}

/// The lines of a page outside fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        !inside && !is_fence
    })
}

/// The lines of a page inside fenced blocks.
fn examples(text: &str) -> Vec<&str> {
    let mut inside = false;
    let is_inside = |line: &&str| {
        inside ^= line.starts_with("```");
        inside
    };
    text.lines().filter(is_inside).collect()
}

/// The lines between a second-level heading and the next.
fn section<'t>(text: &'t str, heading: &str) -> impl Iterator<Item = &'t str> {
    let start = text.lines().skip_while(move |line| line.strip_prefix("## ") != Some(heading)).skip(1);
    start.take_while(|line| !line.starts_with("## "))
}

/// What is in backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The packages that the code map has headings for, and the files that it lists below them.
fn code_map(page: &str) -> (BTreeSet<String>, Vec<String>) {
    let (mut packages, mut files) = (BTreeSet::new(), Vec::new());
    let mut package = None;
    for line in section(page, "Code map") {
        if let Some(heading) = line.strip_prefix("### ") {
            package = quoted(heading).next().map(str::to_owned);
            packages.extend(package.clone());
        } else if let (Some(package), Some(item)) = (&package, line.strip_prefix("- ")) {
            let names = item.split(": ").next().unwrap_or_default();
            files.extend(quoted(names).map(|name| format!("{package}/{name}")));
        }
    }
    (packages, files)
}

/// The packages of the repository, as paths of their folders.
fn packages(root: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::from(["benches", "fuzz", "xtask"].map(str::to_owned));
    for group in ["crates", "systems"] {
        for entry in fs::read_dir(root.join(group)).with_context(|| format!("cannot read {group}"))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.join("Cargo.toml").exists() {
                found.insert(format!("{group}/{name}"));
            }
        }
    }
    Ok(found)
}

/// The walks: each a heading with the files that its numbered items begin with, in order.
fn walks(page: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in section(page, "Five walks") {
        if let Some(heading) = line.strip_prefix("### ") {
            found.push((heading.to_owned(), Vec::new()));
        } else if line.starts_with(|first: char| first.is_ascii_digit())
            && let (Some((_, files)), Some(file)) = (found.last_mut(), quoted(line).next())
        {
            files.push(file.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_map_lists_files_below_its_packages() {
        let page = "## Code map\n### `crates/a`\n- `src/x.rs`, `src/y/`: both `Z`\n### `xtask`\n## Other\n- `no`\n";
        let (packages, files) = code_map(page);
        assert_eq!(packages.into_iter().collect::<Vec<_>>(), ["crates/a", "xtask"]);
        assert_eq!(files, ["crates/a/src/x.rs", "crates/a/src/y/"]);
    }

    #[test]
    fn a_walk_is_the_first_file_of_each_numbered_item() {
        let page = "## Five walks\n### POST\n1. `a.rs`: calls `b`\n   and more\n2. `c.rs`\n";
        assert_eq!(walks(page), [("POST".to_owned(), vec!["a.rs".to_owned(), "c.rs".to_owned()])]);
    }

    #[test]
    fn a_guarantee_is_proven_by_a_test_and_by_no_other_function() {
        let text = "fn a() {}\n#[test]\n#[cfg(unix)]\n/// Proves it.\nfn b() {}\nfn c() {}\n#[tokio::test(flavor = \"x\")]\n\
                    async fn d() {}\nproptest! {\n    #[test]\n    fn e(x in 0..1) {}\n}\n#[test]\nstruct F;\nfn g() {}\n";
        assert_eq!(tests_in(text), ["b", "d", "e"]);
    }

    #[test]
    fn links_in_code_and_to_other_sites_are_not_checked() {
        let text = "[a](https://x.example/y) [b](#part) [c](no-such-file.md#part)\n```\n[d](nor-this)\n```\n";
        assert_eq!(broken_links(Path::new("/x/page.md"), text), ["no-such-file.md"]);
    }
}
