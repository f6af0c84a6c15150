//! What an attacker does, and everything that can be seen of the answer.

use std::fmt::Write as _;

use nagaya_design::Design;
use serde_json::{Map, Value as Json};

use nagaya_tenancy::{Error, ErrorKind, List, Page, Record, Tenant};

/// Something that an attacker asks for.
#[derive(Debug, Clone)]
pub enum Action {
    /// An item of an entity by its id.
    Get(String, Vec<String>),
    /// Several at once.
    GetMany(Vec<(String, Vec<String>)>),
    /// A list with the pages that follow.
    List(List),
    /// A new item of an entity.
    Create(String, Map<String, Json>),
    /// A change of one by a merge patch, with the version that is expected.
    Update(String, Vec<String>, Map<String, Json>, Option<i64>),
    /// One to go.
    Delete(String, Vec<String>, Option<i64>),
    /// Changes that happen together.
    Set(Vec<Action>),
}

/// As far as lists are followed.
pub const MOST_PAGES: usize = 4;

impl Action {
    /// Whether it would change what changes are written down in, which nobody can.
    pub(super) fn rewrites_audit(&self, design: &Design) -> bool {
        let is_audit = |name: &str| design.audit_entity().is_some_and(|entity| entity.name == name);
        match self {
            Action::Update(entity, ..) | Action::Delete(entity, ..) => is_audit(entity),
            Action::Set(actions) => actions.iter().any(|action| action.rewrites_audit(design)),
            Action::Get(..) | Action::GetMany(_) | Action::List(_) | Action::Create(..) => false,
        }
    }

    pub(super) fn get(entity: &str, id: &[String]) -> Self {
        Action::Get(entity.to_owned(), id.to_vec())
    }

    pub(super) fn update(entity: &str, id: &[String], patch: Map<String, Json>) -> Self {
        Action::Update(entity.to_owned(), id.to_vec(), patch, None)
    }

    pub(super) fn delete(entity: &str, id: &[String]) -> Self {
        Action::Delete(entity.to_owned(), id.to_vec(), None)
    }

    /// Does it, and writes down what came back.
    pub(super) async fn perform(&self, tenant: &Tenant) -> Seen {
        match self {
            Action::Get(entity, id) => Seen::of(tenant.get(entity, &texts(id)).await.map(|found| record(&found))),
            Action::GetMany(wanted) => {
                let ids: Vec<Vec<&str>> = wanted.iter().map(|(_, id)| texts(id)).collect();
                let asked: Vec<(&str, &[&str])> =
                    wanted.iter().zip(&ids).map(|((entity, _), id)| (entity.as_str(), id.as_slice())).collect();
                Seen::of(tenant.get_many(&asked).await.map(|found| records(&found)))
            }
            Action::List(list) => walk(tenant, list).await,
            Action::Create(entity, fields) => {
                Seen::of(tenant.create(entity, fields.clone()).await.map(|made| record(&made)))
            }
            Action::Update(entity, id, patch, expected) => {
                let changed = tenant.update(entity, &texts(id), patch.clone(), *expected).await;
                Seen::of(changed.map(|changed| record(&changed)))
            }
            Action::Delete(entity, id, expected) => {
                Seen::of(tenant.delete(entity, &texts(id), *expected).await.map(|()| "gone".to_owned()))
            }
            Action::Set(actions) => {
                let set = actions.iter().fold(tenant.set(), |set, action| match action {
                    Action::Create(entity, fields) => set.create(entity, fields.clone()),
                    Action::Update(entity, id, patch, expected) => {
                        set.update(entity, &texts(id), patch.clone(), *expected)
                    }
                    Action::Delete(entity, id, expected) => set.delete(entity, &texts(id), *expected),
                    _ => set,
                });
                Seen::of(set.commit().await.map(|made| records(&made)))
            }
        }
    }
}

/// What can be seen of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The code of the error that the walls give; `ok` without one.
    pub code: String,
    /// All else: values, cursors, texts.
    pub text: String,
}

impl Seen {
    pub(super) fn of(answer: Result<String, Error>) -> Self {
        match answer {
            Ok(text) => Seen { code: "ok".to_owned(), text },
            Err(error) => {
                let mut text = format!("{error} / {error:?}");
                if let ErrorKind::VersionConflict { current } = error.kind() {
                    text += &record(current);
                }
                Seen { code: error.code().to_owned(), text }
            }
        }
    }
}

/// All pages of a list, as far as they go.
async fn walk(tenant: &Tenant, list: &List) -> Seen {
    let mut text = String::new();
    let mut asked = list.clone();
    for _ in 0..MOST_PAGES {
        match tenant.list(&asked).await {
            Ok(page) => {
                text += &page_text(&page);
                match page.next {
                    Some(next) => asked = list.clone().cursor(next),
                    None => return Seen { code: "ok".to_owned(), text },
                }
            }
            Err(error) => {
                let failed = Seen::of(Err(error));
                return Seen { code: failed.code, text: text + &failed.text };
            }
        }
    }
    Seen { code: "ok".to_owned(), text }
}

fn page_text(page: &Page) -> String {
    let mut text = format!("page of {}, count {:?}, next {:?}\n", page.records.len(), page.count, page.next);
    for shown in &page.records {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", record(shown));
    }
    text
}

fn record(shown: &Record) -> String {
    let fields = Json::Object(shown.to_json());
    format!("{shown:?} {} {:?} {:?} {fields}", shown.entity(), shown.id(), shown.version())
}

fn records(shown: &[Option<Record>]) -> String {
    let each = |shown: &Option<Record>| shown.as_ref().map_or_else(|| "none".to_owned(), record);
    shown.iter().map(each).collect::<Vec<_>>().join("\n")
}

fn texts(id: &[String]) -> Vec<&str> {
    id.iter().map(String::as_str).collect()
}
