//! Expiry: gone at its second, whatever the sweep has done, and its removal told apart from a delete.

use std::time::Duration;

use super::{
    cases,
    fixture::{
        Failure, Fixture, TABLE, expect, expect_equal, expect_error, index, indexed, item, partition_query, sort_keys,
    },
    values::{list, number},
};
use nagaya_store::{
    ChangeCause, Condition, Item, Key, KeySchema, Scan, StartPosition as Start, TableSpec, Update, Value, Write,
    WriteSet,
};

cases![
    an_item_is_there_until_its_second,
    an_expired_item_is_not_returned_before_a_sweep,
    an_expired_item_is_not_returned_after_a_sweep [Sweep],
    pages_pass_over_expired_items,
    a_create_succeeds_over_an_expired_item,
    an_item_made_over_an_expired_one_survives_the_sweep [Sweep],
    conditions_do_not_see_an_expired_item,
    an_update_of_an_expired_item_starts_anew,
    an_expired_item_fails_a_whole_set [Transactions],
    an_expiry_can_be_put_off [Sweep],
    an_expiry_can_be_brought_forward,
    an_expiry_can_be_removed [Sweep],
    what_is_no_whole_number_of_seconds_does_not_expire,
    a_table_without_expiry_keeps_the_attribute_as_any_other [Sweep],
    a_removal_is_a_change_told_apart_from_a_delete [OldImages, Sweep],
    a_sweep_removes_all_that_expired_once [OldImages, Sweep],
    an_expired_item_that_is_deleted_goes_once [OldImages, Sweep],
    an_expiry_added_to_a_table_holds_for_what_is_there [OldImages, Sweep],
];

const ITEM_TTL: Duration = Duration::from_secs(60);

/// An item that lives for a minute.
fn expiring_item(fixture: &Fixture<'_>, sort: &str) -> Item {
    indexed("p", sort, "i", sort).with("expiresAt", fixture.now() + 60)
}

/// The items that each way of reading gives.
async fn seen(fixture: &Fixture<'_>, sort: &str) -> Result<[bool; 7], Failure> {
    let key = Key::new("p", sort);
    let has = |items: &[Item]| sort_keys(items).iter().any(|found| found == sort);
    let batch = fixture.store().batch_get(&[(TABLE.to_owned(), key.clone())]).await?;
    Ok([
        fixture.get(&key).await?.is_some(),
        batch[0].is_some(),
        has(&fixture.all(partition_query("p")).await?),
        has(&fixture.all(partition_query("p").descending()).await?),
        has(&fixture.all(index("i")).await?),
        has(&fixture.all(index("i").descending().limit(1)).await?),
        has(&fixture.scan_all(Scan::table(TABLE)).await?),
    ])
}

async fn an_item_is_there_until_its_second(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1")).await?;
    expect_equal(seen(fixture, "1").await?, [true; 7])?;
    fixture.clock.advance(ITEM_TTL - Duration::from_secs(1));
    expect_equal(seen(fixture, "1").await?, [true; 7])?;
    fixture.clock.advance(Duration::from_secs(1));
    expect_equal(seen(fixture, "1").await?, [false; 7])
}

async fn an_expired_item_is_not_returned_before_a_sweep(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1")).await?;
    fixture.put(indexed("p", "2", "i", "2")).await?;
    fixture.clock.advance(10 * ITEM_TTL);
    expect_equal(seen(fixture, "1").await?, [false; 7])?;
    expect_equal(seen(fixture, "2").await?, [true; 7])?;
    // One that is written with its second in the past has never been there.
    fixture.put(indexed("p", "3", "i", "3").with("expiresAt", fixture.now() - 1)).await?;
    expect_equal(seen(fixture, "3").await?, [false; 7])
}

async fn an_expired_item_is_not_returned_after_a_sweep(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1")).await?;
    fixture.put(indexed("p", "2", "i", "2")).await?;
    fixture.sweep().await?;
    expect_equal(seen(fixture, "1").await?, [true; 7])?;
    fixture.clock.advance(ITEM_TTL);
    fixture.sweep().await?;
    expect_equal(seen(fixture, "1").await?, [false; 7])?;
    expect_equal(seen(fixture, "2").await?, [true; 7])
}

async fn pages_pass_over_expired_items(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for at in 0..20 {
        let sort = format!("{at:02}");
        let item = if at % 5 == 3 { indexed("p", &sort, "i", &sort) } else { expiring_item(fixture, &sort) };
        fixture.put(item).await?;
    }
    fixture.clock.advance(ITEM_TTL);
    let expected = ["03", "08", "13", "18"].map(str::to_owned).to_vec();
    let backward: Vec<String> = expected.iter().rev().cloned().collect();
    for limit in [1, 2, 3, 100] {
        for query in [partition_query("p").limit(limit), index("i").limit(limit)] {
            fixture.expect_sort_keys(query.clone(), expected.clone()).await?;
            fixture.expect_sort_keys(query.descending(), backward.clone()).await?;
        }
        expect_equal(fixture.scan_all(Scan { limit: Some(limit), ..Scan::table(TABLE) }).await?.len(), 4)?;
    }
    Ok(())
}

async fn a_create_succeeds_over_an_expired_item(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1").with("by", "old")).await?;
    fixture.clock.advance(ITEM_TTL);
    let new = indexed("p", "1", "i", "9").with("by", "new");
    let create = Write::put(TABLE, new.clone()).when(Condition::absent("PK"));
    fixture.write(create.clone()).await?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, Some(new.clone()))?;
    fixture.expect_items(index("i"), vec![new]).await?;
    expect_error(fixture.write(create).await, "condition_failed").map(drop)
}

async fn an_item_made_over_an_expired_one_survives_the_sweep(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1")).await?;
    fixture.clock.advance(ITEM_TTL);
    let new = indexed("p", "1", "i", "1").with("by", "new");
    fixture.put(new.clone()).await?;
    fixture.sweep().await?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, Some(new.clone()))?;
    fixture.expect_items(index("i"), vec![new]).await
}

async fn conditions_do_not_see_an_expired_item(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1").with("n", 1)).await?;
    let key = Key::new("p", "1");
    let writes = [
        Write::put(TABLE, item("p", "1")).when(Condition::exists("PK")),
        Write::update(TABLE, key.clone(), Update::new().add("n", 1)).when(Condition::equal("n", 1)),
        Write::delete(TABLE, key.clone()).when(Condition::exists("PK")),
        Write::condition_check(TABLE, key.clone(), Condition::equal("n", 1)),
    ];
    fixture.clock.advance(ITEM_TTL);
    for write in writes {
        let error = expect_error(fixture.write(write).await, "condition_failed")?;
        let found: Vec<_> =
            error.failed_conditions().unwrap_or_default().iter().map(|failed| &failed.current).collect();
        expect_equal(found, vec![&None])?;
    }
    fixture.write(Write::condition_check(TABLE, key, Condition::absent("n"))).await?;
    Ok(())
}

async fn an_update_of_an_expired_item_starts_anew(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1").with("n", 41).with("old", true)).await?;
    fixture.clock.advance(ITEM_TTL);
    let written = fixture.update(&Key::new("p", "1"), Update::new().add("n", 1)).await?;
    expect_equal(written.item, Some(item("p", "1").with("n", 1)))?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, Some(item("p", "1").with("n", 1)))?;
    fixture.expect_items(index("i"), Vec::new()).await
}

async fn an_expired_item_fails_a_whole_set(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1")).await?;
    fixture.clock.advance(ITEM_TTL);
    let set = WriteSet::new().and(Write::put(TABLE, item("p", "2"))).and(Write::condition_check(
        TABLE,
        Key::new("p", "1"),
        Condition::exists("PK"),
    ));
    expect_error(fixture.write(set).await, "condition_failed")?;
    expect_equal(fixture.get(&Key::new("p", "2")).await?, None)
}

async fn an_expiry_can_be_put_off(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1")).await?;
    fixture.update(&Key::new("p", "1"), Update::new().add("expiresAt", 60)).await?;
    fixture.clock.advance(ITEM_TTL);
    fixture.sweep().await?;
    expect_equal(seen(fixture, "1").await?, [true; 7])?;
    fixture.clock.advance(ITEM_TTL);
    expect_equal(seen(fixture, "1").await?, [false; 7])?;
    fixture.sweep().await?;
    expect_equal(seen(fixture, "1").await?, [false; 7])
}

async fn an_expiry_can_be_brought_forward(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1")).await?;
    fixture.update(&Key::new("p", "1"), Update::new().add("expiresAt", -60)).await?;
    expect_equal(seen(fixture, "1").await?, [false; 7])
}

async fn an_expiry_can_be_removed(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1")).await?;
    fixture.put(expiring_item(fixture, "2")).await?;
    fixture.update(&Key::new("p", "1"), Update::new().remove("expiresAt")).await?;
    fixture.put(indexed("p", "2", "i", "2")).await?;
    fixture.clock.advance(ITEM_TTL);
    fixture.sweep().await?;
    expect_equal(seen(fixture, "1").await?, [true; 7])?;
    expect_equal(seen(fixture, "2").await?, [true; 7])
}

async fn what_is_no_whole_number_of_seconds_does_not_expire(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let past = fixture.now() - 100;
    let values: [Value; 6] = [
        Value::Null,
        past.to_string().into(),
        number(&format!("{past}.5")).into(),
        list([past.into()]),
        true.into(),
        number("1E+50").into(),
    ];
    for value in values {
        fixture.put(indexed("p", "1", "i", "1").with("expiresAt", value.clone())).await?;
        expect(seen(fixture, "1").await? == [true; 7], format!("an item with the expiry {value:?} is not there"))?;
    }
    Ok(())
}

async fn a_table_without_expiry_keeps_the_attribute_as_any_other(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.store().ensure_tables(&[TableSpec::new("plain", KeySchema::strings("PK", "SK"))]).await?;
    let stored = item("p", "1").with("expiresAt", fixture.now() - 1);
    fixture.write(Write::put("plain", stored.clone())).await?;
    fixture.sweep().await?;
    expect_equal(fixture.store().get("plain", &Key::new("p", "1")).await?, Some(stored))
}

async fn a_removal_is_a_change_told_apart_from_a_delete(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let (expires, deleted) = (expiring_item(fixture, "1"), expiring_item(fixture, "2"));
    fixture.put(expires.clone()).await?;
    fixture.put(deleted.clone()).await?;
    fixture.delete(&Key::new("p", "2")).await?;
    fixture.clock.advance(ITEM_TTL);
    fixture.sweep().await?;
    let records = fixture.changes(Start::Oldest).await?;
    let gone: Vec<_> = records
        .into_iter()
        .filter(|record| record.new.is_none())
        .map(|record| (record.key, record.cause, record.old))
        .collect();
    let expected = [
        (Key::new("p", "2"), ChangeCause::Write, Some(deleted)),
        (Key::new("p", "1"), ChangeCause::Expiry, Some(expires)),
    ];
    expect(
        gone.len() == 2 && expected.iter().all(|one| gone.contains(one)),
        format!("found {gone:?}, expected {expected:?}"),
    )
}

async fn a_sweep_removes_all_that_expired_once(fixture: &Fixture<'_>) -> Result<(), Failure> {
    const COUNT: usize = 1_200;
    let puts = (0..COUNT).map(|at| fixture.put(expiring_item(fixture, &format!("{at:04}"))));
    for put in futures_util::future::join_all(puts).await {
        put?;
    }
    fixture.clock.advance(ITEM_TTL);
    fixture.sweep().await?;
    fixture.sweep().await?;
    let mut gone: Vec<Key> = Vec::new();
    for record in fixture.changes(Start::Oldest).await? {
        if record.new.is_none() {
            expect_equal(record.cause, ChangeCause::Expiry)?;
            gone.push(record.key);
        }
    }
    gone.sort();
    expect_equal(gone, (0..COUNT).map(|at| Key::new("p", format!("{at:04}"))).collect())
}

async fn an_expired_item_that_is_deleted_goes_once(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(expiring_item(fixture, "1")).await?;
    fixture.clock.advance(ITEM_TTL);
    fixture.delete(&Key::new("p", "1")).await?;
    fixture.sweep().await?;
    let records = fixture.changes(Start::Oldest).await?;
    expect_equal(records.iter().filter(|record| record.new.is_none()).count(), 1)?;
    expect_equal(seen(fixture, "1").await?, [false; 7])
}

async fn an_expiry_added_to_a_table_holds_for_what_is_there(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let plain = TableSpec::new("plain", KeySchema::strings("PK", "SK"));
    fixture.store().ensure_tables(std::slice::from_ref(&plain)).await?;
    let stored = item("p", "1").with("until", fixture.now() + 60);
    fixture.write(Write::put("plain", stored.clone())).await?;
    fixture.store().ensure_tables(&[plain.with_ttl("until")]).await?;
    let key = Key::new("p", "1");
    expect_equal(fixture.store().get("plain", &key).await?, Some(stored.clone()))?;
    fixture.clock.advance(ITEM_TTL);
    expect_equal(fixture.store().get("plain", &key).await?, None)?;
    fixture.sweep().await?;
    let changes = fixture.store().changes("plain", Start::Oldest, 10).await?;
    let last = changes.records.last().map(|record| (record.cause, record.old.clone(), record.new.clone()));
    expect_equal(last, Some((ChangeCause::Expiry, Some(stored), None)))
}
