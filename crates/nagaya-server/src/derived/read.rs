//! `GET` of an item.

use axum::http::{StatusCode, header};

use crate::{
    Answer, Call, Problem,
    answer::{Content, names, tag},
};

/// Reads an item by its id; 304 if the caller has it as it is.
pub(super) async fn read(call: &Call, at: usize) -> Result<Answer, Problem> {
    let entity = &call.design().entities[at];
    let record = call.reader()?.get(&entity.name, &call.id()).await?;
    Ok(unless_known(call, record))
}

/// The item, unless the caller has it as it is.
pub(super) fn unless_known(call: &Call, record: nagaya_tenancy::Record) -> Answer {
    match call.header("if-none-match") {
        Some(known) => {
            let tag = tag(&record);
            if !names(known, &tag, true) {
                return Answer::record(record);
            }
            let mut answer = Answer::new(StatusCode::NOT_MODIFIED, Content::None);
            answer.set(header::ETAG, &tag);
            answer
        }
        None => Answer::record(record),
    }
}
