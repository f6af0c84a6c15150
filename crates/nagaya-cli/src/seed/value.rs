//! Values by the type and the name of a field.

use nagaya_design::{DefaultValue, Field, FieldType, TimestampPrecision};
use nagaya_seed::DAY_MILLIS;
use nagaya_tenancy::IdGenerator;
use serde_json::{Map, Value as Json, json};

use super::{
    item::{ItemBuilder, is_set_by_tenancy},
    links::words,
    text,
    words::WORDS,
};

/// Final states.
const FINAL_STATES: [&str; 12] = [
    "done",
    "completed",
    "closed",
    "succeeded",
    "success",
    "failed",
    "cancelled",
    "canceled",
    "resolved",
    "approved",
    "rejected",
    "refunded",
];

/// Whether a value fits a field.
pub(super) fn fits(field: &Field, value: &Json) -> bool {
    field.accepts(value)
}

fn has_word(words: &[String], any: &[&str]) -> bool {
    words.iter().any(|word| any.contains(&word.as_str()))
}

impl ItemBuilder<'_> {
    /// Whether the item has an optional field, judged by its states.
    pub(super) fn has(&mut self, field: &Field) -> bool {
        let entity = self.task.entity;
        let mut former = entity.former_keys.iter().flat_map(|key| key.partition.fields().chain(key.sort.fields()));
        if former.any(|path| path == field.name) {
            return false;
        }
        let words = words(&field.name);
        let status = ["status", "state"].into_iter().find_map(|name| self.fields.get(name)?.as_str());
        let has_status = status.is_some();
        let is_over = status.is_some_and(|status| FINAL_STATES.contains(&status));
        if let [stem @ .., last] = words.as_slice()
            && last == "at"
            && let Some(truth) = self.flag_value(&stem.concat())
        {
            return truth;
        }
        if has_word(&words, &["error", "failure"]) {
            return self.fields.values().any(|value| value == "failed" || value == "error");
        }
        if has_word(
            &words,
            &["completed", "finished", "closed", "resolved", "ended", "review", "reviewed", "approved", "duration"],
        ) && has_status
        {
            return is_over;
        }
        if self.names_tenant(&words) && has_status {
            return status == Some("approved");
        }
        self.rng.chance(if is_future_time(&words) { 40 } else { 75 })
    }

    /// The flag of the item for a word: `read` is `read` or `isRead`.
    fn flag_value(&self, word: &str) -> Option<bool> {
        let is = |name: &String| words(name).concat() == word || words(name).concat() == format!("is{word}");
        self.fields.iter().find(|(name, _)| is(name))?.1.as_bool()
    }

    /// A value that fits a field; `None` if none is found.
    pub(super) fn value(&mut self, field: &Field) -> Option<Json> {
        let value = self.named(field, &words(&field.name))?;
        if fits(field, &value) {
            return Some(value);
        }
        Some(field.example()).filter(|value| fits(field, value))
    }

    /// A value by the words of the field's name, or of the list that contains it.
    fn named(&mut self, field: &Field, words: &[String]) -> Option<Json> {
        Some(match &field.field_type {
            FieldType::String if field.default == Some(DefaultValue::New) => self.id(field),
            FieldType::String if !field.choices().is_empty() => self.choice(field),
            FieldType::String => self
                .repeated(field, words)
                .or_else(|| self.linked(field))
                .or_else(|| text::text(self, field, words).map(Json::from))?,
            FieldType::Ulid | FieldType::Uuid => self.linked(field).unwrap_or_else(|| self.id(field)),
            FieldType::Boolean => self.flag(field, words),
            FieldType::Integer => self.integer(field, words),
            FieldType::Number => self.number(field, words),
            FieldType::Timestamp(_) | FieldType::Date => field.timestamp_value(self.instant(field, words))?,
            FieldType::List(element) => self.list(field, element.as_deref(), words)?,
            FieldType::Map(fields) if !fields.is_empty() => self.map(fields)?,
            FieldType::Map(_) => self.free(field, words),
            FieldType::Any => json!(text::sentence(&mut self.rng)),
        })
    }

    /// A new id that holds the item's time.
    fn id(&mut self, field: &Field) -> Json {
        let bits = if is_set_by_tenancy(self.task.entity, field) { self.bits } else { self.rng.bits() };
        let ids = IdGenerator::new(move || bits);
        let id = match field.field_type {
            FieldType::Uuid => ids.uuid(self.moment),
            _ => ids.ulid(self.moment),
        };
        format!("{}{id}", field.prefix()).into()
    }

    /// A value of another item, for a field in a map or list, or one whose entity another field names.
    fn linked(&mut self, field: &Field) -> Option<Json> {
        let link = self.task.links.get(&field.name).map(|link| (link.entity.clone(), link.field.clone()));
        let (entity, name) = link.or_else(|| self.entity_from_type_field(field))?;
        let known = self.state.known(&entity, self.tenant);
        let value = self.one_of(known)?.fields.get(&name)?;
        fits(field, value).then(|| value.clone())
    }

    /// A value that repeats one of the linked item: `setTitle` beside `setId`.
    fn repeated(&self, field: &Field, words: &[String]) -> Option<Json> {
        let (last, stem) = words.split_last()?;
        let id = format!("{}id", stem.concat());
        let (_, other) = self.chosen.iter().find(|(name, _)| !stem.is_empty() && name.to_lowercase() == id)?;
        other.fields.get(last).filter(|value| fits(field, value)).cloned()
    }

    /// The entity of an id, where another field names it: `targetType = "RECIPE"` beside `targetId`.
    fn entity_from_type_field(&self, field: &Field) -> Option<(String, String)> {
        let kind = self.fields.get(&format!("{}Type", field.name.strip_suffix("Id")?))?.as_str()?.to_lowercase();
        let id = self.state.design.entity(&kind)?.id_fields().first()?.to_string();
        Some((kind, id))
    }

    fn choice(&mut self, field: &Field) -> Json {
        let deleted = self.deleted(field);
        let choices: Vec<&String> =
            field.choices().iter().filter(|choice| deleted.as_ref() != Some(&json!(choice))).collect();
        if self.task.entity.is_key_field(&field.name) {
            return choices
                .get((self.n + self.attempt) % choices.len().max(1))
                .map_or(Json::Null, |choice| json!(choice));
        }
        // Mostly the default.
        if let Some(DefaultValue::Constant(usual)) = &field.default
            && self.rng.chance(40)
        {
            return usual.clone();
        }
        self.rng.pick(&choices).map_or(Json::Null, |choice| json!(choice))
    }

    fn flag(&mut self, field: &Field, words: &[String]) -> Json {
        if let Some(Json::Bool(deleted)) = self.deleted(field) {
            return (!deleted).into();
        }
        if has_word(words, &["privileged", "admin", "deleted", "archived", "cancel"]) {
            return false.into();
        }
        // A disabled user would be a poor example.
        if has_word(words, &["enabled", "active"]) && field.default == Some(DefaultValue::Constant(Json::Bool(true))) {
            return true.into();
        }
        let usual = field.default != Some(DefaultValue::Constant(Json::Bool(false)));
        self.rng.chance(if usual { 85 } else { 30 }).into()
    }

    /// The value of a field in deleted items, which no new item has.
    fn deleted(&self, field: &Field) -> Option<Json> {
        let mark = self.task.entity.soft_delete.as_ref()?.mark.as_ref()?;
        (mark.0 == field.name).then(|| mark.1.clone())
    }

    fn integer(&mut self, field: &Field, words: &[String]) -> Json {
        let (least, most) = (field.range.0.map_or(0, |least| least as i64), field.range.1.map(|most| most as i64));
        let n = i64::try_from(self.n + self.attempt * 1_000).unwrap_or(0);
        let last = words.last().map_or("", String::as_str);
        let counts_others = || {
            words.first().is_some_and(|word| self.state.design.entities.iter().any(|each| each.name.ends_with(word)))
        };
        let value = match last {
            _ if self.is_identifying(field) => least.saturating_add(n),
            "price" if field.default.is_some() && self.rng.chance(50) => return field.example(),
            "price" | "amount" | "total" | "cost" | "fee" => self.rng.between(1, 40) * 100,
            "position" | "order" | "number" | "index" => least.saturating_add(n),
            "rating" | "stars" => self.rng.between(3, 5),
            "servings" | "serves" | "size" if most.is_some_and(|most| most <= 100) => self.rng.between(1, 6),
            "minutes" => self.rng.between(1, 18) * 5,
            "size" | "bytes" | "bandwidth" => self.rng.between(1_000, 5_000_000),
            "code" if has_word(words, &["status"]) => {
                *self.rng.pick(&[200, 200, 200, 200, 201, 204, 400, 404, 500]).unwrap_or(&200)
            }
            "time" | "duration" | "latency" => self.rng.between(5, 900),
            "month" => self.rng.between(1, 12),
            "year" => self.rng.between(2027, 2031),
            "days" => *self.rng.pick(&[7, 14, 30, 90, 365]).unwrap_or(&30),
            "count" if counts_others() => least,
            "count" | "calls" | "views" | "up" => self.rng.between(0, 500),
            "age" => self.rng.between(18, 80),
            "quantity" | "version" => self.rng.between(1, 5),
            _ => match (&field.default, most) {
                (_, Some(most)) if most.saturating_sub(least) <= 10 => self.rng.between(least, most),
                (Some(DefaultValue::Constant(usual)), _) => return usual.clone(),
                _ => least.saturating_add(self.rng.between(0, 100)),
            },
        };
        value.clamp(least, most.unwrap_or(i64::MAX)).into()
    }

    fn number(&mut self, field: &Field, words: &[String]) -> Json {
        let (least, most) = field.range;
        let value = match words.last().map_or("", String::as_str) {
            "amount" | "quantity" => *self.rng.pick(&[0.5, 1.0, 2.0, 3.0, 50.0, 100.0, 200.0, 300.0]).unwrap_or(&1.0),
            "price" | "cost" | "total" => self.rng.between(100, 99_900) as f64 / 100.0,
            "time" => self.rng.between(50, 4_000) as f64 / 10.0,
            "latitude" => self.rng.between(30_000, 45_000) as f64 / 1_000.0,
            "longitude" => self.rng.between(129_000, 145_000) as f64 / 1_000.0,
            _ => self.rng.between(0, 1_000) as f64 / 10.0,
        };
        let value = value.max(least.unwrap_or(f64::MIN)).min(most.unwrap_or(f64::MAX));
        // A whole number is written as one.
        if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
    }

    /// A time in the past or in the future.
    fn instant(&mut self, field: &Field, words: &[String]) -> i64 {
        let (state, moment) = (self.state, self.moment);
        let since = (state.until - moment).max(0);
        let expires = state.design.table_of(self.task.entity).ttl.as_deref() == Some(field.name.as_str());
        if expires || is_future_time(words) {
            return state.today.max(state.until) + self.rng.between(DAY_MILLIS, 60 * DAY_MILLIS);
        }
        if has_word(words, &["due", "before"]) {
            return state.until + self.rng.between(-5, 30) * DAY_MILLIS;
        }
        if is_after_creation(words) {
            return moment + self.rng.between(0, since);
        }
        if matches!(field.field_type, FieldType::Timestamp(TimestampPrecision::Epoch)) && !has_word(words, &["created"])
        {
            return state.today.max(state.until) + self.rng.between(DAY_MILLIS, 60 * DAY_MILLIS);
        }
        moment
    }

    fn list(&mut self, field: &Field, element: Option<&Field>, words: &[String]) -> Option<Json> {
        let count = usize::try_from(self.rng.between(1, 4))
            .unwrap_or(1)
            .clamp(field.min_elements, field.max_size.max(field.min_elements));
        let mut values: Vec<Json> = Vec::with_capacity(count);
        for _ in 0..count {
            let value = match element {
                Some(element) => self.named(element, words).filter(|value| fits(element, value))?,
                None => json!(text::sentence(&mut self.rng)),
            };
            // No value twice, unless more are needed than there are.
            if values.len() < field.min_elements || !values.contains(&value) {
                values.push(value);
            }
        }
        Some(values.into())
    }

    fn map(&mut self, fields: &[Field]) -> Option<Json> {
        let mut values = Map::new();
        let food = WORDS.foods[self.rng.below(WORDS.foods.len())];
        let linked = fields.iter().find_map(|field| self.task.links.get(&field.name)).map(|link| link.entity.clone());
        let other = linked.and_then(|entity| self.one_of(self.state.known(&entity, self.tenant)));
        for field in fields {
            if field.optional && !self.rng.chance(70) {
                continue;
            }
            // Values repeat those of the linked item; a food has its own unit.
            let said = match field.name.as_str() {
                name if other.is_some_and(|other| other.fields.contains_key(name)) => other?.fields.get(name).cloned(),
                "name" if fields.iter().any(|field| field.name == "unit") => Some(food.0.into()),
                "unit" => Some(food.1.into()),
                _ => None,
            };
            let value = match said.filter(|said| fits(field, said)) {
                Some(said) => said,
                None => self.value(field)?,
            };
            values.insert(field.name.clone(), value);
        }
        Some(values.into())
    }

    /// A map that may hold anything.
    fn free(&mut self, field: &Field, words: &[String]) -> Json {
        let rng = &mut self.rng;
        let value = match words.last().map_or("", String::as_str) {
            "preferences" | "settings" | "config" => json!({
                "theme": rng.pick_word(&["light", "dark"]), "language": rng.pick_word(&["ja", "en"]), "notifications": rng.chance(70),
            }),
            "roles" | "permissions" => json!({ WORDS.roles[0]: ["*"], WORDS.roles[2]: ["*.read"] }),
            "metrics" | "usage" => json!({
                "apiCalls": rng.between(0, 20_000), "storageUsed": rng.between(0, 5_000_000_000), "bandwidth": rng.between(0, 900_000_000),
            }),
            "filters" => json!({ "senders": [self.person.email], "words": [rng.pick_word(&WORDS.tags)] }),
            "reactions" => json!({ rng.pick_word(&["👍", "🎉", "🙏"]): [self.person.handle()] }),
            "attributes" => {
                json!({ "region": rng.pick_word(&["ap-northeast-1", "eu-west-1"]), "durationMs": rng.between(3, 900) })
            }
            "attachments" => {
                json!({ "name": WORDS.files[rng.below(WORDS.files.len())].0, "size": rng.between(1_000, 900_000) })
            }
            "endpoints" => json!({ "endpoint": rng.pick_word(&WORDS.endpoints), "calls": rng.between(1, 900) }),
            "metadata" => {
                json!({ "country": rng.pick_word(&["JP", "GB", "DE"]), "source": rng.pick_word(&["web", "import", "mobile"]) })
            }
            _ => json!({ "note": text::sentence(rng) }),
        };
        if fits(field, &value) { value } else { json!({}) }
    }
}

/// Whether a time is in the future.
fn is_future_time(words: &[String]) -> bool {
    words.iter().any(|word| word.starts_with("expir"))
        || has_word(words, &["until", "next", "deadline", "valid"])
        || words.ends_with(&["period".to_owned(), "end".to_owned()])
}

/// Whether a time is after the creation of its item.
fn is_after_creation(words: &[String]) -> bool {
    const WORDS_OF_LATER_TIMES: [&str; 18] = [
        "updated",
        "modified",
        "changed",
        "completed",
        "closed",
        "edited",
        "reviewed",
        "read",
        "verified",
        "activated",
        "accessed",
        "synced",
        "used",
        "finished",
        "last",
        "deleted",
        "resolved",
        "applied",
    ];
    has_word(words, &WORDS_OF_LATER_TIMES)
}
