//! Limits: what is just possible is done, and a byte more is refused.

use super::{
    cases,
    fixture::{Failure, Fixture, TABLE, expect_equal, expect_error, index, indexed, item, partition_query},
    values::{byte_strings, list, map, numbers, string_set},
};
use nagaya_store::{
    Condition, Item, Key, Update, Value, Write, WriteSet,
    limits::{
        MAX_ACTIONS, MAX_BATCH_GET, MAX_DEPTH, MAX_ITEM_BYTES, MAX_PARTITION_BYTES, MAX_SORT_BYTES, MAX_WRITE_SET_BYTES,
    },
};

cases![
    an_item_has_at_most_400_kilobytes,
    an_update_cannot_grow_an_item_beyond_400_kilobytes,
    a_set_has_at_most_100_actions[Transactions],
    a_set_has_at_most_4_megabytes[Transactions],
    a_batch_reads_at_most_100_items,
    keys_are_not_empty,
    keys_have_a_maximum_length,
    index_keys_have_a_maximum_length,
    values_are_nested_at_most_32_levels_deep,
    sets_are_not_empty,
];

/// An item of exactly this many bytes.
fn sized(sort: &str, bytes: usize) -> Item {
    let small = item("p", sort).with("blob", "");
    let rest = bytes - small.size();
    small.with("blob", "x".repeat(rest))
}

async fn an_item_has_at_most_400_kilobytes(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let largest = sized("1", MAX_ITEM_BYTES);
    fixture.put(largest.clone()).await?;
    expect_error(fixture.put(sized("1", MAX_ITEM_BYTES + 1)).await, "limit")?;
    expect_error(fixture.put(sized("2", 2 * MAX_ITEM_BYTES)).await, "limit")?;
    expect_equal(fixture.all(partition_query("p")).await?, vec![largest])
}

async fn an_update_cannot_grow_an_item_beyond_400_kilobytes(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key = Key::new("p", "1");
    fixture.put(sized("1", MAX_ITEM_BYTES - 2)).await?;
    expect_error(fixture.update(&key, Update::new().set("ab", "x")).await, "limit")?;
    expect_equal(fixture.get(&key).await?, Some(sized("1", MAX_ITEM_BYTES - 2)))?;
    fixture.update(&key, Update::new().set("a", "x")).await?;
    expect_equal(fixture.get(&key).await?.map(|item| item.size()), Some(MAX_ITEM_BYTES))
}

async fn a_set_has_at_most_100_actions(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let set: WriteSet = (0..=MAX_ACTIONS).map(|at| Write::put(TABLE, item("p", &at.to_string()))).collect();
    expect_error(fixture.write(set).await, "limit")?;
    let key = |at: usize| Key::new("p", at.to_string());
    let set: WriteSet =
        (0..=MAX_ACTIONS).map(|at| Write::condition_check(TABLE, key(at), Condition::absent("PK"))).collect();
    expect_error(fixture.write(set).await, "limit")?;
    expect_equal(fixture.all(partition_query("p")).await?, Vec::new())?;
    let set: WriteSet = (0..MAX_ACTIONS).map(|at| Write::put(TABLE, item("p", &at.to_string()))).collect();
    fixture.write(set).await?;
    expect_equal(fixture.all(partition_query("p")).await?.len(), MAX_ACTIONS)?;
    let set: WriteSet =
        (0..MAX_ACTIONS).map(|at| Write::condition_check(TABLE, key(at), Condition::exists("PK"))).collect();
    fixture.write(set).await?;
    Ok(())
}

async fn a_set_has_at_most_4_megabytes(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let part = MAX_WRITE_SET_BYTES / 16;
    let set = |last: usize| -> WriteSet {
        let name = |at: usize| format!("{at:02}");
        let most = (0..15).map(|at| Write::put(TABLE, sized(&name(at), part)));
        most.chain([Write::put(TABLE, sized(&name(15), last))]).collect()
    };
    expect_error(fixture.write(set(part + 1)).await, "limit")?;
    expect_equal(fixture.all(partition_query("p")).await?.len(), 0)?;
    fixture.write(set(part)).await?;
    expect_equal(fixture.all(partition_query("p")).await?.len(), 16)
}

async fn a_batch_reads_at_most_100_items(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for at in 0..=MAX_BATCH_GET {
        fixture.put(item("p", &at.to_string())).await?;
    }
    let keys: Vec<_> = (0..=MAX_BATCH_GET).map(|at| (TABLE.to_owned(), Key::new("p", at.to_string()))).collect();
    expect_error(fixture.store().batch_get(&keys).await, "limit")?;
    let found = fixture.store().batch_get(&keys[..MAX_BATCH_GET]).await?;
    let expected: Vec<_> = (0..MAX_BATCH_GET).map(|at| Some(item("p", &at.to_string()))).collect();
    expect_equal(found, expected)
}

/// A key is refused in every operation that takes a whole one.
async fn key_is_refused(fixture: &Fixture<'_>, key: &Key, code: &str) -> Result<(), Failure> {
    let put = Item::new().with("PK", key.partition.clone()).with("SK", key.sort.clone());
    expect_error(fixture.get(key).await, code)?;
    expect_error(fixture.store().batch_get(&[(TABLE.to_owned(), key.clone())]).await, code)?;
    expect_error(fixture.put(put).await, code)?;
    expect_error(fixture.update(key, Update::new().set("x", 1)).await, code)?;
    expect_error(fixture.delete(key).await, code)?;
    expect_error(fixture.write(Write::condition_check(TABLE, key.clone(), Condition::absent("PK"))).await, code)
        .map(drop)
}

async fn keys_are_not_empty(fixture: &Fixture<'_>) -> Result<(), Failure> {
    key_is_refused(fixture, &Key::new("", "1"), "invalid").await?;
    key_is_refused(fixture, &Key::new("p", ""), "invalid").await?;
    key_is_refused(fixture, &Key::new("", ""), "invalid").await?;
    expect_error(fixture.store().query(partition_query("")).await, "invalid").map(drop)
}

async fn keys_have_a_maximum_length(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let (partition, sort) = ("p".repeat(MAX_PARTITION_BYTES), "s".repeat(MAX_SORT_BYTES));
    let key = Key::new(partition.clone(), sort.clone());
    fixture.put(item(&partition, &sort)).await?;
    fixture.update(&key, Update::new().set("x", 1)).await?;
    expect_equal(fixture.get(&key).await?, Some(item(&partition, &sort).with("x", 1)))?;
    expect_equal(fixture.all(partition_query(partition.clone())).await?.len(), 1)?;
    key_is_refused(fixture, &Key::new(format!("{partition}p"), "s"), "limit").await?;
    expect_error(fixture.store().query(partition_query(format!("{partition}p"))).await, "limit")?;
    key_is_refused(fixture, &Key::new("p", format!("{sort}s")), "limit").await?;
    // Bytes count, not characters.
    key_is_refused(fixture, &Key::new("p", "長".repeat(MAX_SORT_BYTES / 3 + 1)), "limit").await
}

async fn index_keys_have_a_maximum_length(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let (partition, sort) = ("p".repeat(MAX_PARTITION_BYTES), "s".repeat(MAX_SORT_BYTES));
    fixture.put(indexed("p", "1", &partition, &sort)).await?;
    fixture.expect_items(index(partition.clone()), vec![indexed("p", "1", &partition, &sort)]).await?;
    expect_error(fixture.store().query(index(format!("{partition}p"))).await, "limit")?;
    expect_error(fixture.put(indexed("p", "2", &format!("{partition}p"), "s")).await, "limit")?;
    expect_error(fixture.put(indexed("p", "2", "p", &format!("{sort}s"))).await, "limit")?;
    expect_error(fixture.update(&Key::new("p", "1"), Update::new().set("GSI1SK", format!("{sort}s"))).await, "limit")
        .map(drop)
}

/// A text inside this many lists and maps.
fn nested(depth: usize) -> Value {
    (0..depth).fold("x".into(), |inner, at| if at % 2 == 0 { list([inner]) } else { map([("in", inner)]) })
}

async fn values_are_nested_at_most_32_levels_deep(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key = Key::new("p", "1");
    let deepest = item("p", "1").with("deep", nested(MAX_DEPTH));
    fixture.put(deepest.clone()).await?;
    expect_equal(fixture.get(&key).await?, Some(deepest.clone()))?;
    expect_error(fixture.put(item("p", "1").with("deep", nested(MAX_DEPTH + 1))).await, "limit")?;
    expect_error(fixture.update(&key, Update::new().set("new", nested(MAX_DEPTH + 1))).await, "limit")?;
    expect_equal(fixture.get(&key).await?, Some(deepest))
}

async fn sets_are_not_empty(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for empty in [string_set([]), numbers([]), byte_strings([])] {
        expect_error(fixture.put(item("p", "1").with("set", empty.clone())).await, "invalid")?;
        expect_error(fixture.put(item("p", "1").with("list", list([empty.clone()]))).await, "invalid")?;
        expect_error(fixture.put(item("p", "1").with("map", map([("in", list([empty]))]))).await, "invalid")?;
    }
    expect_equal(fixture.all(partition_query("p")).await?, Vec::new())
}
