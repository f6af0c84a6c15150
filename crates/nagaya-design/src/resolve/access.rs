//! Access patterns: the key or index of each, and the fields that its query binds.

use super::{DEFAULT_PAGE_SIZE, Resolver, values};
use crate::{
    codes,
    condition::Condition,
    design::{AccessPattern, Design, Entity, KeyTemplates, MAX_PAGE, ResultKind, SortBound, Wall},
    diagnostic::{Diagnostic, Span, did_you_mean, list},
    template::Template,
    tree::{Entry, SpannedText, Value},
};

impl Resolver<'_> {
    pub(super) fn access(&mut self, entry: &Entry, design: &Design) -> Option<AccessPattern> {
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
        let selection = Selection { by: given.as_deref(), range: range.as_ref(), prefix: prefix.as_ref() };
        let (by, fixed, bound) = self.match_key(entry, entity, key, mapping, design, &selection)?;
        self.parameter_names(&filter, filter_text.as_ref(), entry, &by, &bound);
        let limit = node.get("limit").zip(node.integer("limit"));
        if let Some((node, limit)) = limit
            && !usize::try_from(limit).is_ok_and(|limit| (1..=MAX_PAGE).contains(&limit))
        {
            let message = format!("a page cannot have {limit} items");
            codes::BAD_SELECTION.report(self.diagnostics, &node.span, message).help("write 1 to 1000");
        }
        Some(AccessPattern {
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
            limit: limit.and_then(|(_, limit)| u32::try_from(limit).ok()).unwrap_or(DEFAULT_PAGE_SIZE),
            returns: node.string("returns").and_then(|name| ResultKind::named(&name)).unwrap_or(ResultKind::Many),
            path: self.access_path(entry),
            span: entry.key_span.clone(),
            path_span: node.get("path").map(|node| node.span.clone()),
        })
    }

    fn access_path(&mut self, entry: &Entry) -> Option<String> {
        let given = entry.node.get("path");
        match given.map(|node| (&node.value, &node.span)) {
            Some((Value::Boolean(false), _)) => return None,
            Some((Value::Boolean(true), span)) => codes::BAD_PATH
                .report(self.diagnostics, span, "`path` has to be a path or `false`")
                .help("remove it to use a path made from the name"),
            _ => {}
        }
        Some(entry.node.string("path").unwrap_or_else(|| format!("/{}", entry.key.replace('_', "-"))))
    }

    fn mapping(&mut self, index: &SpannedText, entity: &Entity, design: &Design) -> Option<usize> {
        let found = entity.indexes.iter().position(|mapping| mapping.name == index.value);
        let declared =
            self.root.get("entity").and_then(|all| all.get(&entity.name)).map_or(&[][..], |node| node.section("index"));
        if found.is_none() && !declared.iter().any(|entry| entry.key == index.value) {
            let table = design.table_of(entity);
            let on_table = table.indexes.iter().any(|each| each.name == index.value);
            let message = format!("`{}` has no index `{}`", entity.name, index.value);
            let names: Vec<_> = entity.indexes.iter().map(|mapping| mapping.name.as_str()).collect();
            let help = if on_table {
                format!("give the entity `index.{} = {{ … }}` with a template for each of its attributes", index.value)
            } else {
                did_you_mean(&index.value, names)
            };
            codes::UNKNOWN_NAME
                .report(self.diagnostics, &index.span, message)
                .also(&entity.span, "the entity")
                .help(help);
        }
        found
    }

    /// Matches the selection of an access pattern with a key: the given fields, how many are fixed, and the bound.
    fn match_key(
        &mut self,
        entry: &Entry,
        entity: &Entity,
        key: &KeyTemplates,
        mapping: Option<usize>,
        design: &Design,
        selection: &Selection<'_>,
    ) -> Option<(Vec<String>, usize, SortBound)> {
        let tenant = entity.implied_tenant(mapping.map_or(entity.wall, |at| entity.indexes[at].wall));
        let by: Vec<&str> = match selection.by {
            Some(by) => by.iter().map(|text| text.value.as_str()).collect(),
            None => caller_fields(&key.partition, tenant),
        };
        for text in selection.by.unwrap_or_default() {
            self.known_field(text, entity)?;
            if tenant == Some(text.value.as_str()) {
                let message = format!("`{}` comes from the token, never from the caller", text.value);
                let help = "remove it from `by`: every access pattern is limited to the tenant";
                codes::BAD_SELECTION.report(self.diagnostics, &text.span, message).help(help);
                return None;
            }
        }
        let Some(fixed) = fixed_fields(key, tenant, &by) else {
            let span = selection.by.and_then(<[SpannedText]>::first).map_or(&entry.key_span, |text| &text.span);
            not_served(span, entity, key, mapping, design, &by, self.diagnostics);
            return None;
        };
        let bound = self.sort_bound(entity, &key.sort, fixed, selection)?;
        Some((by.into_iter().map(str::to_owned).collect(), fixed, bound))
    }

    /// The bound of the sort key after its fixed fields.
    fn sort_bound(
        &mut self,
        entity: &Entity,
        sort: &Template,
        fixed: usize,
        selection: &Selection<'_>,
    ) -> Option<SortBound> {
        let slots: Vec<_> = sort.slots().collect();
        let (text, is_range) = match (selection.range, selection.prefix) {
            (None, None) if fixed == slots.len() => return Some(SortBound::Full),
            (None, None) => return Some(SortBound::Open),
            (Some(text), None) => (text, true),
            (None, Some(text)) => (text, false),
            (Some(text), Some(prefix)) => {
                let message = "a sort key is bounded by `range` or by `prefix`, not by both";
                codes::BAD_SELECTION.report(self.diagnostics, &prefix.span, message).help("remove one");
                (text, true)
            }
        };
        self.known_field(text, entity)?;
        let field = &text.value;
        let Some(slot) = slots.get(fixed).filter(|slot| slot.path == *field) else {
            let help = match slots.iter().position(|slot| slot.path == *field) {
                Some(at) if at > fixed => {
                    let before: Vec<_> = slots[fixed..at].iter().map(|slot| slot.path.as_str()).collect();
                    format!("the sort key is `{sort}`: add {} to `by` too, or put `{field}` first", list(&before))
                }
                _ => format!("the sort key is `{sort}`: put `{{{field}}}` into it, after the fixed fields"),
            };
            codes::RANGE_NOT_NEXT
                .report(self.diagnostics, &text.span, format!("`{field}` is not the next field of the sort key"))
                .also(&sort.span, "the sort key")
                .help(help);
            return None;
        };
        let (message, help) = match is_range {
            true if slot.text_syntax.is_ordered() => return Some(SortBound::Range(field.clone())),
            false if slot.text_syntax.supports_prefix() => return Some(SortBound::Prefix(field.clone())),
            true => (
                format!("`{field}` has no order, so it cannot have a range"),
                "use a timestamp, date, ulid or padded integer; for the start of a text use `prefix`",
            ),
            false => (
                format!("`{field}` is a number or a boolean, which has no prefix"),
                "use `range` for numbers, `by` for booleans",
            ),
        };
        codes::RANGE_WITHOUT_ORDER.report(self.diagnostics, &text.span, message).help(help);
        None
    }

    /// Parameters cannot have the names of parameters that every list has.
    fn parameter_names(
        &mut self,
        filter: &Option<Condition>,
        text: Option<&SpannedText>,
        entry: &Entry,
        by: &[String],
        bound: &SortBound,
    ) {
        let ranged = matches!(bound, SortBound::Range(_));
        let taken =
            |name: &str| matches!(name, "cursor" | "limit" | "order") || ranged && matches!(name, "from" | "to");
        let filtered = filter.iter().flat_map(|filter| filter.parameters()).map(|(name, _)| name);
        let at = text.map_or(&entry.key_span, |text| &text.span);
        let prefix = match bound {
            SortBound::Prefix(field) => Some(field.as_str()),
            _ => None,
        };
        let selection = by.iter().map(String::as_str).chain(prefix).map(|name| (name, &entry.key_span));
        for (name, span) in filtered.map(|name| (name, at)).chain(selection).filter(|(name, _)| taken(name)) {
            codes::BAD_SELECTION
                .report(self.diagnostics, span, format!("`{name}` is a parameter that every such list already has"))
                .help("give the field or the filter's parameter another name");
        }
    }

    fn known_field(&mut self, text: &SpannedText, entity: &Entity) -> Option<()> {
        if entity.field(&text.value).is_none() {
            let names = entity.fields.iter().map(|field| field.name.as_str());
            let message = format!("`{}` has no field `{}`", entity.name, text.value);
            codes::UNKNOWN_FIELD.report(self.diagnostics, &text.span, message).help(did_you_mean(&text.value, names));
            return None;
        }
        Some(())
    }

    fn projection(&mut self, texts: Vec<SpannedText>, entity: &Entity) -> Vec<String> {
        for (at, text) in texts.iter().enumerate() {
            let inside =
                |other: &SpannedText| text.value == other.value || text.value.starts_with(&format!("{}.", other.value));
            if texts.iter().enumerate().any(|(other_at, other)| other_at != at && inside(other)) {
                let message = format!("`{}` is already returned", text.value);
                codes::BAD_SELECTION.report(self.diagnostics, &text.span, message).help("remove it");
                continue;
            }
            if self.known_field(text, entity).is_some() && entity.is_secret(&text.value) {
                let message = format!("`{}` is secret and never read back", text.value);
                codes::BAD_SELECTION.report(self.diagnostics, &text.span, message).help("remove it");
            }
        }
        values(texts)
    }
}

/// What an access pattern selects by.
struct Selection<'a> {
    by: Option<&'a [SpannedText]>,
    range: Option<&'a SpannedText>,
    prefix: Option<&'a SpannedText>,
}

/// Reports a key that cannot find items by these fields, with a key or index that can.
fn not_served(
    span: &Span,
    entity: &Entity,
    key: &KeyTemplates,
    mapping: Option<usize>,
    design: &Design,
    by: &[&str],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let tenant = |wall: Wall| entity.implied_tenant(wall);
    let wall = mapping.map_or(entity.wall, |at| entity.indexes[at].wall);
    let message = match mapping {
        None => format!("the key of `{}` cannot find items by {}", entity.name, list(by)),
        Some(at) => format!("`{}` cannot find items by {}", entity.indexes[at].name, list(by)),
    };
    let partition = caller_fields(&key.partition, tenant(wall));
    let next = key.sort.slots().nth(fixed_fields(key, tenant(wall), &partition).unwrap_or(0));
    let needs = match (partition.is_empty(), next) {
        (false, _) => format!("needs {}", list(&partition)),
        (true, Some(next)) => format!("its sort key continues with `{}`", next.path),
        (true, None) => "its sort key has no further field".to_owned(),
    };
    let other = entity.indexes.iter().find(|each| fixed_fields(&each.key, tenant(each.wall), by).is_some());
    let by_key = mapping.is_some() && fixed_fields(&entity.key, tenant(entity.wall), by).is_some();
    let help = match other {
        Some(other) => format!("`{}` does: write `index = \"{}\"`", other.name, other.name),
        None if by_key => "the key does: remove `index`".to_owned(),
        None => index_proposal(entity, design, by),
    };
    codes::NOT_SERVED.report(diagnostics, span, message).also(&key.partition.span, needs).help(help);
}

/// The fields of a template that the caller has to give.
fn caller_fields<'t>(template: &'t Template, tenant: Option<&str>) -> Vec<&'t str> {
    let mut found: Vec<&str> = Vec::new();
    for path in template.fields().filter(|path| Some(*path) != tenant) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// How many leading fields of the sort key are fixed by these fields; `None` when the key cannot be queried by them.
fn fixed_fields(key: &KeyTemplates, tenant: Option<&str>, by: &[&str]) -> Option<usize> {
    let partition = caller_fields(&key.partition, tenant);
    if !partition.iter().all(|path| by.contains(path)) {
        return None;
    }
    let given = |path: &str| by.contains(&path) || Some(path) == tenant || partition.contains(&path);
    let fixed = key.sort.fields().take_while(|path| given(path)).count();
    let used = |path: &&&str| partition.contains(path) || key.sort.fields().take(fixed).any(|each| each == **path);
    (by.iter().filter(used).count() == by.len()).then_some(fixed)
}

/// The help text with an index that would serve the access pattern.
fn index_proposal(entity: &Entity, design: &Design, by: &[&str]) -> String {
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
        "an index would: `index.{name} = {{ {partition} = \"{}\", {sort} = \"{}\" }}`{declare}, then `index = \
         \"{name}\"` here",
        parts.join("#"),
        entity.key.sort.as_str(),
    )
}

/// `tenantId` → `TENANT`, for the literal before a field.
fn upper(field: &str) -> String {
    let last = field.rsplit('.').next().unwrap_or(field);
    last.strip_suffix("Id").unwrap_or(last).to_uppercase()
}
