//! The clients: writers that know what each of their todos has to be, and a reader that walks through the lists.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use serde_json::{Value as Json, json};

use crate::{Count, Soak};

/// The longest pause of a writer between two commands.
const PAUSE_MILLIS: u64 = 20;

/// How often things have happened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) commands: Count,
    pub(crate) repeated: Count,
    pub(crate) walks: Count,
    pub(crate) ends: Count,
    pub(crate) rebuilds: Count,
    pub(crate) unknown_events: Count,
    pub(crate) dropped: Count,
}

impl Counts {
    pub(crate) fn add(&self, count: &Count, number: u64) {
        count.fetch_add(number, Ordering::Relaxed);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [commands, repeated, walks, ends, rebuilds, unknown, dropped] = [
            &self.commands,
            &self.repeated,
            &self.walks,
            &self.ends,
            &self.rebuilds,
            &self.unknown_events,
            &self.dropped,
        ]
        .map(|count| count.load(Ordering::Relaxed));
        write!(
            f,
            "{commands} commands ({repeated} sent again), {walks} walks through the list, {ends} kills and stops, \
             {rebuilds} generations switched, {unknown} unknown events, {dropped} dropped"
        )
    }
}

impl Soak {
    /// The status and the body of an answer; `None` if there was none.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Json>,
        headers: &[(&str, &str)],
    ) -> Option<(u16, Json)> {
        let (api, token) = self.api.read().expect("no panic").clone();
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{api}{path}"));
        request = request.header("authorization", format!("Bearer {token}"));
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.map(Json::to_string).unwrap_or_default()).expect("a request");
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let agent = ureq::Agent::new_with_config(config.timeout_global(Some(Duration::from_secs(30))).build());
        let mut response = agent.run(request).ok()?;
        let text = response.body_mut().read_to_string().ok()?;
        Some((response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Json::String(text))))
    }

    /// Reads something, as often as the server has too much to do.
    fn read(&self, path: &str) -> (u16, Json) {
        loop {
            match self.send("GET", path, None, &[]).expect("the server answers") {
                (429 | 503, _) => thread::sleep(Duration::from_millis(20)),
                answer => return answer,
            }
        }
    }

    /// Sends a request until a server answers that it was done. The idempotency key makes it happen once.
    fn send_until_done(&self, method: &str, path: &str, body: Option<&Json>, headers: &[(&str, &str)]) -> Json {
        let start = Instant::now();
        for attempt in 0_u32.. {
            match self.send(method, path, body, headers) {
                Some((200..=299, answer)) => {
                    self.counts.add(&self.counts.commands, 1);
                    self.counts.add(&self.counts.repeated, u64::from(attempt > 0));
                    return answer;
                }
                // There is no server, it stops, or it has much to do.
                None | Some((429 | 503, _)) => {}
                Some((status, answer)) => panic!("{method} {path} {body:?} {headers:?}: {status} {answer}"),
            }
            assert!(start.elapsed() < Duration::from_secs(300), "{method} {path}: nobody answers");
            thread::sleep(Duration::from_millis(20));
        }
        unreachable!("the attempts do not end")
    }
}

/// What a todo has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    title: String,
    completed: bool,
    version: u64,
    is_deleted: bool,
}

/// A client that changes todos of its own.
pub(crate) struct Writer {
    todos: BTreeMap<String, Known>,
}

impl Writer {
    /// Creates and changes todos until the soak is over.
    pub(crate) fn run(soak: &Soak, mut random: Rng) -> Self {
        let mut writer = Writer { todos: BTreeMap::new() };
        while !soak.is_over() {
            let key = format!("{:032x}", random.u128(..));
            let title = format!("title {}", random.u32(..));
            let alive: Vec<_> = writer.todos.iter().filter(|(_, known)| !known.is_deleted).map(|(id, _)| id).collect();
            if alive.len() < 5 || alive.len() < 30 && random.u8(0..4) == 0 {
                writer.create(soak, &key, title);
            } else {
                let id = alive[random.usize(..alive.len())].clone();
                writer.change(soak, &key, &id, title, random.u8(0..8));
            }
            thread::sleep(Duration::from_millis(random.u64(0..PAUSE_MILLIS)));
        }
        writer
    }

    fn create(&mut self, soak: &Soak, key: &str, title: String) {
        let headers = [("idempotency-key", key)];
        let made = soak.send_until_done("POST", "/todos", Some(&json!({ "title": title })), &headers);
        let id = made["data"]["todoId"].as_str().expect("an id").to_owned();
        assert_eq!(made["data"]["version"], 1, "{made}");
        let before = self.todos.insert(id, Known { title, completed: false, version: 1, is_deleted: false });
        assert_eq!(before, None, "one id for two todos");
    }

    fn change(&mut self, soak: &Soak, key: &str, id: &str, title: String, choice: u8) {
        let known = self.todos.get_mut(id).expect("it is known");
        let tag = format!("\"v{}\"", known.version);
        let (path, headers) = (format!("/todos/{id}"), [("idempotency-key", key), ("if-match", tag.as_str())]);
        known.version += 1;
        let body = match choice {
            0 => {
                known.is_deleted = true;
                soak.send_until_done("DELETE", &path, None, &headers);
                return;
            }
            1..4 => {
                known.completed = !known.completed;
                json!({ "completed": known.completed })
            }
            _ => {
                known.title.clone_from(&title);
                json!({ "title": title })
            }
        };
        let changed = soak.send_until_done("PATCH", &path, Some(&body), &headers);
        assert_eq!(changed["data"]["version"], known.version, "{changed}");
    }

    /// Checks that the projection and the history have what was acknowledged, and nothing else.
    pub(crate) fn check(&self, soak: &Soak) {
        for (id, known) in &self.todos {
            let (status, found) = soak.read(&format!("/todos/{id}"));
            if known.is_deleted {
                assert_eq!(status, 404, "{id}: {found}");
            } else {
                assert_eq!(status, 200, "{id}: {found}");
                let found = &found["data"];
                let found = (&found["title"], &found["completed"], &found["version"]);
                assert_eq!(found, (&json!(known.title), &json!(known.completed), &json!(known.version)), "{id}");
            }
            let history = soak.read(&format!("/todos/{id}/history?limit=100")).1;
            let versions: Vec<u64> = history["data"]
                .as_array()
                .unwrap_or_else(|| panic!("{id}: {history}"))
                .iter()
                .map(|event| event["aggregateVersion"].as_u64().expect("a number"))
                .collect();
            let expected: Vec<u64> = (1..=known.version.min(100)).collect();
            assert_eq!(versions, expected, "{id}");
        }
    }
}

/// Walks through the list of all todos, page by page. A todo that one walk has found is in the next one, once, unless it was deleted.
pub(crate) fn read_lists(soak: &Soak) {
    let mut before: BTreeSet<String> = BTreeSet::new();
    while !soak.is_over() {
        let Some(found) = walk(soak) else { continue };
        for missed in before.difference(&found) {
            let answer = soak.send("GET", &format!("/todos/{missed}"), None, &[]);
            // The event of its deletion is stored, whatever the projection shows.
            let is_wrong = answer.is_some_and(|(status, _)| status == 200);
            assert!(!is_wrong, "a walk has missed {missed}");
        }
        soak.counts.add(&soak.counts.walks, 1);
        before = found;
    }
}

/// The todos of a walk; `None` if the server ended meanwhile for good.
fn walk(soak: &Soak) -> Option<BTreeSet<String>> {
    let (mut found, mut cursor) = (BTreeSet::new(), None);
    loop {
        let next = cursor.as_ref().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        match soak.send("GET", &format!("/todos?status=all&limit=10{next}"), None, &[]) {
            Some((200, page)) => {
                for todo in page["data"].as_array().expect("a list") {
                    let id = todo["todoId"].as_str().expect("an id").to_owned();
                    assert!(found.insert(id.clone()), "a walk has found {id} twice");
                }
                match page["nextCursor"].as_str() {
                    Some(next) => cursor = Some(next.to_owned()),
                    None => return Some(found),
                }
            }
            None | Some((429 | 503, _)) if soak.is_over() => return None,
            None | Some((429 | 503, _)) => thread::sleep(Duration::from_millis(20)),
            Some((status, answer)) => panic!("a page of the list: {status} {answer}"),
        }
    }
}
