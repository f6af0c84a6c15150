//! The archive of what was cooked: the months that have logs, and the logs of a month by day.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_server::{Answer, Call, CustomRoute, Problem};
use nagaya_tenancy::{Error, List, Record, Tenant};
use serde_json::{Map, Value as Json, json};

use crate::product::items_schema;

/// The most months of one answer: each costs a read.
const MAX_MONTHS: usize = 240;
/// The logs of one answer: it ends with the day of the last of them.
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
            .parameter(json!({ "name": "after", "in": "query", "description": AFTER_DESCRIPTION, "schema": date }))
            .answers(200, Some(json!({ "type": "array", "items": day }))),
    ]
}

const DAYS_SUMMARY: &str = "The cooking logs of a month (`2026-02`) by day. An answer ends after the day of the 500th log; get the \
                            following days with `after`.";
const AFTER_DESCRIPTION: &str = "Only days of the month after this one. Send the last day of an answer to get the next days, until the answer is empty.";

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
    let first = match call.query_parameter("after") {
        None => format!("{month}-01"),
        Some(after) if !is_date(&call, after) => {
            return Err(Problem::bad_parameter("after", "Has to be a day, such as `2026-02-09`."));
        }
        Some(after) => match after.strip_prefix(month).and_then(|day| day.strip_prefix('-')?.parse::<u8>().ok()) {
            Some(day) => format!("{month}-{:02}", day.saturating_add(1)),
            None if after < month => format!("{month}-01"),
            // No day of this month is after that day.
            None => return Ok(Answer::data(json!([]))),
        },
    };
    // The day after the last day of a month is no date.
    let logs = if is_date(&call, &first) { read_logs(&call.tenant()?, month, &first).await? } else { Vec::new() };

    let days = logs.chunk_by(|one, other| one.text("date") == other.text("date"));
    let day = |logs: &[Record]| {
        let date = logs.first().and_then(|log| log.text("date"));
        let logs: Vec<Map<String, Json>> = logs.iter().map(Record::to_json).collect();
        json!({ "date": date, "logs": logs })
    };
    Ok(Answer::data(days.map(day).collect()))
}

/// The logs of a month from a day on: up to the limit, and the rest of the last day.
async fn read_logs(tenant: &Tenant, month: &str, first: &str) -> Result<Vec<Record>, Error> {
    let list = List::by("cooklogs_between").with("from", first).limit(MAX_LOGS);
    let list = next_month(month).into_iter().fold(list, |list, next| list.with("to", format!("{next}-01")));
    let mut logs: Vec<Record> = Vec::new();
    let mut cursor = None;
    loop {
        let page = tenant.list(&cursor.into_iter().fold(list.clone(), List::cursor)).await?;
        logs.extend(page.records);
        let last = logs.get(MAX_LOGS - 1).and_then(|log| log.text("date")).map(str::to_owned);
        let before = logs.len();
        logs.retain(|log| {
            let date = log.text("date").unwrap_or_default();
            last.as_deref().is_none_or(|last| date <= last)
        });
        cursor = page.next;
        // Logs of another day are not needed.
        if cursor.is_none() || logs.len() < before {
            return Ok(logs);
        }
    }
}

/// The month after this one, if there is one.
fn next_month(month: &str) -> Option<String> {
    let (year, month) = month.split_once('-')?;
    let (year, month): (u16, u8) = (year.parse().ok()?, month.parse().ok()?);
    let (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    (year <= 9_999).then(|| format!("{year:04}-{month:02}"))
}

fn is_date(call: &Call, text: &str) -> bool {
    let field = call.design().entity("cooklog").and_then(|log| log.field("date"));
    field.is_none_or(|field| field.accepts(&text.into()))
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
        for (month, next) in [("2026-02", Some("2026-03")), ("0999-12", Some("1000-01")), ("9999-12", None)] {
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
