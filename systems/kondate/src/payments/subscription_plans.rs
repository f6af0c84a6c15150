//! The plans that users can subscribe to: settings of the operator, which no request can change.

use std::{collections::BTreeSet, fmt, sync::Arc};

use nagaya_design::FieldError;
use nagaya_server::{Answer, Problem};
use nagaya_tenancy::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

pub(super) const LIST_SUMMARY: &str = "The plans that can be subscribed to, with their prices.";
/// The longest name, as in the design.
const MAX_NAME_CHARS: usize = 50;
/// The highest price, as in the design.
const MAX_PRICE: u64 = 100_000_000;
/// The longest period: ten years.
const MAX_PERIOD_DAYS: u32 = 3_653;

/// A plan that users can subscribe to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubscriptionPlan {
    /// Its name, which callers choose it by.
    pub name: String,
    /// What a period costs, in the currency's smallest unit.
    pub price: u64,
    /// The currency, such as `JPY`.
    #[serde(default = "default_currency")]
    pub currency: String,
    /// The length of a period.
    pub period_days: u32,
    /// Whether the first period costs nothing.
    #[serde(default)]
    pub trial: bool,
}

fn default_currency() -> String {
    super::CURRENCY.to_owned()
}

/// The plans that users can subscribe to; by default none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionPlans(Arc<[SubscriptionPlan]>);

/// Why plans cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPlans(String);

impl fmt::Display for InvalidPlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidPlans {}

impl SubscriptionPlans {
    /// These plans, in this order.
    pub fn new(plans: Vec<SubscriptionPlan>) -> Result<Self, InvalidPlans> {
        let mut names = BTreeSet::new();
        for plan in &plans {
            let SubscriptionPlan { name, price, currency, period_days, trial: _ } = plan;
            let is_letter = |byte: u8| byte.is_ascii_uppercase();
            let wrong = if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
                format!("the name has to have 1 to {MAX_NAME_CHARS} characters")
            } else if !names.insert(name) {
                "there are two plans with this name".to_owned()
            } else if *price > MAX_PRICE {
                format!("`price` has to be at most {MAX_PRICE}")
            } else if currency.len() != 3 || !currency.bytes().all(is_letter) {
                "`currency` has to be three capital letters, such as `JPY`".to_owned()
            } else if !(1..=MAX_PERIOD_DAYS).contains(period_days) {
                format!("`periodDays` has to be from 1 to {MAX_PERIOD_DAYS}")
            } else {
                continue;
            };
            return Err(InvalidPlans(format!("plan `{name}`: {wrong}")));
        }
        Ok(SubscriptionPlans(plans.into()))
    }

    /// The plans in a JSON text: `[{ "name": "premium", "price": 480, "periodDays": 30 }]`; `currency` and `trial` can be
    /// left out.
    pub fn from_json(text: &str) -> Result<Self, InvalidPlans> {
        let plans =
            serde_json::from_str(text).map_err(|error| InvalidPlans(format!("not a list of plans: {error}")))?;
        SubscriptionPlans::new(plans)
    }

    /// Plans for development and tests.
    pub fn for_development() -> Self {
        let plan = |name: &str, price: u64, trial: bool| SubscriptionPlan {
            name: name.to_owned(),
            price,
            currency: default_currency(),
            period_days: 30,
            trial,
        };
        let plans = [plan("standard", 280, false), plan("premium", 480, false), plan("trial-premium", 480, true)];
        SubscriptionPlans(Arc::new(plans))
    }

    /// The plan with this name; a problem that lists the names if there is none.
    pub(super) fn find(&self, name: &str) -> Result<&SubscriptionPlan, Problem> {
        self.get(name).ok_or_else(|| {
            let message = match self.names().collect::<Vec<_>>().join(", ") {
                names if names.is_empty() => "there are no plans to subscribe to on this server".to_owned(),
                names => format!("has to be one of the plans that are offered: {names}"),
            };
            Error::from(ErrorKind::Invalid(vec![FieldError { path: "plan".to_owned(), message }])).into()
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<&SubscriptionPlan> {
        self.0.iter().find(|plan| plan.name == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|plan| plan.name.as_str())
    }

    /// The answer to a request for the plans.
    pub(super) fn answer(&self) -> Answer {
        Answer::data(json!(*self.0))
    }
}

/// The JSON Schema of a list of plans.
pub(super) fn schema() -> Json {
    let plan = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "price": { "type": "integer", "minimum": 0, "description": "Of a period, in the currency's smallest unit." },
            "currency": { "type": "string" },
            "periodDays": { "type": "integer", "minimum": 1 },
            "trial": { "type": "boolean", "description": "Whether the first period costs nothing." },
        },
        "required": ["name", "price", "currency", "periodDays", "trial"],
        "additionalProperties": false,
    });
    json!({ "type": "array", "items": plan })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_from_json() {
        let text = r#"[{ "name": "year", "price": 4800, "periodDays": 365, "currency": "EUR", "trial": true },
                       { "name": "month", "price": 480, "periodDays": 30 }]"#;
        let plans = SubscriptionPlans::from_json(text).expect("plans");
        assert_eq!(plans.names().collect::<Vec<_>>(), ["year", "month"]);
        let month = plans.get("month").expect("a plan");
        assert_eq!((month.price, month.currency.as_str(), month.trial), (480, "JPY", false));
        assert_eq!(SubscriptionPlans::from_json("[]"), Ok(SubscriptionPlans::default()));
    }

    #[test]
    fn invalid_plans_are_refused_with_a_reason() {
        let check = |text: &str, expected: &str| {
            let error = SubscriptionPlans::from_json(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        };
        check("{}", "not a list of plans");
        check(r#"[{ "name": "a", "price": -1, "periodDays": 30 }]"#, "not a list of plans");
        check(r#"[{ "name": "a", "price": 1, "periodDays": 30, "cost": 1 }]"#, "unknown field `cost`");
        check(r#"[{ "name": "a", "price": 1 }]"#, "periodDays");
        check(r#"[{ "name": "", "price": 1, "periodDays": 30 }]"#, "1 to 50 characters");
        check(r#"[{ "name": "a", "price": 100000001, "periodDays": 30 }]"#, "plan `a`: `price`");
        check(r#"[{ "name": "a", "price": 1, "periodDays": 0 }]"#, "plan `a`: `periodDays`");
        check(r#"[{ "name": "a", "price": 1, "periodDays": 3654 }]"#, "plan `a`: `periodDays`");
        check(r#"[{ "name": "a", "price": 1, "periodDays": 1, "currency": "yen" }]"#, "plan `a`: `currency`");
        let twice = r#"[{ "name": "a", "price": 1, "periodDays": 1 }, { "name": "a", "price": 2, "periodDays": 1 }]"#;
        check(twice, "two plans with this name");
    }
}
