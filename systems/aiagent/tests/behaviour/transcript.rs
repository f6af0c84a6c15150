//! Requests and responses, with ids and hashes replaced by their order of appearance, so that two runs can be compared line by
//! line.

use std::collections::HashMap;

use nagaya_testing::Exchange;
use serde_json::Value as Json;

/// Requests and responses.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: Vec<String>,
    names: HashMap<String, String>,
}

impl Transcript {
    pub(crate) fn add(&mut self, exchange: &Exchange<'_>) {
        let Exchange { client, method, path, body, response: answer } = exchange;
        let mut answered = answer.body.clone();
        if let Some(body) = answered.as_object_mut() {
            body.remove("requestId");
            body.entry("nextCursor").and_modify(|cursor| *cursor = "<cursor>".into());
        }
        let sent = body.map(Json::to_string).unwrap_or_default();
        let mut entry = format!("{client}: {method} {path} {sent}\n  {}", answer.status);
        for name in ["content-type", "etag", "location", "allow", "retry-after", "www-authenticate"] {
            if let Some(value) = answer.header(name) {
                entry += &format!(" {name}={value}");
            }
        }
        entry += &format!("\n  {answered}");
        let entry = self.normal(&entry);
        self.entries.push(entry);
    }

    pub(crate) fn entries(&self) -> &[String] {
        &self.entries
    }

    /// The text with names instead of ids, hashes and cursors.
    fn normal(&mut self, text: &str) -> String {
        let mut normal = String::with_capacity(text.len());
        let mut word = String::new();
        for letter in text.chars().chain(['\n']) {
            if letter.is_ascii_alphanumeric() || letter == '-' || letter == '_' {
                word.push(letter);
                continue;
            }
            match kind(&word) {
                Some(kind) => {
                    let next = self.names.len();
                    normal += self.names.entry(std::mem::take(&mut word)).or_insert_with(|| format!("<{kind} {next}>"));
                }
                None => normal += &std::mem::take(&mut word),
            }
            normal.push(letter);
        }
        normal.pop();
        normal
    }
}

/// The kind of a word that differs between runs.
fn kind(word: &str) -> Option<&'static str> {
    let is = |length: usize, each: fn(char) -> bool| word.len() == length && word.chars().all(each);
    if is(26, |letter| letter.is_ascii_digit() || letter.is_ascii_uppercase()) {
        Some("ulid")
    } else if is(36, |letter| letter.is_ascii_hexdigit() || letter == '-') {
        Some("uuid")
    } else if is(32, |letter| letter.is_ascii_hexdigit()) {
        Some("hash")
    } else if word.len() > 60 && !word.contains(' ') {
        Some("cursor")
    } else {
        None
    }
}
