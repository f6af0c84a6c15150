//! A design as JSON, for programs that build on it.

use serde_json::{Value, json};

use crate::{
    audit::AuditPart,
    design::{Design, KeyAttributes, KeyTemplates},
};

/// Tables, entities and access patterns of a design, with the query of each pattern.
pub fn json(design: &Design) -> Value {
    let attributes = |key: &KeyAttributes| json!([key.partition, key.sort]);
    let templates = |attributes: &KeyAttributes, key: &KeyTemplates| -> Value {
        let pairs = [(&attributes.partition, &key.partition), (&attributes.sort, &key.sort)];
        pairs.into_iter().map(|(name, template)| (name.clone(), Value::from(template.as_str()))).collect()
    };
    let tables = design.tables.iter().map(|table| {
        let indexes = table.indexes.iter().map(|index| (index.name.clone(), attributes(&index.key)));
        json!({
            "id": table.id,
            "name": table.physical_name(&design.name),
            "key": attributes(&table.key),
            "indexes": indexes.collect::<Value>(),
            "ttl": table.ttl,
            "stream": table.stream,
        })
    });
    let entities = design.entities.iter().map(|entity| {
        let table = design.table_of(entity);
        let indexes = entity.indexes.iter().map(|mapping| {
            let mut value = templates(&table.indexes[mapping.index].key, &mapping.key);
            value["wall"] = mapping.wall.to_string().into();
            value["when"] = mapping.when.as_ref().map(ToString::to_string).into();
            (mapping.name.clone(), value)
        });
        let fields = entity.fields.iter().map(|field| {
            let about = json!({
                "type": field.field_type.name(),
                "optional": field.optional,
                "personal": field.personal,
                "secret": field.secret,
                "immutable": field.immutable,
                "readonly": field.why_not_writable().is_some(),
                "since": field.since.as_ref().map(ToString::to_string),
            });
            (field.name.clone(), about)
        });
        json!({
            "name": entity.name,
            "table": table.id,
            "path": entity.path,
            "itemPath": entity.item_path(),
            "routes": entity.routes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "wall": entity.wall.to_string(),
            "tenant": entity.tenant,
            "owner": entity.owner,
            "key": templates(&table.key, &entity.key),
            "indexes": indexes.collect::<Value>(),
            "fields": fields.collect::<Value>(),
            "audited": design.is_audited(entity),
            "example": design.example(entity),
        })
    });
    let access_patterns = design.access_patterns.iter().map(|access| {
        let query = design.query_outline(access, &[]);
        json!({
            "name": access.name,
            "entity": design.entities[access.entity].name,
            "path": access.path,
            "wall": design.wall_of(access).to_string(),
            "index": query.index,
            "query": query.to_string(),
            "filter": access.filter.as_ref().map(ToString::to_string),
            "parameters": design.parameters(access).into_iter().map(|each| each.name).collect::<Vec<_>>(),
            "returns": access.returns.name(),
        })
    });
    let audit = design.audit.as_ref().zip(design.audit_entity()).map(|(audit, entity)| {
        let field = |part: AuditPart| Some((part.name().to_owned(), Value::from(audit.field(part)?)));
        let fields = AuditPart::ALL.into_iter().filter_map(field);
        let archive = audit
            .archive
            .as_ref()
            .map(|archive| json!({ "entity": design.entities[archive.entity].name, "after": archive.after }));
        json!({ "entity": entity.name, "fields": fields.collect::<Value>(), "archive": archive })
    });
    let roles = design.roles.iter().map(|role| {
        json!({
            "name": role.name,
            "description": role.description,
            "may": role.may.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "operator": role.operator,
        })
    });
    json!({
        "name": design.name,
        "version": design.version.to_string(),
        "tenant": {
            "field": design.tenant.field,
            "claim": design.tenant.claim,
            "system": design.tenant.system,
            "roles": design.tenant.roles,
            "memberOf": design.tenant.member_of,
            "operator": design.tenant.operator,
        },
        "http": { "prefix": design.http_prefix, "visitors": design.visitors },
        "tables": tables.collect::<Vec<_>>(),
        "entities": entities.collect::<Vec<_>>(),
        "accessPatterns": access_patterns.collect::<Vec<_>>(),
        "audit": audit,
        "roles": roles.collect::<Vec<_>>(),
    })
}
