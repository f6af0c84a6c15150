//! Fields: their types, limits and properties.

use super::{Differences, ITEMS, READERS, WRITERS, text};
use crate::{
    design::SchemaStep,
    field::{DefaultValue, Field, FieldType},
    text_syntax::{StringFormat, TimestampPrecision},
};

impl Differences {
    pub(super) fn fields(&mut self, section: &str, old: &[Field], new: &[Field], steps: &[SchemaStep]) {
        let has = |fields: &[Field], name: &str| fields.iter().any(|field| field.name == name);
        let removed: Vec<&Field> = old.iter().filter(|field| !has(new, &field.name)).collect();
        let added: Vec<&Field> = new.iter().filter(|field| !has(old, &field.name)).collect();
        let mut renamed: Vec<(&str, &str)> = Vec::new();
        for (from, to) in steps.iter().flat_map(|step| &step.rename) {
            if removed.iter().any(|field| field.name == *from) && added.iter().any(|field| field.name == *to) {
                renamed.push((from, to));
            }
        }
        // Without a step, one removed field and one added field of the same type are most likely the same field.
        if let ([from], [to], true) = (removed.as_slice(), added.as_slice(), renamed.is_empty())
            && stored_type(from) == stored_type(to)
        {
            renamed.push((&from.name, &to.name));
        }
        for (from, to) in &renamed {
            self.add(&format!("{section}.{to}"), format!("renamed from `{from}`"), Some(READERS));
        }
        for field in removed.iter().filter(|field| renamed.iter().all(|(from, _)| *from != field.name)) {
            self.add(&format!("{section}.{}", field.name), "removed", Some(READERS));
        }
        for field in added.iter().filter(|field| renamed.iter().all(|(_, to)| *to != field.name)) {
            let path = format!("{section}.{}", field.name);
            if !field.optional && field.default.is_none() {
                self.add(&path, "added, required", Some("old writers and stored items do not have it"));
            } else {
                self.add(&path, "added", None);
            }
        }
        for field in new {
            if let Some(before) = old.iter().find(|before| before.name == field.name) {
                self.field(&format!("{section}.{}", field.name), before, field, steps);
            }
        }
    }

    fn field(&mut self, path: &str, old: &Field, new: &Field, steps: &[SchemaStep]) {
        if stored_type(old) != stored_type(new) {
            return self.compare_value(path, "the type", stored_type(old), stored_type(new), Some(READERS));
        }
        match (old.optional, new.optional) {
            (true, false) => self.add(path, "required now", Some("old writers and stored items may not have it")),
            (false, true) => self.add(path, "optional now", None),
            _ => {}
        }
        match (old.choices(), new.choices()) {
            ([], []) => {}
            ([], _) => self.add(path, "limited to choices", Some(ITEMS)),
            (_, []) => self.add(path, "no longer limited to choices", None),
            choices => {
                let removed = ("the choice `{}` is gone", Some(ITEMS));
                self.members(path, choices, removed, ("the choice `{}` is new", None));
            }
        }
        self.bounds(path, old, new);
        let narrowed = new.pattern().map(|_| ITEMS);
        self.compare_value(path, "the pattern", text(&old.pattern()), text(&new.pattern()), narrowed);
        let format = |field: &Field| field.text_syntax.as_ref().and_then(|form| form.format);
        let narrowed = format(new).map(|_| ITEMS);
        self.compare_value(path, "the format", text(&format(old)), text(&format(new)), narrowed);
        if old.default != new.default {
            // Callers cannot set a field that comes from the token.
            let is_lost = new.default.is_none() && !new.optional || new.default == Some(DefaultValue::Caller);
            let what = if new.default.is_none() { "the default is gone" } else { "the default changed" };
            self.add(path, what, is_lost.then_some(WRITERS));
        }
        let schemes = |field: &Field| -> Vec<String> {
            let form = field.text_syntax.as_ref().filter(|form| form.format == Some(StringFormat::Uri));
            form.map(|form| form.schemes().map(str::to_owned).collect()).unwrap_or_default()
        };
        if format(old) == format(new) {
            let removed = ("the scheme `{}` is gone", Some(ITEMS));
            self.members(path, (&schemes(old), &schemes(new)), removed, ("the scheme `{}` is new", None));
        }
        self.flag(path, "immutable", old.immutable, new.immutable, new.immutable.then_some(WRITERS));
        self.flag(path, "readonly", old.readonly, new.readonly, new.readonly.then_some(WRITERS));
        let since = match (&old.since, &new.since) {
            (None, _) => WRITERS,
            (Some(_), None) => "it is no longer set automatically",
            (Some(_), Some(_)) => "stored items keep the time of the old condition",
        };
        self.compare_value(path, "the `since` condition", text(&old.since), text(&new.since), Some(since));
        self.flag(path, "secret", old.secret, new.secret, new.secret.then_some(READERS));
        self.flag(path, "personal", old.personal, new.personal, None);
        let reference = |field: &Field| {
            field.reference.as_ref().map(|reference| format!("{} ({})", reference.entity, reference.on_delete))
        };
        let deletes = new.reference.as_ref().map(|_| "deleting does something else");
        self.compare_value(path, "the reference", text(&reference(old)), text(&reference(new)), deletes);
        let also = |field: &Field| field.text_syntax.as_ref()?.also.as_ref().map(|also| also.text.clone());
        let narrowed = also(old).map(|_| ITEMS);
        self.compare_value(path, "the pattern of older values", text(&also(old)), text(&also(new)), narrowed);
        self.description(path, &old.description, &new.description);
        match (&old.field_type, &new.field_type) {
            (FieldType::Map(before), FieldType::Map(after)) if before.is_empty() && !after.is_empty() => {
                self.add(path, "limited to fields", Some(ITEMS));
            }
            (FieldType::Map(before), FieldType::Map(after)) if after.is_empty() && !before.is_empty() => {
                self.add(path, "no longer limited to fields", None);
            }
            (FieldType::List(None), FieldType::List(Some(_))) => {
                self.add(path, "its elements have a type now", Some(ITEMS));
            }
            (FieldType::List(Some(_)), FieldType::List(None)) => {
                self.add(path, "its elements have no type any more", None);
            }
            (FieldType::Map(before), FieldType::Map(after)) => self.fields(path, before, after, steps),
            (FieldType::List(Some(before)), FieldType::List(Some(after))) => {
                self.field(&format!("{path}.items"), before, after, steps);
            }
            _ => {}
        }
    }

    fn bounds(&mut self, path: &str, old: &Field, new: &Field) {
        if let (FieldType::Integer, Some(old), Some(new)) = (&new.field_type, &old.text_syntax, &new.text_syntax) {
            let ((old_min, old_max), (new_min, new_max)) = (old.bounds, new.bounds);
            let is_higher = new_min.unwrap_or(i64::MIN) > old_min.unwrap_or(i64::MIN);
            self.compare_value(path, "the least value", text(&old_min), text(&new_min), is_higher.then_some(ITEMS));
            let is_lower = new_max.unwrap_or(i64::MAX) < old_max.unwrap_or(i64::MAX);
            self.compare_value(path, "the greatest value", text(&old_max), text(&new_max), is_lower.then_some(ITEMS));
            return;
        }
        // The least length of a text or list is 0, whether the design says so or not.
        let least = |field: &Field| {
            if matches!(field.field_type, FieldType::Number) {
                field.range.0
            } else {
                Some(field.range.0.unwrap_or(0.0))
            }
        };
        let is_higher = least(new).unwrap_or(f64::MIN) > least(old).unwrap_or(f64::MIN);
        self.compare_value(path, "the least value", text(&least(old)), text(&least(new)), is_higher.then_some(ITEMS));
        if matches!(new.field_type, FieldType::String | FieldType::List(_) | FieldType::Map(_) | FieldType::Any) {
            self.compare_value(
                path,
                "the greatest size",
                old.max_size,
                new.max_size,
                (new.max_size < old.max_size).then_some(ITEMS),
            );
        } else {
            let is_lower = new.range.1.unwrap_or(f64::MAX) < old.range.1.unwrap_or(f64::MAX);
            self.compare_value(
                path,
                "the greatest value",
                text(&old.range.1),
                text(&new.range.1),
                is_lower.then_some(ITEMS),
            );
        }
    }
}

/// How a field is stored: its type, precision and prefix.
fn stored_type(field: &Field) -> String {
    let precision = match field.field_type {
        FieldType::Timestamp(TimestampPrecision::Seconds) => String::new(),
        FieldType::Timestamp(precision) => format!(" ({precision})"),
        _ => String::new(),
    };
    let prefix = match field.prefix() {
        "" => String::new(),
        prefix => format!(" after {prefix}"),
    };
    format!("{}{precision}{prefix}", field.field_type.name())
}
