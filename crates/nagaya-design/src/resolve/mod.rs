//! From a tree to a [`Design`]: resolves names, parses templates and binds them to their fields.
//!
//! Parts that cannot be resolved are reported and left out, so that later checks see only valid parts and one mistake
//! gives one diagnostic.

mod access;
mod aggregate;
mod audit;
mod entity;
mod field;
mod role;
mod template;

use std::collections::HashMap;

use crate::{
    codes,
    condition::{self, Condition},
    design::{Design, Index, Indexing, KeyAttributes, Table, Tenant},
    diagnostic::{Diagnostic, Span, did_you_mean},
    template::is_field_name,
    text_syntax::{PATTERN_BUDGET, Pattern},
    tree::{Entry, Node, SpannedText},
    version::Version,
};

/// Resolves a tree that was checked against the grammar. `None` when a required section is missing.
pub(crate) fn lower(root: &Node, source: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<Design> {
    Resolver { source, diagnostics, root, patterns: HashMap::new(), pattern_budget: PATTERN_BUDGET }.design()
}

struct Resolver<'a> {
    source: &'a str,
    diagnostics: &'a mut Vec<Diagnostic>,
    root: &'a Node,
    /// Patterns compiled so far: many fields of a design share one.
    patterns: HashMap<String, Result<Pattern, String>>,
    /// What is left of the size that all patterns may have.
    pattern_budget: usize,
}

/// The default of `limit`.
const DEFAULT_PAGE_SIZE: u32 = 100;
/// What most names are made of.
const LETTERS: &str = "use letters, digits and `_`, starting with a letter";

impl<'a> Resolver<'a> {
    fn design(&mut self) -> Option<Design> {
        let root = self.root;
        // A name or version that cannot be read has been reported; the rest is still checked.
        let name = root.text("name").unwrap_or_else(|| SpannedText { value: "unnamed".to_owned(), span: 0..0 });
        if !is_system_name(&name.value) {
            let help = "use lower-case letters, digits and `-`, starting with a letter";
            self.bad_name(&name.span, &name.value, "system name", help);
        }
        let version = root.text("version").and_then(|text| self.version(&text));
        let tenant = self.tenant(root.get("tenant")?)?;
        let http = root.get("http");
        let http_prefix = http.and_then(|http| http.text("prefix"));
        if let Some(prefix) = &http_prefix
            && (!prefix.value.starts_with('/')
                || prefix.value.ends_with('/')
                || prefix.value.contains(['{', ' ', '?', '#']))
        {
            codes::BAD_PATH
                .report(self.diagnostics, &prefix.span, format!("`{}` is not a valid path prefix", prefix.value))
                .help("write it like `/v1`: with a slash at the start, without one at the end");
        }
        let mut design = Design {
            database: root.string("database").unwrap_or_else(|| name.value.clone()),
            name: name.value,
            version: version.unwrap_or(Version { major: 1, minor: 0 }),
            description: root.string("description"),
            tenant,
            http_prefix: http_prefix.map_or_else(String::new, |prefix| prefix.value),
            visitors: http.and_then(|http| http.boolean("visitors")).unwrap_or(false),
            tables: Vec::new(),
            entities: Vec::new(),
            access_patterns: Vec::new(),
            aggregates: Vec::new(),
            audit: None,
            roles: Vec::new(),
            unread: Vec::new(),
            visitors_span: http.and_then(|http| http.get("visitors")).map_or(0..0, |node| node.span.clone()),
        };
        for entry in self.named("table") {
            design.tables.extend(self.table(entry));
        }
        for entry in self.named("entity") {
            match self.entity(entry, &design) {
                Some(entity) => design.entities.push(entity),
                None => design.unread.push(entry.key.clone()),
            }
        }
        for entry in self.named("access") {
            design.access_patterns.extend(self.access(entry, &design));
        }
        for entry in self.named("aggregate") {
            design.aggregates.extend(self.aggregate(entry, &design));
        }
        design.audit = root.get("audit").and_then(|node| self.audit(node, &design));
        for entry in self.named("role") {
            design.roles.push(self.role(entry, &design));
        }
        Some(design)
    }

    /// The entries of a section with valid names.
    fn named(&mut self, section: &str) -> Vec<&'a Entry> {
        let root = self.root;
        let (good, bad): (Vec<_>, Vec<_>) = root.section(section).iter().partition(|entry| is_field_name(&entry.key));
        for entry in bad {
            self.bad_name(&entry.key_span, &entry.key, "name", LETTERS);
        }
        good
    }

    fn bad_name(&mut self, span: &Span, name: &str, what: &str, help: &str) {
        codes::BAD_NAME.report(self.diagnostics, span, format!("`{name}` is not a valid {what}")).help(help);
    }

    fn version(&mut self, text: &SpannedText) -> Option<Version> {
        let version = text.value.parse().ok();
        if version.is_none() {
            codes::BAD_VERSION
                .report(self.diagnostics, &text.span, format!("`{}` is not a version", text.value))
                .help("write `major.minor`, such as `\"1.0\"`");
        }
        version
    }

    fn tenant(&mut self, node: &Node) -> Option<Tenant> {
        let field = node.text("field")?;
        self.field_name(&field);
        let tenant = Tenant {
            claim: node.string("claim").unwrap_or_else(|| field.value.clone()),
            system: node.string("system"),
            roles: node.string("roles").unwrap_or_else(|| "roles".to_owned()),
            member_of: node.string("member_of"),
            operator: node.string("operator").unwrap_or_else(|| "operatorRoles".to_owned()),
            span: field.span,
            field: field.value,
        };
        self.operator_claim(node, &tenant);
        Some(tenant)
    }

    /// Reports a claim of operators that means something else too: whoever sets the one would set the other.
    fn operator_claim(&mut self, node: &Node, tenant: &Tenant) {
        let others =
            [("claim", Some(&tenant.claim)), ("roles", Some(&tenant.roles)), ("member_of", tenant.member_of.as_ref())];
        for (key, _) in others.into_iter().filter(|(_, claim)| *claim == Some(&tenant.operator)) {
            let span = node.text("operator").or_else(|| node.text(key)).map_or(tenant.span.clone(), |text| text.span);
            let message = format!("the claim `{}` is that of `{key}` and that of operators", tenant.operator);
            codes::SHARED_OPERATOR_CLAIM
                .report(self.diagnostics, &span, message)
                .help("name a claim that only the issuer of your operators' tokens sets: `operator = \"…\"`");
        }
    }

    fn field_name(&mut self, text: &SpannedText) {
        if !is_field_name(&text.value) {
            self.bad_name(&text.span, &text.value, "field name", LETTERS);
        }
    }

    fn table(&mut self, entry: &Entry) -> Option<Table> {
        let node = &entry.node;
        let name = node.text("name");
        let throughput = node.get("throughput").and_then(|node| Some((node.integer("min")?, node.integer("max")?)));
        if let Some((min, max)) = throughput
            && !(1..=max).contains(&min)
        {
            let span = node.get("throughput").map_or(entry.key_span.clone(), |node| node.span.clone());
            codes::EMPTY_RANGE
                .report(self.diagnostics, &span, format!("the throughput range {min} to {max} is not possible"))
                .help("`min` is at least 1, and `max` at least `min`");
        }
        let mut indexes = Vec::new();
        for entry in node.section("index") {
            self.index_name(entry);
            indexes.extend(self.attributes(&entry.node).map(|key| Index {
                name: entry.key.clone(),
                key,
                span: entry.key_span.clone(),
            }));
        }
        let indexing = node.get("indexing").map(|policy| Indexing {
            mode: policy.string("mode").unwrap_or_else(|| "consistent".to_owned()),
            automatic: policy.boolean("automatic").unwrap_or(true),
            include: values(policy.texts("include")),
            exclude: values(policy.texts("exclude")),
        });
        Some(Table {
            id: entry.key.clone(),
            name_span: name.as_ref().map_or(entry.key_span.clone(), |name| name.span.clone()),
            name: name.map_or_else(|| format!("{{base}}-{}", entry.key), |name| name.value),
            description: node.string("description"),
            key: self.attributes(node.get("key")?)?,
            indexes,
            discriminator: self.attribute(node.text("discriminator")),
            ttl: self.attribute(node.text("ttl")),
            point_in_time: node.string("recovery").as_deref() == Some("point-in-time"),
            kms: node.string("encryption").as_deref() == Some("kms"),
            stream: node.boolean("stream").unwrap_or(false),
            throughput,
            consistency: node.string("consistency"),
            indexing,
            span: entry.key_span.clone(),
        })
    }

    fn index_name(&mut self, entry: &Entry) {
        let good = (3..=255).contains(&entry.key.len())
            && entry.key.chars().all(|each| each.is_ascii_alphanumeric() || "_.-".contains(each));
        if !good {
            let help = "use 3 to 255 letters, digits, `_`, `-` and `.`";
            self.bad_name(&entry.key_span, &entry.key, "index name", help);
        }
    }

    fn attributes(&mut self, node: &Node) -> Option<KeyAttributes> {
        let [partition, sort] = node.pair()?;
        if partition.value == sort.value {
            let message = format!("`{}` cannot be both parts of a key", sort.value);
            codes::KEY_ATTRIBUTES.report(self.diagnostics, &node.span, message).help("name two different attributes");
            return None;
        }
        Some(KeyAttributes { partition: self.attribute(Some(partition))?, sort: self.attribute(Some(sort))? })
    }

    fn attribute(&mut self, text: Option<SpannedText>) -> Option<String> {
        let text = text?;
        // An index mapping has other keys besides its attributes.
        let taken = matches!(text.value.as_str(), "wall" | "when");
        if !is_field_name(&text.value) || text.value.len() > 255 || taken {
            let other = "`wall` and `when` mean something else in an index mapping: use another name";
            self.bad_name(&text.span, &text.value, "attribute name", if taken { other } else { LETTERS });
            return None;
        }
        Some(text.value)
    }

    /// The position of a name, or a report that it does not exist.
    fn resolve<'n>(
        &mut self,
        what: &str,
        text: &SpannedText,
        names: impl Iterator<Item = &'n str> + Clone,
        section: &str,
    ) -> Option<usize> {
        let found = names.clone().position(|name| name == text.value);
        // A declared part that was left out has already been reported.
        if found.is_none() && !self.root.section(section).iter().any(|entry| entry.key == text.value) {
            let message = format!("there is no {what} `{}`", text.value);
            codes::UNKNOWN_NAME.report(self.diagnostics, &text.span, message).help(did_you_mean(&text.value, names));
        }
        found
    }

    fn condition(&mut self, text: &SpannedText) -> Option<Condition> {
        match condition::parse(&text.value) {
            Ok(condition) => Some(condition),
            Err(error) => {
                let span = text.span_of(self.source, error.range);
                codes::CONDITION_SYNTAX.report(self.diagnostics, &span, error.message).help(
                    "write it like `completed = false`, `status in ('open', 'done')` or `exists taskId and not \
                     isPrivate = true`",
                );
                None
            }
        }
    }

    fn span_of(&self, text: &SpannedText, range: &Span) -> Span {
        text.span_of(self.source, range.clone())
    }
}

fn values(texts: Vec<SpannedText>) -> Vec<String> {
    texts.into_iter().map(|text| text.value).collect()
}

fn is_system_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit() || each == '-')
}
