//! `GET` of the operator log.

use jiff::Timestamp;
use nagaya_tenancy::LogEntry;
use serde_json::{Value as Json, json};

use crate::{Answer, Call, Content, Problem};

/// Answers with a page of what operators did, the oldest first. Reading is an entry of the log itself.
pub(super) async fn read(call: &Call) -> Result<Answer, Problem> {
    // The caller is an operator and states a reason.
    let operator = call.operator()?;
    // The parameters are known, and each is given once.
    let (mut from, mut to, mut cursor) = (None, None, None);
    for (name, value) in &call.query {
        let given = match name.as_str() {
            "from" => from.replace(instant(name, value)?).is_some(),
            "to" => to.replace(instant(name, value)?).is_some(),
            "cursor" => cursor.replace(value.as_str()).is_some(),
            _ => return Err(Problem::bad_parameter(name, "Is not a parameter here.")),
        };
        if given {
            return Err(Problem::bad_parameter(name, "Is given twice."));
        }
    }

    let page = operator.read_log(from.unwrap_or(0), to.unwrap_or(i64::MAX), cursor).await?;
    let entries = page.entries.iter().map(log_entry_json).collect();
    Ok(Answer::new(axum::http::StatusCode::OK, Content::List(entries, page.next)))
}

/// An instant of a parameter, in milliseconds since 1970.
fn instant(name: &str, text: &str) -> Result<i64, Problem> {
    let wrong = "Has to be an instant with its offset, such as `2026-01-31T09:30:00Z`.";
    text.parse::<Timestamp>().map(Timestamp::as_millisecond).map_err(|_| Problem::bad_parameter(name, wrong))
}

/// An entry of the operator log as JSON.
pub fn log_entry_json(entry: &LogEntry) -> Json {
    let at = Timestamp::from_millisecond(entry.at).map_or_else(|_| entry.at.to_string(), |at| at.to_string());
    json!({
        "number": entry.number,
        "at": at,
        "action": entry.action,
        "operator": entry.actor,
        "issuer": entry.issuer,
        "reason": entry.reason,
        "tenant": entry.tenant,
        "target": entry.target,
        "changes": entry.changes,
        "requestId": entry.request,
        "address": entry.address,
    })
}
