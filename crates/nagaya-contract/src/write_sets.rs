//! Write sets: all actions or none.

use super::{
    cases,
    fixture::{Failure, Fixture, TABLE, expect_equal, expect_error, index, indexed, item, partition_query},
};
use nagaya_store::{
    AssignedValue, Condition, Error, ErrorKind, Key, KeySchema, Path, TableSpec, Update, Write, WriteSet,
};

cases![
    put_update_delete_and_check_happen_together[Transactions],
    one_failing_condition_leaves_nothing[Transactions],
    one_failing_check_leaves_nothing[Transactions],
    one_impossible_action_leaves_nothing[Transactions],
    an_unknown_table_leaves_nothing[CrossPartition],
    two_actions_on_one_item_are_refused[Transactions],
    a_set_without_actions_is_refused,
    a_set_may_have_100_actions[Transactions],
    a_set_spans_partitions_and_tables[CrossPartition],
    a_failure_in_one_table_leaves_nothing_in_another[CrossPartition],
    the_same_key_in_two_tables_is_two_items[CrossPartition],
    an_update_of_what_is_not_there_makes_it,
    an_update_under_a_condition_makes_nothing,
    key_attributes_cannot_be_updated,
    a_key_update_is_refused_whatever_the_condition,
    indexes_follow_a_whole_set[Transactions],
];

async fn put_update_delete_and_check_happen_together(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for sort in ["2", "3", "4"] {
        fixture.put(item("p", sort).with("n", 1)).await?;
    }
    let set = WriteSet::new()
        .and(Write::put(TABLE, item("p", "1").with("new", true)).when(Condition::absent("PK")))
        .and(Write::update(TABLE, Key::new("p", "2"), Update::new().add("n", 1)).when(Condition::equal("n", 1)))
        .and(Write::delete(TABLE, Key::new("p", "3")).when(Condition::exists("PK")))
        .and(Write::condition_check(TABLE, Key::new("p", "4"), Condition::equal("n", 1)))
        .and(Write::delete(TABLE, Key::new("p", "none")));
    fixture.write(set).await?;
    let expected = vec![item("p", "1").with("new", true), item("p", "2").with("n", 2), item("p", "4").with("n", 1)];
    expect_equal(fixture.all(partition_query("p")).await?, expected)
}

/// Puts three items, tries a set that is refused, and finds the three as they were, in the index too.
async fn leaves_all(fixture: &Fixture<'_>, set: WriteSet, code: &str) -> Result<Error, Failure> {
    let before: Vec<_> = ["1", "2", "3"].map(|sort| indexed("p", sort, "i", sort).with("n", 1)).to_vec();
    for item in &before {
        fixture.put(item.clone()).await?;
    }
    let error = expect_error(fixture.write(set).await, code)?;
    expect_equal(&fixture.all(partition_query("p")).await?, &before)?;
    fixture.expect_items(index("i"), before.clone()).await?;
    Ok(error)
}

/// A put, an update and a delete that could happen.
fn possible() -> WriteSet {
    WriteSet::new()
        .and(Write::put(TABLE, indexed("p", "0", "i", "0")))
        .and(Write::update(TABLE, Key::new("p", "1"), Update::new().add("n", 1).set("GSI1SK", "9")))
        .and(Write::delete(TABLE, Key::new("p", "2")))
}

async fn one_failing_condition_leaves_nothing(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let put = Write::put(TABLE, item("p", "3")).when(Condition::absent("PK"));
    leaves_all(fixture, possible().and(put.clone()), "condition_failed").await?;
    let first = WriteSet::from(put);
    let set = possible().actions().iter().fold(first, |set, write| set.and(write.clone()));
    leaves_all(fixture, set, "condition_failed").await.map(drop)
}

async fn one_failing_check_leaves_nothing(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let check = Write::condition_check(TABLE, Key::new("p", "3"), Condition::equal("n", 2));
    leaves_all(fixture, possible().and(check), "condition_failed").await?;
    let check = Write::condition_check(TABLE, Key::new("p", "none"), Condition::exists("PK"));
    leaves_all(fixture, possible().and(check), "condition_failed").await.map(drop)
}

async fn one_impossible_action_leaves_nothing(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let bad = Update::new().set("n", AssignedValue::Plus("missing".into(), 1.into()));
    let update = Write::update(TABLE, Key::new("p", "3"), bad);
    leaves_all(fixture, possible().and(update), "invalid").await?;
    let put = Write::put(TABLE, item("p", "3").with("GSI1PK", 1));
    leaves_all(fixture, possible().and(put), "invalid").await?;
    let put = Write::put(TABLE, item("p", ""));
    leaves_all(fixture, possible().and(put), "invalid").await?;
    let put = Write::put(TABLE, item("p", "3").with("blob", "x".repeat(500_000)));
    leaves_all(fixture, possible().and(put), "limit").await.map(drop)
}

async fn an_unknown_table_leaves_nothing(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let put = Write::put("nowhere", item("p", "1"));
    let error = leaves_all(fixture, possible().and(put), "no_table").await?;
    expect_equal(matches!(error.kind(), ErrorKind::NoTable(table) if table == "nowhere"), true)
}

async fn two_actions_on_one_item_are_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key = Key::new("p", "3");
    let writes = [
        Write::put(TABLE, item("p", "3")),
        Write::update(TABLE, key.clone(), Update::new().set("x", 1)),
        Write::delete(TABLE, key.clone()),
        Write::condition_check(TABLE, key, Condition::exists("PK")),
    ];
    for (at, first) in writes.iter().enumerate() {
        for second in &writes[at..] {
            let set = possible().and(first.clone()).and(second.clone());
            leaves_all(fixture, set, "invalid").await?;
        }
    }
    Ok(())
}

async fn a_set_without_actions_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    expect_error(fixture.write(WriteSet::new()).await, "limit").map(drop)
}

async fn a_set_may_have_100_actions(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let set: WriteSet = (0..100).map(|at| Write::put(TABLE, item("p", &format!("{at:03}")))).collect();
    fixture.write(set).await?;
    expect_equal(fixture.all(partition_query("p")).await?.len(), 100)?;
    let set: WriteSet = (0..100).map(|at| Write::delete(TABLE, Key::new("p", format!("{at:03}")))).collect();
    fixture.write(set).await?;
    expect_equal(fixture.all(partition_query("p")).await?.len(), 0)
}

async fn a_set_spans_partitions_and_tables(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.store().ensure_tables(&[TableSpec::new("others", KeySchema::strings("id", "at"))]).await?;
    let other = nagaya_store::Item::new().with("id", "x").with("at", "1");
    let set = WriteSet::new()
        .and(Write::put(TABLE, item("p", "1")))
        .and(Write::put(TABLE, item("q", "1")))
        .and(Write::put("others", other.clone()));
    fixture.write(set).await?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, Some(item("p", "1")))?;
    expect_equal(fixture.get(&Key::new("q", "1")).await?, Some(item("q", "1")))?;
    expect_equal(fixture.store().get("others", &Key::new("x", "1")).await?, Some(other))
}

async fn a_failure_in_one_table_leaves_nothing_in_another(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.store().ensure_tables(&[TableSpec::new("others", KeySchema::strings("PK", "SK"))]).await?;
    fixture.write(Write::put("others", item("x", "1").with("n", 1))).await?;
    let set = possible()
        .and(Write::put(TABLE, item("q", "1")))
        .and(Write::delete("others", Key::new("x", "1")).when(Condition::equal("n", 2)));
    let error = leaves_all(fixture, set, "condition_failed").await?;
    let failed = error.failed_conditions().unwrap_or_default();
    expect_equal(failed.iter().map(|failed| failed.action).collect::<Vec<_>>(), vec![4])?;
    expect_equal(fixture.get(&Key::new("q", "1")).await?, None)?;
    expect_equal(fixture.store().get("others", &Key::new("x", "1")).await?, Some(item("x", "1").with("n", 1)))
}

async fn the_same_key_in_two_tables_is_two_items(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.store().ensure_tables(&[TableSpec::new("others", KeySchema::strings("PK", "SK"))]).await?;
    let set = WriteSet::new()
        .and(Write::put(TABLE, item("p", "1").with("in", "things")))
        .and(Write::put("others", item("p", "1").with("in", "others")));
    fixture.write(set).await?;
    fixture.delete(&Key::new("p", "1")).await?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, None)?;
    expect_equal(fixture.store().get("others", &Key::new("p", "1")).await?, Some(item("p", "1").with("in", "others")))
}

async fn an_update_of_what_is_not_there_makes_it(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let cases = [
        ("1", Update::new().set("text", "x").add("n", 2), item("p", "1").with("text", "x").with("n", 2)),
        ("2", Update::new().set("n", AssignedValue::IfAbsent("n".into(), 7.into())), item("p", "2").with("n", 7)),
        ("3", Update::new(), item("p", "3")),
        ("4", Update::new().set("GSI1PK", "i").set("GSI1SK", "4"), indexed("p", "4", "i", "4")),
    ];
    for (sort, update, expected) in cases {
        let written = fixture.update(&Key::new("p", sort), update).await?;
        expect_equal(written.item, Some(expected.clone()))?;
        expect_equal(fixture.get(&Key::new("p", sort)).await?, Some(expected))?;
    }
    fixture.expect_sort_keys(index("i"), vec!["4".to_owned()]).await
}

async fn an_update_under_a_condition_makes_nothing(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let update = Write::update(TABLE, Key::new("p", "1"), Update::new().add("n", 1)).when(Condition::exists("PK"));
    expect_error(fixture.write(update).await, "condition_failed")?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, None)
}

/// Updates that would change the key.
fn key_updates() -> [Update; 6] {
    [
        Update::new().set("SK", "2"),
        Update::new().set("PK", "q"),
        Update::new().set("SK", "1"),
        Update::new().remove("PK"),
        Update::new().set("n", 2).add("SK", 1),
        Update::new().set(Path::attribute("PK").entry("x"), 1),
    ]
}

async fn key_attributes_cannot_be_updated(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("n", 1)).await?;
    for update in key_updates() {
        expect_error(fixture.update(&Key::new("p", "1"), update.clone()).await, "invalid")?;
        expect_error(fixture.update(&Key::new("p", "none"), update).await, "invalid")?;
    }
    expect_equal(fixture.all(partition_query("p")).await?, vec![item("p", "1").with("n", 1)])
}

async fn a_key_update_is_refused_whatever_the_condition(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("n", 1)).await?;
    for update in key_updates() {
        let write = Write::update(TABLE, Key::new("p", "1"), update).when(Condition::equal("n", 2));
        expect_error(fixture.write(write).await, "invalid")?;
    }
    Ok(())
}

async fn indexes_follow_a_whole_set(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for sort in ["1", "2", "3"] {
        fixture.put(indexed("p", sort, "i", sort)).await?;
    }
    let set = WriteSet::new()
        .and(Write::put(TABLE, indexed("p", "4", "i", "0")))
        .and(Write::update(TABLE, Key::new("p", "1"), Update::new().set("GSI1SK", "9")))
        .and(Write::update(TABLE, Key::new("p", "2"), Update::new().remove("GSI1PK")))
        .and(Write::delete(TABLE, Key::new("p", "3")));
    fixture.write(set).await?;
    fixture.expect_sort_keys(index("i"), vec!["4".to_owned(), "1".to_owned()]).await
}
