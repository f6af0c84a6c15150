//! `GET` of an item.

use axum::http::{StatusCode, header};

use crate::{
    Answer, Call, Problem,
    answer::{Content, etag_matches, tag},
    route::EntityId,
};

/// Reads an item by its id; 304 if the caller has the current version.
pub(super) async fn read(call: &Call, id: EntityId) -> Result<Answer, Problem> {
    let entity = id.entity_in(call.design());
    let record = call.read_handle()?.get(&entity.name, &call.id()).await?;
    Ok(record_or_not_modified(call, record))
}

/// The item, or 304 if the caller has the current version.
pub(super) fn record_or_not_modified(call: &Call, record: nagaya_tenancy::Record) -> Answer {
    let Some(known) = call.header("if-none-match") else { return Answer::record(record) };
    let tag = tag(&record);
    if !etag_matches(known, &tag, true) {
        return Answer::record(record);
    }
    let mut answer = Answer::new(StatusCode::NOT_MODIFIED, Content::None);
    answer.set_header(header::ETAG, &tag);
    answer
}
