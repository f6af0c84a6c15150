//! What an attacker does, and what the attacker observes.

use std::fmt::Write as _;

use nagaya_design::{Design, Entity};
use serde_json::{Map, Value as Json};

use super::{environment::OwnedItem, gateway::UNSUPPORTED, json};
use nagaya_tenancy::{Error, ErrorKind, List, Page, Record, Tenant};

/// An action of an attacker.
#[derive(Debug, Clone)]
pub enum Action {
    /// An item of an entity by its id.
    Get(String, Vec<String>),
    /// Several at once.
    GetMany(Vec<(String, Vec<String>)>),
    /// A list with its next pages.
    List(List),
    /// A new item of an entity.
    Create(String, Map<String, Json>),
    /// A change of an item by a merge patch, with the expected version.
    Update(String, Vec<String>, Map<String, Json>, Option<i64>),
    /// A deletion.
    Delete(String, Vec<String>, Option<i64>),
    /// Changes that happen together.
    Set(Vec<Action>),
    /// A call of a further route with the values of its path, and a body.
    Call(FurtherRoute, Vec<String>, Option<Map<String, Json>>),
}

/// A route that a gateway has besides those of the design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FurtherRoute {
    /// The method.
    pub method: String,
    /// The path, with `{name}` for its parameters.
    pub path: String,
    /// The names of its parameters, in order.
    pub parameters: Vec<String>,
    /// An example of its body; `None`: it takes none.
    pub body: Option<Map<String, Json>>,
}

/// How many pages of a list are read.
pub const MAX_PAGES: usize = 4;

impl Action {
    /// Whether it would write entries of the audit, which nobody can.
    pub(super) fn writes_audit(&self, design: &Design) -> bool {
        let is_audit = |name: &str| design.entity(name).is_some_and(|entity| design.holds_audit_entries(entity));
        match self {
            Action::Create(entity, _) | Action::Update(entity, ..) | Action::Delete(entity, ..) => is_audit(entity),
            Action::Set(actions) => actions.iter().any(|action| action.writes_audit(design)),
            Action::Get(..) | Action::GetMany(_) | Action::List(_) | Action::Call(..) => false,
        }
    }

    pub(super) fn get(entity: &str, id: &[String]) -> Self {
        Action::Get(entity.to_owned(), id.to_vec())
    }

    /// Creates an item of an entity, with a value at a path beside these fields.
    pub(super) fn create_with(entity: &Entity, fields: &Map<String, Json>, path: &str, value: Json) -> Self {
        let mut fields = fields.clone();
        json::set_at_path(&mut fields, path, value);
        Action::Create(entity.name.clone(), fields)
    }

    pub(super) fn update(entity: &str, id: &[String], patch: Map<String, Json>) -> Self {
        Action::Update(entity.to_owned(), id.to_vec(), patch, None)
    }

    /// Sets the value at a path of an item.
    pub(super) fn set(item: &OwnedItem, path: &str, value: Json) -> Self {
        let mut patch = Map::new();
        json::set_at_path(&mut patch, path, value);
        Action::update(&item.entity, &item.id, patch)
    }

    pub(super) fn delete(entity: &str, id: &[String]) -> Self {
        Action::Delete(entity.to_owned(), id.to_vec(), None)
    }

    /// Performs it, and records the answer.
    pub(super) async fn perform(&self, tenant: &Tenant) -> Observation {
        match self {
            Action::Get(entity, id) => {
                Observation::from_answer(tenant.get(entity, &texts(id)).await.map(|found| record(&found)))
            }
            Action::GetMany(wanted) => {
                let ids: Vec<Vec<&str>> = wanted.iter().map(|(_, id)| texts(id)).collect();
                let asked: Vec<(&str, &[&str])> =
                    wanted.iter().zip(&ids).map(|((entity, _), id)| (entity.as_str(), id.as_slice())).collect();
                Observation::from_answer(tenant.get_many(&asked).await.map(|found| records(&found)))
            }
            Action::List(list) => list_all_pages(tenant, list).await,
            Action::Create(entity, fields) => {
                Observation::from_answer(tenant.create(entity, fields.clone()).await.map(|made| record(&made)))
            }
            Action::Update(entity, id, patch, expected) => {
                let changed = tenant.update(entity, &texts(id), patch.clone(), *expected).await;
                Observation::from_answer(changed.map(|changed| record(&changed)))
            }
            Action::Delete(entity, id, expected) => {
                Observation::from_answer(tenant.delete(entity, &texts(id), *expected).await.map(|()| "gone".to_owned()))
            }
            Action::Set(actions) => {
                let set = actions.iter().fold(tenant.change_set(), |set, action| match action {
                    Action::Create(entity, fields) => set.create(entity, fields.clone()),
                    Action::Update(entity, id, patch, expected) => {
                        set.update(entity, &texts(id), patch.clone(), *expected)
                    }
                    Action::Delete(entity, id, expected) => set.delete(entity, &texts(id), *expected),
                    _ => set,
                });
                Observation::from_answer(set.commit().await.map(|made| records(&made)))
            }
            Action::Call(..) => Observation { code: UNSUPPORTED.to_owned(), text: String::new() },
        }
    }
}

/// All that can be seen of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The code of the error; `ok` without one.
    pub code: String,
    /// The rest: values, cursors, texts.
    pub text: String,
}

impl Observation {
    pub(super) fn from_answer(answer: Result<String, Error>) -> Self {
        match answer {
            Ok(text) => Observation { code: "ok".to_owned(), text },
            Err(error) => {
                let mut text = format!("{error} / {error:?}");
                if let ErrorKind::VersionConflict { current } = error.kind() {
                    text += &record(current);
                }
                Observation { code: error.code().to_owned(), text }
            }
        }
    }
}

/// All pages of a list, as far as they go.
async fn list_all_pages(tenant: &Tenant, list: &List) -> Observation {
    let mut text = String::new();
    let mut asked = list.clone();
    for _ in 0..MAX_PAGES {
        match tenant.list(&asked).await {
            Ok(page) => {
                text += &page_text(&page);
                match page.next {
                    Some(next) => asked = list.clone().cursor(next),
                    None => return Observation { code: "ok".to_owned(), text },
                }
            }
            Err(error) => {
                let failed = Observation::from_answer(Err(error));
                return Observation { code: failed.code, text: text + &failed.text };
            }
        }
    }
    Observation { code: "ok".to_owned(), text }
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
