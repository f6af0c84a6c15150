//! Walls: every entity and every index separates tenants, or declares another wall.

use crate::{
    codes,
    design::{Design, Entity, IndexMapping, KeyTemplates, Wall},
    diagnostic::{Diagnostic, Span, a, list},
    language::Languages,
    template::{Part, Template},
    text_syntax::{ScalarType, StringFormat},
    tree::SpannedText,
};

pub(super) fn check(design: &Design, source: &str, languages: &mut Languages, diagnostics: &mut Vec<Diagnostic>) {
    for (at, entity) in design.entities.iter().enumerate() {
        tenant_field(design, entity, diagnostics);
        entity_wall(entity, diagnostics);
        former_walls(entity, diagnostics);
        for mapping in &entity.indexes {
            index_wall(entity, mapping, diagnostics);
        }
        personal_in_keys(design, entity, source, diagnostics);
        for other in design.entities[at..].iter().filter(|other| other.table == entity.table) {
            shared_partitions(design, entity, other, languages, diagnostics);
        }
    }
    // An entity that could not be read may be public.
    let public = design.entities.iter().any(|entity| entity.wall == Wall::Public);
    if design.visitors && !public && design.unread.is_empty() {
        codes::DOES_NOT_APPLY
            .report(diagnostics, &design.visitors_span, "`visitors` can read public entities, but the design has none")
            .help("remove it, or give an entity `wall = \"public\"`");
    }
}

fn tenant_field(design: &Design, entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let Some((path, field)) = entity.tenant.as_ref().and_then(|path| Some((path, entity.field(path)?))) else { return };
    let span = entity.spans.tenant.clone().unwrap_or_else(|| field.span.clone());
    let textual = field
        .text_syntax
        .as_ref()
        .is_some_and(|form| matches!(form.scalar_type, ScalarType::Text | ScalarType::Ulid | ScalarType::Uuid));
    if !textual {
        let message = format!("`{path}` is {}, which cannot identify a tenant", a(field.field_type.name()));
        codes::NO_TENANT_FIELD.report(diagnostics, &span, message).help("use a string, ulid or uuid");
    } else if field.text_syntax.as_ref().is_some_and(|form| form.format == Some(StringFormat::Email)) {
        let message = format!("`{path}` is an e-mail address, and keys contain addresses without case");
        let help = "identify tenants by an id: two tenants whose names differ in case would share a partition";
        codes::NO_TENANT_FIELD.report(diagnostics, &span, message).help(help);
    } else if entity.is_optional(path) {
        codes::NO_TENANT_FIELD
            .report(diagnostics, &span, format!("`{path}` is optional, but an item without a tenant is behind no wall"))
            .also(&design.tenant.span, "the tenant of the design")
            .help("make it required");
    }
}

fn carries_tenant(entity: &Entity, key: &KeyTemplates) -> bool {
    entity.tenant.as_deref().is_some_and(|tenant| key.partition.fields().any(|path| path == tenant))
}

fn entity_wall(entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let partition = &entity.key.partition;
    match (entity.wall, &entity.spans.wall) {
        (Wall::Key, declared) if entity.tenant.is_some() && !carries_tenant(entity, &entity.key) => {
            let tenant = entity.tenant.as_deref().unwrap_or_default();
            let help = format!(
                "put `{{{tenant}}}` into the partition, or declare another wall: `wall = \"attribute\"`, `\"public\"` \
                 or `\"system\"`"
            );
            let name = &entity.name;
            match declared {
                Some(declared) => {
                    let message = format!("the partition of `{name}` does not contain the tenant");
                    codes::WALL_NOT_IN_KEY
                        .report(diagnostics, &partition.span, message)
                        .also(declared, "this declares the wall in the key")
                        .help(help);
                }
                None => {
                    let message = format!("`{name}` has no wall: tenants would share this partition");
                    codes::NO_WALL.report(diagnostics, &partition.span, message).here("no tenant here").help(help);
                }
            }
        }
        (Wall::Key | Wall::Attribute, _) if entity.spans.tenantless => {
            let message = format!("`{}` belongs to no tenant, so it needs a wall without one", entity.name);
            let help = "declare it: `wall = \"public\"` or `\"system\"`";
            codes::NO_WALL.report(diagnostics, &entity.span, message).help(help);
        }
        (Wall::Attribute, declared) => {
            attribute_wall(&entity.name, declared.as_ref().unwrap_or(&entity.span), diagnostics);
        }
        (Wall::Public, _) if entity.tenant.is_none() && entity.spans.tenant.is_none() => codes::NO_OWNER
            .report(diagnostics, &entity.span, format!("`{}` is public, but has no owner who writes it", entity.name))
            .help("name the owner's field with `tenant = \"…\"`, or write `tenant = false` if only operators write it"),
        _ => {}
    }
    if matches!(entity.wall, Wall::Public | Wall::System) {
        exposed(entity, entity.wall, entity.spans.wall.as_ref().unwrap_or(&entity.span), diagnostics);
    }
}

fn index_wall(entity: &Entity, mapping: &IndexMapping, diagnostics: &mut Vec<Diagnostic>) {
    let span = mapping.wall_span.as_ref().unwrap_or(&mapping.span);
    let wider = matches!(
        (entity.wall, mapping.wall),
        (Wall::System, Wall::Key | Wall::Attribute | Wall::Public) | (Wall::Key | Wall::Attribute, Wall::Public)
    );
    if wider {
        let message =
            format!("the wall of `{}` is `{}`, and the wall of this index is wider", entity.name, entity.wall);
        codes::WIDER_INDEX_WALL.report(diagnostics, span, message).help(
            "an index can have a narrower wall than its entity, not a wider one: remove `wall` or write `\"system\"`",
        );
        return;
    }
    let carries = carries_tenant(entity, &mapping.key);
    match mapping.wall {
        Wall::Key if !carries && (entity.tenant.is_some() || mapping.wall_span.is_some()) => {
            let tenant = entity.tenant.as_deref().unwrap_or_default();
            let message =
                format!("the partition of `{}` does not contain the tenant of `{}`", mapping.name, entity.name);
            codes::WALL_NOT_IN_INDEX
                .report(diagnostics, &mapping.key.partition.span, message)
                .here("tenants would share this partition")
                .help(format!(
                    "put `{{{tenant}}}` into it, or declare another wall: `wall = \"system\"` for operators only, \
                     `\"attribute\"` to check each item"
                ));
        }
        Wall::Attribute if mapping.wall_span.is_some() => attribute_wall(&mapping.name, span, diagnostics),
        _ => {}
    }
    if mapping.wall_span.is_some() && mapping.wall != entity.wall && matches!(mapping.wall, Wall::Public | Wall::System)
    {
        exposed(entity, mapping.wall, span, diagnostics);
    }
}

/// Former keys are behind the same wall.
fn former_walls(entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    for former in &entity.former_keys {
        if entity.wall == Wall::Key && entity.tenant.is_some() && !carries_tenant(entity, former) {
            let message = format!("the former partition of `{}` does not contain the tenant", entity.name);
            let help = "move such items to a key with the tenant before they are read";
            codes::WALL_NOT_IN_KEY.report(diagnostics, &former.partition.span, message).help(help);
        }
    }
}

/// The partitions of an entity in its table and in an index, each with its wall.
fn partitions(entity: &Entity, index: Option<usize>) -> Vec<(&Template, Wall)> {
    match index {
        None => {
            let former = entity.former_keys.iter().map(|former| &former.partition);
            std::iter::once(&entity.key.partition).chain(former).map(|partition| (partition, entity.wall)).collect()
        }
        Some(index) => {
            let mappings = entity.indexes.iter().filter(|mapping| mapping.index == index);
            mappings.map(|mapping| (&mapping.key.partition, mapping.wall)).collect()
        }
    }
}

/// Reports partitions that two tenants can share, such as `{tenant}#{x}` and `{x}#{tenant}`, or `T#{tenant}` and a public
/// `T#{slug}`.
fn shared_partitions(
    design: &Design,
    entity: &Entity,
    other: &Entity,
    languages: &mut Languages,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let places = std::iter::once(None).chain((0..design.table_of(entity).indexes.len()).map(Some));
    for place in places {
        for (at, (mine, my_wall)) in partitions(entity, place).into_iter().enumerate() {
            // Within one entity, each pair of templates is compared once.
            let first = if entity.name == other.name { at + 1 } else { 0 };
            for (theirs, their_wall) in partitions(other, place).into_iter().skip(first) {
                let walled = my_wall == Wall::Key || their_wall == Wall::Key;
                let tenant_scoped = |wall: Wall| matches!(wall, Wall::Key | Wall::Attribute);
                let alike = my_wall == their_wall || tenant_scoped(my_wall) && tenant_scoped(their_wall);
                let same = alike && up_to_tenant(entity, mine) == up_to_tenant(other, theirs);
                if !walled || same || is_system(design, mine) || is_system(design, theirs) {
                    continue;
                }
                let Some(shared) = languages.common_key(mine, theirs) else { continue };
                let message =
                    format!("`{}` and `{}` items of different tenants can share a partition", entity.name, other.name);
                let help = if alike {
                    "put the tenant at the same position in both, after the same constant and before `#`; start other \
                     partitions with a different constant"
                        .to_owned()
                } else {
                    format!(
                        "`{}` has the wall `{}`, and `{}` has `{}`: give both the same wall, or start their partitions with \
                         different constants",
                        entity.name,
                        my_wall.name(),
                        other.name,
                        their_wall.name()
                    )
                };
                codes::SHARED_PARTITION
                    .report(diagnostics, &theirs.span, message)
                    .here(format!("such as `{shared}`"))
                    .also(&mine.span, "the other partition")
                    .help(help);
            }
        }
    }
}

/// Whether a partition belongs to the system: a constant with the system tenant, which no other tenant can be.
fn is_system(design: &Design, template: &Template) -> bool {
    let system = design.tenant.system.as_deref();
    template.is_constant() && system.is_some_and(|system| template.as_str().split('#').any(|part| part == system))
}

/// The template up to the tenant, without field names: only the syntax and the end of each field matter.
fn up_to_tenant(entity: &Entity, template: &Template) -> Vec<String> {
    let is_tenant =
        |part: &Part| matches!(part, Part::Slot(slot) if Some(slot.path.as_str()) == entity.tenant.as_deref());
    let Some(tenant) = template.parts.iter().position(is_tenant) else { return vec![template.as_str().to_owned()] };
    let shape = |part: &Part| match part {
        Part::Literal(literal) => literal.clone(),
        Part::Slot(slot) => format!("{{{:?} {:?}}}", slot.text_syntax.fixed_length(), slot.end),
    };
    template.parts[..=tenant].iter().map(shape).collect()
}

fn attribute_wall(name: &str, span: &Span, diagnostics: &mut Vec<Diagnostic>) {
    let message = format!("only a condition on each item protects `{name}`: no IAM leading-key policy can");
    let help = "put the tenant into the partition where you can; where you cannot, explain why: `# NG0105: …` above \
                this line";
    codes::ATTRIBUTE_WALL.report(diagnostics, span, message).help(help);
}

fn exposed(entity: &Entity, wall: Wall, span: &Span, diagnostics: &mut Vec<Diagnostic>) {
    let personal = entity.personal_fields();
    if personal.is_empty() {
        return;
    }
    let reader = if wall == Wall::Public { "every tenant reads" } else { "operators read across tenants" };
    codes::EXPOSED_PERSONAL_DATA
        .report(diagnostics, span, format!("{reader} the personal data of `{}`: {}", entity.name, list(&personal)))
        .help("remove it, or explain why it is needed: `# NG0106: …` above this line");
}

fn personal_in_keys(design: &Design, entity: &Entity, source: &str, diagnostics: &mut Vec<Diagnostic>) {
    let table = design.table_of(entity);
    for (attribute, template) in table.templates_of(entity) {
        let own = entity.field(attribute).is_some();
        for slot in template.slots().filter(|slot| !own && entity.is_personal(&slot.path)) {
            let text = SpannedText { value: template.as_str().to_owned(), span: template.span.clone() };
            let message = format!("`{}` is personal data, and keys appear in logs, metrics and cursors", slot.path);
            codes::PERSONAL_IN_KEY
                .report(diagnostics, &text.span_of(source, slot.range.clone()), message)
                .help("use an id or a hash of it, or explain why it is needed: `# NG0110: …` above this line");
        }
    }
}
