//! A design as a Markdown document.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    describe::{anchor, code, codes, constraint_notes, duration, field_rows, role, verb_note, wall_in_words},
    diagram,
};
use crate::{
    audit::AuditPart,
    check::worst_case,
    design::{AccessPattern, Aggregate, Design, Entity, ResultKind, Table},
};

/// The document of a design, in Markdown with a Mermaid diagram.
pub fn markdown(design: &Design) -> String {
    let mut page = Page { out: String::new(), design };
    page.write_header();
    page.tables();
    page.entities();
    page.accesses();
    page.roles();
    page.aggregates();
    page.audit();
    page.out
}

struct Page<'d> {
    out: String,
    design: &'d Design,
}

impl Page<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    fn paragraph(&mut self, text: impl AsRef<str>) {
        self.line(text);
        self.line("");
    }

    fn description(&mut self, text: Option<&str>) {
        text.into_iter().for_each(|text| self.paragraph(text));
    }

    fn bullets(&mut self, notes: Vec<String>) {
        notes.into_iter().for_each(|note| self.line(format!("- {note}")));
        self.line("");
    }

    fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        self.line(format!("| {} |", header.join(" | ")));
        self.line(format!("|{}", " --- |".repeat(header.len())));
        for row in rows {
            let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
            self.line(format!("| {} |", cells.join(" | ")));
        }
        self.line("");
    }

    fn write_header(&mut self) {
        let design = self.design;
        self.paragraph(format!("# {}", design.name));
        self.description(design.description.as_deref());
        let tenant = &design.tenant;
        let system = match &tenant.system {
            Some(system) => format!(" The tenant {} owns the items of the system itself.", code(system)),
            None => String::new(),
        };
        let member_of = match &tenant.member_of {
            Some(claim) => {
                format!(" The tenant has to be one of those that the token lists in its claim {}.", code(claim))
            }
            None => String::new(),
        };
        let operator = match design.operator_roles().as_slice() {
            [] => String::new(),
            _ => format!(" Operators have their roles in the claim {}.", code(&tenant.operator)),
        };
        let visitors = if design.visitors { " Public items can be read without a token." } else { "" };
        self.paragraph(format!(
            "Design version {}. A tenant is named by the field {}, which comes from the token's claim {} and never from a \
             request.{member_of}{operator}{system}{visitors}",
            design.version,
            code(&tenant.field),
            code(&tenant.claim),
        ));
        self.paragraph("## Overview");
        self.line("```mermaid");
        let diagram = diagram::mermaid(design);
        self.line(diagram.trim_end());
        self.paragraph("```");
    }

    fn tables(&mut self) {
        self.paragraph("## Tables");
        self.paragraph(format!(
            "{} is {} or, when that is not set, {}.",
            code("{base}"),
            code("DYNAMODB_TABLE_NAME"),
            code(&self.design.name)
        ));
        for table in &self.design.tables {
            self.one_table(table);
        }
    }

    fn one_table(&mut self, table: &Table) {
        self.paragraph(format!("### {}", code(&table.name)));
        self.description(table.description.as_deref());
        let mut keys = vec![vec!["table".to_owned(), code(&table.key.partition), code(&table.key.sort)]];
        keys.extend(
            table
                .indexes
                .iter()
                .map(|index| vec![code(&index.name), code(&index.key.partition), code(&index.key.sort)]),
        );
        self.table(&["key", "partition", "sort"], &keys);
        let mut settings = Vec::new();
        settings.extend(table.ttl.as_ref().map(|ttl| format!("Items expire at {} (seconds since 1970).", code(ttl))));
        settings
            .extend(table.discriminator.as_ref().map(|name| format!("{} says which entity an item is.", code(name))));
        settings.push(match table.throughput {
            None => "Paid per request.".to_owned(),
            Some((min, max)) => format!("Scales from {min} to {max} units (RU/s) a second."),
        });
        settings.push(match table.kms {
            true => "Encrypted with a customer-managed key (KMS).".to_owned(),
            false => "Encrypted with the store's key.".to_owned(),
        });
        settings.extend(table.point_in_time.then(|| "Can be restored to a past time.".to_owned()));
        settings.extend(table.stream.then(|| "Changes are streamed.".to_owned()));
        settings.extend(table.consistency.as_ref().map(|level| format!("Consistency (Cosmos DB): {level}.")));
        settings.extend(table.indexing.as_ref().map(|policy| {
            let mut text = format!("Indexing policy (Cosmos DB): {}", policy.mode);
            for (what, paths) in [("include", &policy.include), ("exclude", &policy.exclude)] {
                if !paths.is_empty() {
                    let _ = write!(text, ", {what} {}", codes(paths));
                }
            }
            text + "."
        }));
        self.bullets(settings);
    }

    fn entities(&mut self) {
        self.paragraph("## Entities");
        let rows: Vec<_> = self
            .design
            .entities
            .iter()
            .map(|entity| {
                vec![
                    format!("[{}](#{})", entity.name, anchor(&entity.name)),
                    code(&self.design.table_of(entity).name),
                    code(entity.key.partition.as_str()),
                    code(entity.key.sort.as_str()),
                    entity.wall.to_string(),
                ]
            })
            .collect();
        self.table(&["entity", "table", "partition", "sort", "wall"], &rows);
        for entity in &self.design.entities {
            self.entity(entity);
        }
    }

    fn entity(&mut self, entity: &Entity) {
        let table = self.design.table_of(entity);
        self.paragraph(format!("### {}", entity.name));
        self.description(entity.description.as_deref());
        self.paragraph(wall_in_words(entity));
        let key = |attribute: &str, template: &str| format!("{} = {}", code(attribute), code(template));
        let mut rows = vec![vec![
            code(&table.name),
            key(&table.key.partition, entity.key.partition.as_str()),
            key(&table.key.sort, entity.key.sort.as_str()),
            String::new(),
        ]];
        for mapping in &entity.indexes {
            let attributes = &table.indexes[mapping.index].key;
            let mut notes = Vec::new();
            if mapping.wall != entity.wall {
                notes.push(format!("wall {}", mapping.wall));
            }
            notes.extend(mapping.when.as_ref().map(|when| format!("only while {}", code(&when.to_string()))));
            rows.push(vec![
                code(&mapping.name),
                key(&attributes.partition, mapping.key.partition.as_str()),
                key(&attributes.sort, mapping.key.sort.as_str()),
                notes.join(", "),
            ]);
        }
        self.table(&["key", "partition", "sort", "notes"], &rows);
        let mut rows = Vec::new();
        field_rows(&entity.fields, "", &mut rows);
        self.table(&["field", "type", "default", "notes"], &rows);
        let mut notes = vec![self.reached(entity)];
        notes.extend(constraint_notes(entity));
        notes.push(format!("At most {} KB.", worst_case(self.design, entity).div_ceil(1024)));
        self.bullets(notes);
        self.line("```json");
        self.line(format!("{:#}", Value::Object(self.design.example(entity))));
        self.paragraph("```");
    }

    /// The HTTP paths of an entity.
    fn reached(&self, entity: &Entity) -> String {
        let path = |path: &str| code(&format!("{}{path}", self.design.http_prefix));
        let item = path(&entity.item_path());
        let at = self.design.entities.iter().position(|each| each.name == entity.name);
        let aggregate = self.design.aggregates.iter().find(|aggregate| at.is_some_and(|at| aggregate.has_entity(at)));
        match aggregate {
            Some(aggregate) if at.is_some_and(|at| aggregate.projections.contains(&at)) => {
                format!(
                    "HTTP path of one item {item}, for reading: it is built from the events of {}.",
                    code(&aggregate.name)
                )
            }
            Some(aggregate) => format!("No HTTP path of its own: the commands of {} write it.", code(&aggregate.name)),
            None if entity.routes.is_empty() => "No HTTP routes but those of its access patterns.".to_owned(),
            None if entity.id_fields().is_empty() => format!("HTTP path {}{}.", path(&entity.path), verb_note(entity)),
            None => format!("HTTP path {}, of one item {item}{}.", path(&entity.path), verb_note(entity)),
        }
    }

    fn accesses(&mut self) {
        if self.design.access_patterns.is_empty() {
            return;
        }
        self.paragraph("## Access patterns");
        self.paragraph("These are the only ways to list items. A single item is read by its key.");
        let rows: Vec<_> = self.design.access_patterns.iter().map(|access| self.access(access)).collect();
        self.table(&["pattern", "gives", "query", "parameters", "HTTP path", "wall"], &rows);
    }

    fn access(&self, access: &AccessPattern) -> Vec<String> {
        let design = self.design;
        let entity = &design.entities[access.entity];
        let query = design.query_outline(access, &[]);
        let place = match &query.index {
            Some(index) => format!("{} {}", code(&design.table_of(entity).name), code(index)),
            None => code(&design.table_of(entity).name),
        };
        let mut text = format!("{place}<br>{}", code(&query.to_string()));
        if let Some(filter) = &access.filter {
            let _ = write!(text, "<br>filter {}", code(&filter.to_string()));
        }
        if !access.projection.is_empty() {
            let _ = write!(text, "<br>only {}", codes(&access.projection));
        }
        let gives = match access.returns {
            ResultKind::Many if access.descending => format!("{}, last first", entity.name),
            ResultKind::Many => entity.name.clone(),
            ResultKind::One => format!("one {}", entity.name),
            ResultKind::Count => format!("number of {}", entity.name),
        };
        let parameters: Vec<_> = design
            .parameters(access)
            .iter()
            .map(|parameter| match (parameter.from_token, parameter.required) {
                (true, _) => format!("{} (token)", code(&parameter.name)),
                (false, true) => code(&parameter.name),
                (false, false) => format!("{} (optional)", code(&parameter.name)),
            })
            .collect();
        let name = match &access.description {
            Some(description) => format!("{}<br>{description}", code(&access.name)),
            None => code(&access.name),
        };
        let path = match &access.path {
            Some(path) => code(&format!("{}{path}", design.http_prefix)),
            None => "none".to_owned(),
        };
        vec![name, gives, text, parameters.join(", "), path, design.wall_of(access).to_string()]
    }

    fn roles(&mut self) {
        let design = self.design;
        if design.roles.is_empty() {
            return;
        }
        self.paragraph("## Roles");
        self.paragraph(format!(
            "The token's claim {} names the caller's roles. What none of them permits is refused, on one's own side of the \
             wall too. To list is to read.",
            code(&design.tenant.roles)
        ));
        let rows: Vec<_> = design.roles.iter().map(role).collect();
        self.table(&["role", "may", "notes"], &rows);
    }

    fn aggregates(&mut self) {
        if self.design.aggregates.is_empty() {
            return;
        }
        self.paragraph("## Aggregates");
        for aggregate in &self.design.aggregates {
            self.aggregate(aggregate);
        }
    }

    fn audit(&mut self) {
        let design = self.design;
        let (Some(audit), Some(entity)) = (&design.audit, design.audit_entity()) else { return };
        self.paragraph("## Audit");
        self.paragraph(format!(
            "Every change is recorded as an entry in {} of its tenant, in the same write. Personal data is masked, secrets are left out.",
            code(&entity.name)
        ));
        let rows: Vec<_> = AuditPart::ALL
            .into_iter()
            .filter_map(|part| Some(vec![part.name().to_owned(), code(audit.field(part)?)]))
            .collect();
        self.table(&["part", "field"], &rows);
        if let (Some(archive), Some(archived)) = (&audit.archive, design.audit_archive_entity()) {
            let age = duration(archive.after);
            self.paragraph(format!("Entries that are {age} old move to {}.", code(&archived.name)));
        }
        let unseen: Vec<_> = design.entities.iter().filter(|each| !each.audited).map(|each| code(&each.name)).collect();
        if !unseen.is_empty() {
            self.paragraph(format!("Not recorded: changes of {}.", unseen.join(", ")));
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate) {
        let name = |at: usize| code(&self.design.entities[at].name);
        let mut text =
            format!("Events are {} items, its version is in {}", name(aggregate.events), name(aggregate.head));
        let others = [
            (aggregate.idempotency, "repeated requests are recognized by"),
            (aggregate.snapshot, "snapshots of its state are in"),
            (aggregate.keys, "personal fields are encrypted with keys in"),
        ];
        for (at, what) in others.into_iter().filter_map(|(at, what)| Some((at?, what))) {
            let _ = write!(text, ", {what} {}", name(at));
        }
        let projections: Vec<_> = aggregate.projections.iter().map(|at| name(*at)).collect();
        if !projections.is_empty() {
            let _ = write!(text, "; {} is built from its events", projections.join(", "));
        }
        self.paragraph(format!("### aggregate {}", aggregate.name));
        self.description(aggregate.description.as_deref());
        self.paragraph(text + ".");
        let rows: Vec<_> = aggregate
            .event_types
            .iter()
            .map(|event| {
                let fields: Vec<_> = event
                    .fields
                    .iter()
                    .map(|field| format!("{} {}", code(&field.name), field.field_type.name()))
                    .collect();
                vec![code(&event.name), fields.join(", ")]
            })
            .collect();
        self.table(&["event", "data"], &rows);
    }
}
