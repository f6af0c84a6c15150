//! Cursors of others, cursors for something else, cursors that were tampered with.

use nagaya_design::{ResultKind, Wall};

use super::{
    cases,
    environment::{principal, settings},
    scenario::{Failure, Scenario, expect, expect_tried},
    users,
};
use nagaya_tenancy::{Error, IdGenerator, List, Nagaya, Page, Tenant};

cases! {
    a_cursor_of_another_tenant_is_refused,
    a_cursor_of_another_user_is_refused,
    a_cursor_of_another_query_is_refused,
    a_cursor_of_another_design_or_key_is_refused,
    a_cursor_that_was_tampered_with_is_refused,
    cursors_are_not_shared_between_tenants_and_operators,
}

/// The pages that a tenant can turn: lists, each with the cursor after its first item.
async fn page_cursors(scenario: &Scenario, tenant: &Tenant) -> Result<Vec<(List, String)>, Failure> {
    let mut found = Vec::new();
    for (access, list) in scenario.sample(scenario.lists.clone()) {
        let list = list.limit(1);
        if let Some(next) = tenant.list(&list).await?.next.filter(|_| access.returns == ResultKind::Many) {
            found.push((list, next));
        }
    }
    expect_tried(!found.is_empty(), "no list of two items")?;
    Ok(found)
}

/// Refused, and without a word about why.
fn refused(answer: Result<Page, Error>, what: &str) -> Result<(), Failure> {
    match answer {
        Err(error) if error.code() == "bad_cursor" => {
            let text = "the cursor cannot be used here; start from the first page";
            expect(error.to_string() == text, || format!("{what}: the text tells why: {error}"))
        }
        Err(error) => Err(Failure::new(format!("{what}: refused as `{}`: {error}", error.code()))),
        Ok(page) => Err(Failure::new(format!("{what}: it is taken, and gives {page:?}"))),
    }
}

async fn a_cursor_of_another_tenant_is_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let attacker = scenario.probe()?;
    for victim in scenario.victims.iter().take(2) {
        let victim = scenario.populated.others.tenant(&principal(victim))?;
        for (list, cursor) in page_cursors(scenario, &victim).await? {
            let other = victim.list(&list.clone().cursor(&cursor)).await;
            expect(other.is_ok(), || format!("{list:?}: the cursor is not good for its owner"))?;
            refused(attacker.list(&list.clone().cursor(&cursor)).await, &format!("{list:?} of {victim:?}"))?;
        }
    }
    Ok(())
}

/// A colleague, and a user of another issuer with the same id.
async fn a_cursor_of_another_user_is_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let owner = scenario.probe()?;
    let others = [
        ("a colleague", users::colleague(scenario)?),
        ("a colleague with own items", users::colleague(scenario)?.limited_to_own_items()),
        ("a namesake", users::namesake(scenario)?),
    ];
    for (list, cursor) in page_cursors(scenario, &owner).await? {
        let list = list.cursor(&cursor);
        expect(owner.list(&list).await.is_ok(), || format!("{list:?}: the cursor is not good for its owner"))?;
        for (who, other) in &others {
            refused(other.list(&list).await, &format!("{list:?} to {who}"))?;
        }
    }
    Ok(())
}

async fn a_cursor_of_another_query_is_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let attacker = scenario.probe()?;
    let page_cursors = page_cursors(scenario, &attacker).await?;
    let asked = scenario.sample(scenario.lists.clone());
    for (list, cursor) in &page_cursors {
        for (_, other) in asked.iter().map(|(access, other)| (access, other.clone().limit(1))) {
            if other != *list {
                refused(attacker.list(&other.clone().cursor(cursor)).await, &format!("{list:?} → {other:?}"))?;
            }
        }
    }
    for (access, list) in &asked {
        if let Some((_, cursor)) = page_cursors.iter().find(|(page_cursors, _)| *page_cursors == list.clone().limit(1))
        {
            let back = list.clone().descending(!access.descending).cursor(cursor);
            refused(attacker.list(&back).await, &format!("{list:?} the other way round"))?;
            // The page size is not part of the query.
            attacker.list(&list.clone().limit(3).cursor(cursor)).await?;
        }
    }
    Ok(())
}

async fn a_cursor_of_another_design_or_key_is_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let attacker = scenario.probe()?;
    let mut newer = scenario.design.clone();
    newer.version.minor += 1;
    let mut renamed = scenario.design.clone();
    renamed.name.push('x');
    let base = Some(scenario.design.name.clone());
    let mut key = settings(IdGenerator::sequential());
    let mut other = key.cursor_keys.newest();
    other[31] ^= 1;
    key.cursor_keys = other.into();
    let layers = [
        ("a newer design", newer, settings(IdGenerator::sequential())),
        ("another design", renamed, settings(IdGenerator::sequential())),
        ("another key", scenario.design.clone(), key),
    ];
    let page_cursors = page_cursors(scenario, &attacker).await?;
    for (what, design, settings) in layers {
        let settings = nagaya_tenancy::Settings { base: base.clone(), ..settings };
        let layer = Nagaya::open_with(design, scenario.populated.store.clone(), settings);
        let tenant = layer.tenant(&principal(&scenario.attacker))?;
        for (list, cursor) in &page_cursors {
            refused(tenant.list(&list.clone().cursor(cursor)).await, &format!("{list:?} of {what}"))?;
        }
    }
    Ok(())
}

async fn a_cursor_that_was_tampered_with_is_refused(scenario: &mut Scenario) -> Result<(), Failure> {
    let attacker = scenario.probe()?;
    for (list, cursor) in page_cursors(scenario, &attacker).await? {
        let letters = cursor.len();
        let mut forged = vec![String::new(), "A".to_owned(), "=".to_owned(), "ü".to_owned(), "A".repeat(32)];
        forged.extend((0..letters).step_by(5).chain([letters - 1]).map(|at| {
            let old = cursor.as_bytes()[at];
            let new = if old == b'A' { 'B' } else { 'A' };
            format!("{}{new}{}", &cursor[..at], &cursor[at + 1..])
        }));
        forged.extend((0..letters).step_by(7).map(|end| cursor[..end].to_owned()));
        forged.extend([format!("{cursor}A"), format!("{cursor}="), format!("A{cursor}"), format!(" {cursor}")]);
        forged.push(cursor.to_uppercase());
        for forged in forged.into_iter().filter(|forged| *forged != cursor) {
            refused(attacker.list(&list.clone().cursor(&forged)).await, &format!("{list:?} with {forged:?}"))?;
        }
        attacker.list(&list.clone().cursor(&cursor)).await?;
    }
    Ok(())
}

async fn cursors_are_not_shared_between_tenants_and_operators(scenario: &mut Scenario) -> Result<(), Failure> {
    let attacker = scenario.probe()?;
    let operator = scenario.populated.others.operator("an attack on the walls", &principal(&scenario.attacker));
    let mut tried = false;
    for (access, list) in scenario.sample(scenario.lists.clone()) {
        // Both may list public items.
        if scenario.design.wall_of(&access) != Wall::Public || access.returns != ResultKind::Many {
            continue;
        }
        let list = list.limit(1);
        if let Some(cursor) = attacker.list(&list).await?.next {
            refused(operator.list(&list.clone().cursor(&cursor)).await, &format!("{list:?} to an operator"))?;
            tried = true;
        }
        if let Some(cursor) = operator.list(&list).await?.next {
            refused(attacker.list(&list.clone().cursor(&cursor)).await, &format!("{list:?} of an operator"))?;
        }
    }
    expect_tried(tried, "no public list of two items")?;
    // The actions of the operator are in the audit log.
    scenario.expect_only_attacker_items_changed().await
}
