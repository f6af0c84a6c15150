//! Entities: keys, walls, indexes and constraints.

use super::{Resolver, template::TemplateContext, values};
use crate::{
    codes,
    design::{Design, Entity, EntitySpans, IndexMapping, SchemaStep, SoftDelete, UniqueConstraint, Wall},
    diagnostic::did_you_mean,
    field::{self, Field},
    grammar::FIRST_COME,
    role::Verb,
    tree::{Entry, Node, SpannedText, Value},
    version,
};

impl Resolver<'_> {
    pub(super) fn entity(&mut self, entry: &Entry, design: &Design) -> Option<Entity> {
        let node = &entry.node;
        let fields = self.fields(node.section("fields"));
        let table_name = node.text("table");
        let table = table_name.and_then(|name| {
            let names = design.tables.iter().map(|table| table.id.as_str());
            self.resolve("table", &name, names, "table")
        });
        let table = table?;
        let context = TemplateContext { sort: false, when: None, former: false, index: false };
        let attributes = &design.tables[table].key;
        let key = node.get("key").and_then(|key| self.key_templates(key, &key.span, attributes, &fields, context));
        let former_keys = node.get("former_keys").map_or(&[][..], Node::items);
        let former_keys = former_keys
            .iter()
            .filter_map(|former| {
                self.key_templates(
                    former,
                    &former.span,
                    attributes,
                    &fields,
                    TemplateContext { former: true, ..context },
                )
            })
            .collect();
        let wall_name = node.text("wall");
        let wall = wall_name.as_ref().and_then(|wall| Wall::named(&wall.value)).unwrap_or(Wall::Key);
        let tenant = self.tenant_of(node, design, &fields, wall, entry);
        let indexes = self.mappings(node, design, table, &fields, wall, tenant.as_deref());
        let schema = node.text("schema");
        Some(Entity {
            name: entry.key.clone(),
            description: node.string("description"),
            table,
            key: key?,
            former_keys,
            wall,
            tenant,
            owner: node.string("owner"),
            names_first_come: node.string("names").as_deref() == Some(FIRST_COME),
            discriminator: self.discriminator(node, design, table, entry),
            indexes,
            version: self.attribute(node.text("version")),
            unique: self.uniques(node),
            ttl_after: node.text("ttl_after").and_then(|text| self.duration(&text)),
            soft_delete: node.get("soft_delete").filter(|soft| self.soft_delete_is_whole(soft)).map(|soft| {
                SoftDelete {
                    mark: soft.string("field").zip(soft.get("value").map(Node::json)),
                    at: soft.string("at"),
                    by: soft.string("by"),
                    span: soft.span.clone(),
                }
            }),
            schema: schema.as_ref().and_then(|schema| self.version(schema)),
            schema_steps: self.changes(node),
            path: node.string("path").unwrap_or_else(|| format!("/{}", plural(&entry.key))),
            routes: self.routes(node),
            audited: node.boolean("audit").unwrap_or(true),
            span: entry.key_span.clone(),
            spans: EntitySpans {
                wall: wall_name.map(|wall| wall.span),
                tenant: node.get("tenant").map(|node| node.span.clone()),
                owner: node.get("owner").map(|node| node.span.clone()),
                names: node.get("names").map(|node| node.span.clone()),
                tenantless: node.boolean("tenant") == Some(false),
                version: node.get("version").map(|node| node.span.clone()),
                ttl_after: node.get("ttl_after").map(|node| node.span.clone()),
                schema: schema.map(|schema| schema.span),
                path: node.get("path").map(|node| node.span.clone()),
            },
            fields,
        })
    }

    /// The verbs that have routes for single items.
    fn routes(&mut self, node: &Node) -> Vec<Verb> {
        if node.get("routes").is_none() {
            return Verb::ALL.to_vec();
        }
        let said = node.texts("routes");
        for (at, verb) in said.iter().enumerate() {
            if said[..at].iter().any(|earlier| earlier.value == verb.value) {
                let message = format!("`{}` is repeated", verb.value);
                codes::BAD_CHOICES.report(self.diagnostics, &verb.span, message).help("remove one");
            }
        }
        Verb::ALL.into_iter().filter(|verb| said.iter().any(|each| each.value == verb.name())).collect()
    }

    /// Whether `field` and `value` are both given or both missing.
    fn soft_delete_is_whole(&mut self, soft: &Node) -> bool {
        let missing = match (soft.get("field"), soft.get("value")) {
            (Some(_), None) => "value",
            (None, Some(_)) => "field",
            _ => return true,
        };
        codes::BAD_SOFT_DELETE
            .report(self.diagnostics, &soft.span, format!("`{missing}` is missing"))
            .help("`field` is the field that marks deleted items, `value` is its value in them");
        false
    }

    /// The path of the field that holds the entity's tenant.
    fn tenant_of(
        &mut self,
        node: &Node,
        design: &Design,
        fields: &[Field],
        wall: Wall,
        entry: &Entry,
    ) -> Option<String> {
        let given = node.get("tenant");
        match given.map(|node| (&node.value, &node.span)) {
            Some((Value::Boolean(false), _)) => return None,
            Some((Value::Boolean(true), span)) => codes::NO_TENANT_FIELD
                .report(self.diagnostics, span, "`tenant` names a field, or is `false`")
                .help(format!("remove it to use `{}`", design.tenant.field)),
            _ => {}
        }
        let text = given.and_then(Node::as_text);
        let path = text.as_ref().map_or(design.tenant.field.as_str(), |text| text.value.as_str());
        if field::find(fields, path).is_some() {
            return Some(path.to_owned());
        }
        let names = fields.iter().map(|field| field.name.as_str());
        match (&text, wall) {
            (Some(text), _) => codes::NO_TENANT_FIELD
                .report(self.diagnostics, &text.span, format!("the entity has no field `{path}`"))
                .help(did_you_mean(path, names)),
            (None, Wall::Key | Wall::Attribute) => {
                let message = format!("`{}` does not have the tenant field `{path}`", entry.key);
                codes::NO_TENANT_FIELD
                    .report(self.diagnostics, &entry.key_span, message)
                    .also(&design.tenant.span, "the tenant field of the design")
                    .help(format!(
                        "add `{path}` to its fields, or name the field that holds the tenant with `tenant = \"…\"`"
                    ));
            }
            (None, Wall::Public | Wall::System) => {}
        }
        None
    }

    fn discriminator(&mut self, node: &Node, design: &Design, table: usize, entry: &Entry) -> Option<String> {
        let given = node.text("discriminator");
        if design.tables[table].discriminator.is_some() {
            return Some(given.map_or_else(|| entry.key.clone(), |given| given.value));
        }
        if let Some(given) = given {
            let message = format!("the table `{}` has no discriminator", design.tables[table].id);
            let help = "name the attribute in the table: `discriminator = \"type\"`";
            codes::DOES_NOT_APPLY.report(self.diagnostics, &given.span, message).help(help);
        }
        None
    }

    fn mappings(
        &mut self,
        node: &Node,
        design: &Design,
        table: usize,
        fields: &[Field],
        entity_wall: Wall,
        tenant: Option<&str>,
    ) -> Vec<IndexMapping> {
        let table = &design.tables[table];
        let mut mappings = Vec::new();
        for entry in node.section("index") {
            let names = table.indexes.iter().map(|index| index.name.as_str());
            let Some(index) = names.clone().position(|name| name == entry.key) else {
                // A declared index that could not be read has been reported.
                let declared = self.root.get("table").and_then(|tables| tables.get(&table.id));
                if declared.is_some_and(|node| node.section("index").iter().any(|index| index.key == entry.key)) {
                    continue;
                }
                let message = format!("the table `{}` has no index `{}`", table.id, entry.key);
                codes::UNKNOWN_NAME
                    .report(self.diagnostics, &entry.key_span, message)
                    .also(&table.span, "the table")
                    .help(match crate::diagnostic::closest(&entry.key, names) {
                        Some(name) => format!("did you mean `{name}`?"),
                        None => format!("declare it in the table: `index.{0} = [\"{0}PK\", \"{0}SK\"]`", entry.key),
                    });
                continue;
            };
            let when_text = entry.node.text("when");
            let when = when_text.as_ref().and_then(|text| self.condition(text));
            let context = TemplateContext { sort: false, when: when.as_ref(), former: false, index: true };
            let wall_name = entry.node.text("wall");
            let key = self.key_templates(&entry.node, &entry.key_span, &table.indexes[index].key, fields, context);
            if let Some(key) = key {
                let carries_tenant = key.partition.fields().any(|path| Some(path) == tenant);
                // An index with the tenant in its partition has its wall there, even if the entity's own key does not.
                let inherited = if entity_wall == Wall::Attribute && carries_tenant { Wall::Key } else { entity_wall };
                mappings.push(IndexMapping {
                    index,
                    name: entry.key.clone(),
                    key,
                    wall: wall_name.as_ref().and_then(|wall| Wall::named(&wall.value)).unwrap_or(inherited),
                    when,
                    span: entry.key_span.clone(),
                    wall_span: wall_name.map(|wall| wall.span),
                    when_text,
                });
            }
        }
        mappings
    }

    fn uniques(&mut self, node: &Node) -> Vec<UniqueConstraint> {
        let given = node.get("unique").map_or(&[][..], Node::items);
        let mut uniques = Vec::new();
        for node in given {
            let field_texts = node.texts("fields");
            let when_text = node.text("when");
            uniques.push(UniqueConstraint {
                fields: values(field_texts.clone()),
                within_tenant: node.string("within").as_deref() != Some("all"),
                when: when_text.as_ref().and_then(|text| self.condition(text)),
                field_texts,
                when_text,
                span: node.span.clone(),
            });
        }
        uniques
    }

    fn changes(&mut self, node: &Node) -> Vec<SchemaStep> {
        let given = node.get("change").map_or(&[][..], Node::items);
        let mut changes = Vec::new();
        for node in given {
            let pairs = |key| node.section(key).iter().map(|entry| (entry.key.clone(), entry.node.json())).collect();
            let (Some(from), Some(to)) = (node.text("from"), node.text("to")) else { continue };
            let (Some(from), Some(to), span) = (self.version(&from), self.version(&to), from.span) else { continue };
            changes.push(SchemaStep {
                from,
                to,
                add: pairs("add"),
                drop: values(node.texts("drop")),
                rename: node
                    .section("rename")
                    .iter()
                    .filter_map(|entry| Some((entry.key.clone(), entry.node.as_text()?.value)))
                    .collect(),
                set: pairs("set"),
                span,
            });
        }
        changes
    }

    pub(super) fn duration(&mut self, text: &SpannedText) -> Option<u64> {
        let seconds = version::seconds(&text.value);
        if seconds.is_none() {
            codes::BAD_DURATION
                .report(self.diagnostics, &text.span, format!("`{}` is not a duration", text.value))
                .help("write a number and a unit: `30s`, `15m`, `12h`, `90d` or `2w`");
        }
        seconds
    }
}

/// The English plural of a snake-case name, for paths: `tenant_application` → `tenant-applications`.
fn plural(name: &str) -> String {
    let name = name.replace('_', "-");
    let consonant_y = name.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match consonant_y {
        Some(stem) => format!("{stem}ies"),
        // Already a plural, such as `settings`.
        None if name.ends_with('s') && !name.ends_with("ss") && !name.ends_with("us") => name,
        None if ["s", "x", "z", "ch", "sh"].iter().any(|end| name.ends_with(end)) => name + "es",
        None => name + "s",
    }
}
