//! Access patterns: which key or index serves each, and what its query binds.

use super::{Lower, PAGE, values};
use crate::{
    codes,
    condition::Condition,
    design::{Access, Bound, Design, Entity, KeyTemplates, MAX_PAGE, Returns},
    diagnostic::{Diagnostic, did_you_mean, list},
    template::Template,
    tree::{Entry, Text, Value},
};

impl Lower<'_> {
    pub(super) fn access(&mut self, entry: &Entry, design: &Design) -> Option<Access> {
        let node = &entry.node;
        let entity_name = node.text("entity")?;
        let names = design.entities.iter().map(|entity| entity.name.as_str());
        let entity_at = self.resolve("entity", &entity_name, names, "entity")?;
        let entity = &design.entities[entity_at];
        let filter_text = node.text("filter");
        let filter = filter_text.as_ref().and_then(|text| self.condition(text));
        let mapping = match node.text("index") {
            None => None,
            Some(index) => Some(self.mapping(&index, entity, design)?),
        };
        let key = mapping.map_or(&entity.key, |at| &entity.indexes[at].key);
        let given = node.get("by").map(|_| node.texts("by"));
        let (range, prefix) = (node.text("range"), node.text("prefix"));
        let asked = Asked { by: given.as_deref(), range: range.as_ref(), prefix: prefix.as_ref() };
        let (by, fixed, bound) = self.serve(entry, entity, key, mapping, design, &asked)?;
        self.parameter_names(&filter, filter_text.as_ref(), entry, &by, &bound);
        let limit = node.get("limit").zip(node.whole("limit"));
        if let Some((node, limit)) = limit
            && !usize::try_from(limit).is_ok_and(|limit| (1..=MAX_PAGE).contains(&limit))
        {
            self.report(
                Diagnostic::new(&codes::BAD_SELECTION, node.span.clone(), format!("a page cannot have {limit} items"))
                    .help("write 1 to 1000"),
            );
        }
        Some(Access {
            name: entry.key.clone(),
            description: node.string("description"),
            entity: entity_at,
            mapping,
            by,
            fixed,
            bound,
            descending: node.string("order").as_deref() == Some("desc"),
            filter,
            filter_text,
            projection: self.projection(node.texts("projection"), entity),
            limit: limit.and_then(|(_, limit)| u32::try_from(limit).ok()).unwrap_or(PAGE),
            returns: match node.string("returns").as_deref() {
                Some("one") => Returns::One,
                Some("count") => Returns::Count,
                _ => Returns::Many,
            },
            path: self.access_path(entry),
            span: entry.key_span.clone(),
            path_span: node.get("path").map(|node| node.span.clone()),
        })
    }

    fn access_path(&mut self, entry: &Entry) -> Option<String> {
        let given = entry.node.get("path");
        match given.map(|node| (&node.value, &node.span)) {
            Some((Value::Flag(false), _)) => return None,
            Some((Value::Flag(true), span)) => self.report(
                Diagnostic::new(&codes::BAD_PATH, span.clone(), "`path` is where it answers, or `false`")
                    .help("leave it out to have one that is made of its name"),
            ),
            _ => {}
        }
        Some(entry.node.string("path").unwrap_or_else(|| format!("/{}", entry.key.replace('_', "-"))))
    }

    fn mapping(&mut self, index: &Text, entity: &Entity, design: &Design) -> Option<usize> {
        let found = entity.indexes.iter().position(|mapping| mapping.name == index.value);
        let declared =
            self.root.get("entity").and_then(|all| all.get(&entity.name)).map_or(&[][..], |node| node.section("index"));
        if found.is_none() && !declared.iter().any(|entry| entry.key == index.value) {
            let table = design.table_of(entity);
            let on_table = table.indexes.iter().any(|each| each.name == index.value);
            let message = format!("`{}` does not lie in an index `{}`", entity.name, index.value);
            let names: Vec<_> = entity.indexes.iter().map(|mapping| mapping.name.as_str()).collect();
            let help = if on_table {
                format!("give the entity `index.{} = {{ … }}` with a template for each of its attributes", index.value)
            } else {
                did_you_mean(&index.value, names)
            };
            self.report(
                Diagnostic::new(&codes::UNKNOWN_NAME, index.span.clone(), message)
                    .also(entity.span.clone(), "the entity")
                    .help(help),
            );
        }
        found
    }

    /// Whether the key serves what is asked, and how.
    fn serve(
        &mut self,
        entry: &Entry,
        entity: &Entity,
        key: &KeyTemplates,
        mapping: Option<usize>,
        design: &Design,
        asked: &Asked<'_>,
    ) -> Option<(Vec<String>, usize, Bound)> {
        let wall = |mapping: Option<usize>| mapping.map_or(entity.wall, |at: usize| entity.indexes[at].wall);
        let tenant = entity.implied_tenant(wall(mapping));
        let partition = needed(&key.partition, tenant);
        let by: Vec<&str> = match asked.by {
            Some(by) => by.iter().map(|text| text.value.as_str()).collect(),
            None => partition.clone(),
        };
        for text in asked.by.unwrap_or_default() {
            self.known_field(text, entity)?;
            if tenant == Some(text.value.as_str()) {
                self.report(
                    Diagnostic::new(
                        &codes::BAD_SELECTION,
                        text.span.clone(),
                        format!("`{}` comes from the token, never from the caller", text.value),
                    )
                    .help("leave it out of `by`: every pattern is asked within the tenant"),
                );
                return None;
            }
        }
        let Some(fixed) = leading(key, tenant, &by) else {
            let mut diagnostic = Diagnostic::new(
                &codes::NOT_SERVED,
                asked.by.and_then(<[Text]>::first).map_or(entry.key_span.clone(), |text| text.span.clone()),
                match mapping {
                    None => format!("the key of `{}` cannot find items by {}", entity.name, list(&by)),
                    Some(at) => format!("`{}` cannot find items by {}", entity.indexes[at].name, list(&by)),
                },
            );
            diagnostic = diagnostic.also(
                key.partition.span.clone(),
                match (partition.is_empty(), key.sort.slots().nth(leading(key, tenant, &partition).unwrap_or(0))) {
                    (false, _) => format!("needs {}", list(&partition)),
                    (true, Some(next)) => format!("its sort key goes on with `{}`", next.path),
                    (true, None) => "its sort key goes on with nothing".to_owned(),
                },
            );
            let other =
                entity.indexes.iter().find(|each| leading(&each.key, entity.implied_tenant(each.wall), &by).is_some());
            let by_key = mapping.is_some() && leading(&entity.key, entity.implied_tenant(entity.wall), &by).is_some();
            self.report(diagnostic.help(match other {
                Some(other) => format!("`{}` does: write `index = \"{}\"`", other.name, other.name),
                None if by_key => "the key does: leave `index` out".to_owned(),
                None => proposal(entity, design, &by),
            }));
            return None;
        };
        let slots: Vec<_> = key.sort.slots().collect();
        let (text, is_range) = match (asked.range, asked.prefix) {
            (Some(text), _) => (text, true),
            (None, Some(text)) => (text, false),
            (None, None) => {
                let bound = if fixed == slots.len() && !slots.is_empty() || key.sort.is_constant() {
                    Bound::Full
                } else {
                    Bound::Open
                };
                return Some((owned(&by), fixed, bound));
            }
        };
        if let (Some(_), Some(prefix)) = (asked.range, asked.prefix) {
            self.report(
                Diagnostic::new(
                    &codes::BAD_SELECTION,
                    prefix.span.clone(),
                    "a sort key is bounded by `range` or by `prefix`, not by both",
                )
                .help("leave one out"),
            );
        }
        self.known_field(text, entity)?;
        if slots.get(fixed).is_none_or(|slot| slot.path != text.value) {
            let sort = key.sort.as_str();
            let help = match slots.iter().position(|slot| slot.path == text.value) {
                Some(at) if at > fixed => {
                    let before: Vec<_> = slots[fixed..at].iter().map(|slot| slot.path.as_str()).collect();
                    format!(
                        "the sort key is `{sort}`: let the caller give {} too (`by`), or put `{}` first",
                        list(&before),
                        text.value
                    )
                }
                _ => format!("the sort key is `{sort}`: put `{{{}}}` into it, after what is fixed", text.value),
            };
            self.report(
                Diagnostic::new(
                    &codes::RANGE_NOT_NEXT,
                    text.span.clone(),
                    format!("`{}` is not what the sort key goes on with", text.value),
                )
                .also(key.sort.span.clone(), "the sort key")
                .help(help),
            );
            return None;
        }
        if !is_range && !slots[fixed].form.has_beginning() {
            self.report(
                Diagnostic::new(
                    &codes::RANGE_WITHOUT_ORDER,
                    text.span.clone(),
                    format!("`{}` is a number or a truth value, which nobody asks for by its beginning", text.value),
                )
                .help("use `range` for numbers, `by` for truth values"),
            );
            return None;
        }
        if is_range && !slots[fixed].form.is_ordered() {
            self.report(
                Diagnostic::new(
                    &codes::RANGE_WITHOUT_ORDER,
                    text.span.clone(),
                    format!("`{}` has no order that a range could follow", text.value),
                )
                .help("a timestamp, date, ulid or padded integer has; for the beginning of a text use `prefix`"),
            );
            return None;
        }
        let bound = if is_range { Bound::Range(text.value.clone()) } else { Bound::Prefix(text.value.clone()) };
        Some((owned(&by), fixed, bound))
    }

    /// Parameters cannot be called like those that every list has.
    fn parameter_names(
        &mut self,
        filter: &Option<Condition>,
        text: Option<&Text>,
        entry: &Entry,
        by: &[String],
        bound: &Bound,
    ) {
        let ranged = matches!(bound, Bound::Range(_));
        let taken =
            |name: &str| matches!(name, "cursor" | "limit" | "order") || ranged && matches!(name, "from" | "to");
        let filtered = filter.iter().flat_map(|filter| filter.parameters()).map(|(name, _)| name);
        let at = text.map_or(&entry.key_span, |text| &text.span);
        let prefix = match bound {
            Bound::Prefix(field) => Some(field.as_str()),
            _ => None,
        };
        let asked = by.iter().map(String::as_str).chain(prefix).map(|name| (name, &entry.key_span));
        for (name, span) in filtered.map(|name| (name, at)).chain(asked).filter(|(name, _)| taken(name)) {
            self.report(
                Diagnostic::new(
                    &codes::BAD_SELECTION,
                    span.clone(),
                    format!("`{name}` is a parameter that every such list has already"),
                )
                .help("give the field or the filter's parameter another name"),
            );
        }
    }

    fn known_field(&mut self, text: &Text, entity: &Entity) -> Option<()> {
        if entity.field(&text.value).is_none() {
            let names = entity.fields.iter().map(|field| field.name.as_str());
            self.report(
                Diagnostic::new(
                    &codes::UNKNOWN_FIELD,
                    text.span.clone(),
                    format!("`{}` has no field `{}`", entity.name, text.value),
                )
                .help(did_you_mean(&text.value, names)),
            );
            return None;
        }
        Some(())
    }

    fn projection(&mut self, texts: Vec<Text>, entity: &Entity) -> Vec<String> {
        for (at, text) in texts.iter().enumerate() {
            let inside =
                |other: &Text| text.value == other.value || text.value.starts_with(&format!("{}.", other.value));
            if texts.iter().enumerate().any(|(other_at, other)| other_at != at && inside(other)) {
                self.report(
                    Diagnostic::new(
                        &codes::BAD_SELECTION,
                        text.span.clone(),
                        format!("`{}` is returned already", text.value),
                    )
                    .help("leave it out"),
                );
                continue;
            }
            if self.known_field(text, entity).is_some() && entity.is_secret(&text.value) {
                self.report(
                    Diagnostic::new(
                        &codes::BAD_SELECTION,
                        text.span.clone(),
                        format!("`{}` is secret and never read back", text.value),
                    )
                    .help("leave it out"),
                );
            }
        }
        values(texts)
    }
}

/// What an access pattern asks of its key.
struct Asked<'a> {
    by: Option<&'a [Text]>,
    range: Option<&'a Text>,
    prefix: Option<&'a Text>,
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The fields of a template that the caller has to give.
fn needed<'t>(template: &'t Template, tenant: Option<&str>) -> Vec<&'t str> {
    let mut found: Vec<&str> = Vec::new();
    for path in template.fields().filter(|path| Some(*path) != tenant) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// How many leading fields of the sort key these fields fix; `None` when the key cannot be asked by them.
fn leading(key: &KeyTemplates, tenant: Option<&str>, by: &[&str]) -> Option<usize> {
    let partition = needed(&key.partition, tenant);
    if !partition.iter().all(|path| by.contains(path)) {
        return None;
    }
    let given = |path: &str| by.contains(&path) || Some(path) == tenant || partition.contains(&path);
    let fixed = key.sort.fields().take_while(|path| given(path)).count();
    let used = |path: &&&str| partition.contains(path) || key.sort.fields().take(fixed).any(|each| each == **path);
    (by.iter().filter(used).count() == by.len()).then_some(fixed)
}

/// The index that would serve a pattern that nothing serves.
fn proposal(entity: &Entity, design: &Design, by: &[&str]) -> String {
    let table = design.table_of(entity);
    let free = table.indexes.iter().find(|index| entity.mapping(&index.name).is_none());
    let (name, partition, sort) = match free {
        Some(index) => (index.name.clone(), index.key.partition.clone(), index.key.sort.clone()),
        None => {
            let name =
                (1..).map(|n| format!("GSI{n}")).find(|name| table.indexes.iter().all(|index| index.name != *name));
            let name = name.unwrap_or_else(|| "GSI1".to_owned());
            (name.clone(), format!("{name}PK"), format!("{name}SK"))
        }
    };
    let tenant = entity.tenant.iter().map(|tenant| format!("{}#{{{tenant}}}", upper(tenant)));
    let parts: Vec<_> = tenant.chain(by.iter().map(|field| format!("{}#{{{field}}}", upper(field)))).collect();
    let declare = if free.is_some() {
        String::new()
    } else {
        format!(" (and `index.{name} = [\"{partition}\", \"{sort}\"]` on the table)")
    };
    format!(
        "an index would: `index.{name} = {{ {partition} = \"{}\", {sort} = \"{}\" }}`{declare}, then `index = \"{name}\"` here",
        parts.join("#"),
        entity.key.sort.as_str(),
    )
}

/// `tenantId` → `TENANT`, for the literal in front of a field.
fn upper(field: &str) -> String {
    let last = field.rsplit('.').next().unwrap_or(field);
    last.strip_suffix("Id").unwrap_or(last).to_uppercase()
}
