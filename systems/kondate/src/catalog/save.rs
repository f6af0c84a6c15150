//! Saving: a copy among the user's own items of what the list needs. It is counted later, by what follows the changes.

use std::sync::Arc;

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Content, Problem};
use nagaya_tenancy::{Expected, Record, Retry};
use serde_json::{Map, Value as Json};

use super::{Kind, counts::Publication};
use crate::product::is_lost_race;

/// Saves something of the catalog. What is saved already stays as it is, unless it has been published anew since.
pub(super) async fn save(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let names = kind.names();
    // It is in the catalog, and not only in an index that has not heard yet.
    let found = call.list(names.by_id, &[]).await?.records.into_iter().next().ok_or_else(Problem::not_found)?;
    let key = found.id();
    let key: Vec<_> = key.iter().map(String::as_str).collect();
    let copy = tenant.get(names.catalog, &key).await?;

    let wanted = kept(&copy);
    let id = call.parameter(names.id).unwrap_or_default();
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let there = tenant.get_many(&[(names.saved, &[id])]).await?.into_iter().next().flatten();
        let written = match there {
            Some(there) if Publication::saved(kind, &there) == Publication::copy(kind, &copy) => {
                return Ok(Answer::record(there));
            }
            Some(there) => tenant.update(names.saved, &[id], wanted.clone(), &there).await,
            None => {
                let mut fields = wanted.clone();
                fields.insert(names.id.to_owned(), id.into());
                tenant.create(names.saved, fields).await
            }
        };
        match written {
            Ok(record) => return Ok(Answer::record(record)),
            Err(error) if is_lost_race(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Saves something no longer; fine also if it was not saved.
pub(super) async fn unsave(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    let names = kind.names();
    let id = call.parameter(names.id).unwrap_or_default();
    let mut problems = Vec::new();
    if let Some(field) = call.design().entity(names.saved).and_then(|saved| saved.field(names.id)) {
        field.check(&id.into(), names.id, &mut problems);
    }
    // What cannot be an id leads nowhere.
    if !problems.is_empty() {
        return Err(Problem::not_found());
    }
    match call.tenant()?.delete(names.saved, &[id], Expected::Any).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Answer::new(StatusCode::NO_CONTENT, Content::None)),
    }
}

/// What is kept of a copy.
fn kept(copy: &Record) -> Map<String, Json> {
    let kept =
        [("creatorId", "creatorId"), ("createdAt", "catalogCreatedAt"), ("title", "title"), ("imageUrl", "imageUrl")];
    kept.map(|(from, to)| (to.to_owned(), copy.json(from).unwrap_or_default())).into_iter().collect()
}
