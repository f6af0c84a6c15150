//! The archive of what was cooked: the months that have logs, and the logs of a month by day.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use nagaya_design::Verb;
use nagaya_server::{Answer, Call, Content, CustomRoute, Problem};
use nagaya_tenancy::{List, Record};
use serde_json::{Map, Value as Json, json};

use crate::product::items_schema;

/// The most months of one answer: each costs a read.
const MAX_MONTHS: usize = 240;
/// The logs of a page.
const MAX_LOGS: usize = 500;

pub(crate) fn routes() -> Vec<CustomRoute> {
    let months =
        json!({ "type": "array", "maxItems": MAX_MONTHS, "items": object_schema(json!({ "month": month_schema() })) });
    let date = json!({ "type": "string", "format": "date" });
    let day = object_schema(json!({ "date": date, "logs": items_schema("Cooklog") }));
    let description = "Only months before this one. An answer has at most 240 months; send its last month to get more.";
    vec![
        CustomRoute::new(Method::GET, "/archive", "The months that have cooking logs, last first.", list_months)
            .requires_permission("cooklog", Verb::Read)
            .parameter(json!({ "name": "before", "in": "query", "description": description, "schema": month_schema() }))
            .answers(200, Some(months)),
        CustomRoute::new(Method::GET, "/archive/{month}", DAYS_SUMMARY, list_days)
            .requires_permission("cooklog", Verb::Read)
            .parameter(json!({ "name": "cursor", "in": "query", "description": CURSOR_DESCRIPTION, "schema": { "type": "string" } }))
            .answers(200, Some(json!({ "type": "array", "items": day }))),
    ]
}

const DAYS_SUMMARY: &str = "The cooking logs of a month (`2026-02`) by day. A page has at most 500 logs: the last day of a page may \
                            continue as the first day of the next one.";
const CURSOR_DESCRIPTION: &str = "The `nextCursor` of the page before.";

/// The months that have logs. Each one takes one read: of the last log before the next month.
async fn list_months(call: Arc<Call>) -> Result<Answer, Problem> {
    let mut before = call.query_parameter("before").map(str::to_owned);
    if before.as_deref().is_some_and(|month| !is_month(month)) {
        return Err(Problem::bad_parameter("before", "Has to be a month such as `2026-02`."));
    }
    let tenant = call.tenant()?;

    let mut months = Vec::new();
    while months.len() < MAX_MONTHS {
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
async fn list_days(call: Arc<Call>) -> Result<Answer, Problem> {
    let month = call.path_parameter("month").filter(|month| is_month(month)).ok_or_else(Problem::not_found)?;
    let list = List::by("cooklogs_between").with("from", format!("{month}-01")).limit(MAX_LOGS);
    let list = next_month(month).into_iter().fold(list, |list, next| list.with("to", format!("{next}-01")));
    let list = call.query_parameter("cursor").into_iter().fold(list, List::cursor);
    let page = call.tenant()?.list(&list).await?;

    let days = page.records.chunk_by(|one, other| one.text("date") == other.text("date"));
    let day = |logs: &[Record]| {
        let date = logs.first().and_then(|log| log.text("date"));
        let logs: Vec<Map<String, Json>> = logs.iter().map(Record::to_json).collect();
        json!({ "date": date, "logs": logs })
    };
    Ok(Answer::new(StatusCode::OK, Content::List(days.map(day).collect(), page.next)))
}

/// The month after this one, if there is one.
fn next_month(month: &str) -> Option<String> {
    let (year, month) = month.split_once('-')?;
    let (year, month): (u16, u8) = (year.parse().ok()?, month.parse().ok()?);
    let (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    (year <= 9_999).then(|| format!("{year:04}-{month:02}"))
}

/// Whether a text is a month, `2026-02`.
fn is_month(text: &str) -> bool {
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-')
        .is_some_and(|(year, month)| digits(year, 4) && digits(month, 2) && ("01"..="12").contains(&month))
}

fn month_schema() -> Json {
    json!({ "type": "string", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$" })
}

fn object_schema(properties: Json) -> Json {
    let required: Vec<_> = properties.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_month_follows_across_years() {
        for (month, next) in [
            ("2026-02", Some("2026-03")),
            ("0999-12", Some("1000-01")),
            ("9998-12", Some("9999-01")),
            ("9999-12", None),
        ] {
            assert_eq!(next_month(month).as_deref(), next, "{month}");
        }
    }

    #[test]
    fn only_months_are_accepted() {
        let check = |text, expected| assert_eq!(is_month(text), expected, "{text}");
        check("2026-02", true);
        check("0001-12", true);
        for wrong in ["2026-13", "2026-00", "2026-2", "2026-02-09", "26-02", "2026", "", "-", "+026-02", "２０２６-02"]
        {
            check(wrong, false);
        }
    }
}
