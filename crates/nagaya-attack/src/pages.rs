//! Pages of large items, which a client could use to fill the memory of a server.

use nagaya_design::{AccessPattern, Entity, Field, FieldType, ResultKind, Wall};
use nagaya_tenancy::MAX_PAGE_BYTES;
use serde_json::Value as Json;

use super::{
    cases, lists,
    scenario::{Failure, Scenario, expect, expect_tried},
    users::generated_items,
};

cases! {
    a_page_of_large_items_is_cut,
}

/// Bytes of the largest page, with what its last item may be over it.
const MAX_BYTES: usize = MAX_PAGE_BYTES + 400 * 1024;
/// Characters of a large field.
const LARGE: usize = 20_000;

async fn a_page_of_large_items_is_cut(scenario: &mut Scenario) -> Result<(), Failure> {
    let candidates = generated_items(scenario).into_iter().filter_map(|(name, fields)| {
        let entity = scenario.design.entity(&name)?;
        let field = entity.fields.iter().find(|field| is_large(entity, field))?;
        let access = scenario.design.access_patterns_of(entity).find(|access| is_whole(scenario, entity, access))?;
        Some((name, fields, field.name.clone(), access.clone()))
    });
    let found = candidates.into_iter().next();
    expect_tried(found.is_some(), "no list of large items")?;
    let Some((entity, mut fields, field, access)) = found else { return Ok(()) };
    fields.insert(field, "x".repeat(LARGE).into());
    let Some(list) = lists::list_of(scenario, &access, &fields) else { return Ok(()) };
    let (tenant, count) = (scenario.probe()?, 2 * MAX_BYTES / LARGE);
    for _ in 0..count {
        tenant.create(&entity, fields.clone()).await?;
    }
    let (mut seen, mut asked) = (0, list.clone().limit(1_000));
    loop {
        let page = tenant.list(&asked).await?;
        let bytes: usize = page.records.iter().map(|record| Json::Object(record.to_json()).to_string().len()).sum();
        expect(bytes <= MAX_BYTES, || format!("a page of {} has {bytes} bytes", access.name))?;
        seen += page.records.len();
        match page.next {
            Some(next) => asked = list.clone().limit(1_000).cursor(next),
            None => break,
        }
    }
    expect(seen >= count, || format!("{} shows {seen} of {count} items", access.name))?;
    scenario.refresh().await
}

/// Whether a field takes a large text, and no key has it.
fn is_large(entity: &Entity, field: &Field) -> bool {
    let is_text = matches!(field.field_type, FieldType::String) && field.reference.is_none() && !field.secret;
    let mut keys = entity.indexes.iter().map(|mapping| &mapping.key).chain([&entity.key]);
    is_text
        && field.accepts(&"x".repeat(LARGE).into())
        && !keys.any(|key| key.partition.fields().chain(key.sort.fields()).any(|path| path == field.name))
}

/// Whether an access pattern lists the items of the tenant whatever they are.
fn is_whole(scenario: &Scenario, entity: &Entity, access: &AccessPattern) -> bool {
    let parameters = scenario.design.parameters(access);
    access.returns == ResultKind::Many
        && access.filter.is_none()
        && access.projection.is_empty()
        && scenario.design.wall_of(access) == Wall::Key
        && access.mapping.is_none_or(|at| entity.indexes[at].when.is_none())
        && parameters.iter().all(|parameter| parameter.from_token || !parameter.required)
}
