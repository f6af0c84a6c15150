//! The archive of what was cooked: the months that have logs, and the logs of a month by day.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_server::{Answer, Call, OwnRoute, Problem};
use nagaya_tenancy::List;
use serde_json::{Map, Value as Json, json};

use crate::product::{all, items};

/// Months of one answer: each costs a read.
const MONTHS: usize = 240;

pub(crate) fn routes() -> Vec<OwnRoute> {
    let months = json!({ "type": "array", "maxItems": MONTHS, "items": object(json!({ "month": month() })) });
    let day = object(json!({ "date": { "type": "string", "format": "date" }, "logs": items("Cooklog") }));
    let description = "Only months before this one: where a list of 240 months, which is the longest, goes on.";
    vec![
        OwnRoute::new(Method::GET, "/archive", "The months that have cooking logs, last first.", list)
            .needs("cooklog", Verb::Read)
            .takes(json!({ "name": "before", "in": "query", "description": description, "schema": month() }))
            .answers(200, Some(months)),
        OwnRoute::new(Method::GET, "/archive/{month}", "The cooking logs of a month (`2026-02`), day by day.", days)
            .needs("cooklog", Verb::Read)
            .answers(200, Some(json!({ "type": "array", "items": day }))),
    ]
}

/// The months that have logs. Each is found by the last log before the month after it, however many logs there are.
async fn list(call: Arc<Call>) -> Result<Answer, Problem> {
    let mut before = call.asked("before").map(str::to_owned);
    if before.as_deref().is_some_and(|month| !is_month(month)) {
        return Err(Problem::bad_parameter("before", "Has to be a month such as `2026-02`."));
    }
    let tenant = call.tenant()?;

    let mut months = Vec::new();
    while months.len() < MONTHS {
        let last = List::by("cooklogs_between").descending(true).limit(1);
        let last = before.iter().fold(last, |last, month| last.with("to", format!("{month}-01")));
        let page = tenant.list(&last).await?;
        let Some(month) = page.records.first().and_then(|log| log.text("date")?.get(..7)) else { break };
        months.push(json!({ "month": month }));
        before = Some(month.to_owned());
    }
    Ok(Answer::data(months.into()))
}

/// The logs of a month by day.
async fn days(call: Arc<Call>) -> Result<Answer, Problem> {
    let month = call.parameter("month").filter(|month| is_month(month)).ok_or_else(Problem::not_found)?;
    let logs = all(&call.tenant()?, &List::by("cooklogs").with("date", month)).await?;

    let days = logs.chunk_by(|one, other| one.text("date") == other.text("date"));
    let day = |logs: &[nagaya_tenancy::Record]| {
        let date = logs.first().and_then(|log| log.text("date"));
        let logs: Vec<Map<String, Json>> = logs.iter().map(nagaya_tenancy::Record::to_json).collect();
        json!({ "date": date, "logs": logs })
    };
    Ok(Answer::data(days.map(day).collect()))
}

/// Whether a text is a month, `2026-02`.
fn is_month(text: &str) -> bool {
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-')
        .is_some_and(|(year, month)| digits(year, 4) && digits(month, 2) && ("01"..="12").contains(&month))
}

fn month() -> Json {
    json!({ "type": "string", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$" })
}

fn object(properties: Json) -> Json {
    let required: Vec<_> = properties.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_told_from_other_texts() {
        let check = |text, expected| assert_eq!(is_month(text), expected, "{text}");
        check("2026-02", true);
        check("0001-12", true);
        for wrong in ["2026-13", "2026-00", "2026-2", "2026-02-09", "26-02", "2026", "", "-", "+026-02", "２０２６-02"]
        {
            check(wrong, false);
        }
    }
}
