//! `cargo xtask mission`: requirements and the tests that prove them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::json;

use crate::run::root;

/// Arguments of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print both lists as JSON
    #[arg(long)]
    json: bool,
}

/// A requirement's id: its letter and its number, so that A10 comes after A9.
type Id = (char, u32);

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let page = fs::read_to_string(root().join("docs/mission.md")).context("docs/mission.md cannot be read")?;
    let mut proofs: BTreeMap<Id, Vec<String>> = requirements(&page).into_iter().map(|id| (id, Vec::new())).collect();
    let mut parts: BTreeMap<Id, Vec<String>> = BTreeMap::new();
    let mut unknown = Vec::new();
    for file in sources(&root())? {
        let text = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        let name = file.strip_prefix(root()).unwrap_or(&file).display().to_string();
        for claim in claims(&text) {
            let Claim { id, test, whole } = claim;
            let place = format!("{name}::{test}");
            match proofs.get_mut(&id) {
                Some(tests) if whole => tests.push(place),
                Some(_) => parts.entry(id).or_default().push(place),
                None => unknown.push(format!("{}{} in {place}", id.0, id.1)),
            }
        }
    }
    let (proven, open): (Vec<_>, Vec<_>) = proofs.into_iter().partition(|(_, tests)| !tests.is_empty());
    let names: Vec<_> = open.iter().map(|((letter, number), _)| format!("{letter}{number}")).collect();
    if args.json {
        let named = |tests: Vec<(Id, Vec<String>)>| -> serde_json::Map<_, _> {
            tests.into_iter().map(|((letter, number), tests)| (format!("{letter}{number}"), json!(tests))).collect()
        };
        let parts = named(parts.into_iter().collect());
        println!("{:#}", json!({ "proven": named(proven), "inPart": parts, "open": names, "unknown": unknown }));
        return Ok(());
    }
    println!("{} of {} requirements have a test", proven.len(), proven.len() + open.len());
    for ((letter, number), tests) in &proven {
        println!("  {letter}{number}");
        tests.iter().for_each(|test| println!("    {test}"));
    }
    println!("in part");
    for ((letter, number), tests) in &parts {
        println!("  {letter}{number}");
        tests.iter().for_each(|test| println!("    {test}"));
    }
    println!("without a test that proves all of it: {}", names.join(" "));
    if !unknown.is_empty() {
        println!("claimed but not a requirement: {}", unknown.join(", "));
    }
    Ok(())
}

/// The ids of a requirements page: those that start a list item, and those that start a sentence in one.
fn requirements(page: &str) -> Vec<Id> {
    let mut found = Vec::new();
    for line in page.lines() {
        if let Some(item) = line.strip_prefix("- ") {
            found.extend(item.split_whitespace().next().and_then(id));
        }
        for sentence in line.split(". ").skip(1) {
            let mut words = sentence.split_whitespace();
            let (first, second) = (words.next(), words.next());
            let starts = second.is_some_and(|word| word.starts_with(char::is_uppercase));
            found.extend(first.filter(|_| starts).and_then(id));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn id(word: &str) -> Option<Id> {
    let letter = word.chars().next().filter(|letter| "AMTKCN".contains(*letter))?;
    Some((letter, word[1..].parse().ok()?))
}

/// What a test claims to prove.
#[derive(Debug, PartialEq)]
struct Claim {
    id: Id,
    test: String,
    /// Whether it claims the whole requirement, and not "the design's part of" it.
    whole: bool,
}

/// What the tests of a file claim to prove, each with the name of the test that follows.
fn claims(text: &str) -> Vec<Claim> {
    let mut found = Vec::new();
    let mut waiting: Vec<(Id, bool)> = Vec::new();
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix("//").map(|comment| comment.trim_start_matches(['/', '!']).trim());
        if let Some(comment) = comment.filter(|comment| comment.starts_with("Proves ")) {
            for claim in comment.split("Proves ") {
                let part = claim.split_once(" part of ").filter(|(whose, _)| whose.starts_with("the "));
                let ids = part.map_or(claim, |(_, ids)| ids);
                let found = ids.split(|each: char| !each.is_ascii_alphanumeric()).filter_map(id);
                waiting.extend(found.map(|id| (id, part.is_none())));
            }
        } else if let Some(name) = function(line) {
            found.extend(waiting.drain(..).map(|(id, whole)| Claim { id, test: name.to_owned(), whole }));
        }
    }
    found
}

/// The name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("async ");
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// The Rust files of crates and systems.
fn sources(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("systems")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_start_items_and_sentences() {
        let page = "- A1 Every key. A2 Not this one\n- K5 Profile. K6 Recipes: C3 is not one.\nText. N9 Durable.";
        assert_eq!(requirements(page), [('A', 1), ('A', 2), ('K', 5), ('K', 6), ('N', 9)]);
    }

    #[test]
    fn a_claim_belongs_to_the_test_that_follows() {
        // Assembled at run time, so that this file itself claims nothing.
        let claim = |ids: &str, function: &str| format!("/// {} {ids}.\n#[test]\n{function}() {{}}\n", "Proves");
        let text = claim("A1, A2", "fn one")
            + &claim("nothing", "fn two")
            + &claim("C17 and T3", "async fn three")
            + &claim("the design's part of A6", "fn four")
            + &claim(&format!("A7. {} the design's part of A8", "Proves"), "fn five");
        let shown = |claim: Claim| {
            let part = if claim.whole { "" } else { " in part" };
            format!("{}{} {}{part}", claim.id.0, claim.id.1, claim.test)
        };
        let found: Vec<_> = claims(&text).into_iter().map(shown).collect();
        assert_eq!(
            found,
            ["A1 one", "A2 one", "C17 three", "T3 three", "A6 four in part", "A7 five", "A8 five in part"]
        );
    }

    #[test]
    fn the_page_in_the_repository_has_all_requirements() {
        let page = fs::read_to_string(root().join("docs/mission.md")).expect("the page is there");
        let found = requirements(&page);
        let count = |letter| found.iter().filter(|(each, _)| *each == letter).count();
        assert_eq!(['A', 'M', 'T', 'K', 'C', 'N'].map(count), [16, 8, 26, 20, 21, 9]);
    }
}
