//! Tables: made when missing, never changed, and named when unknown.

use std::fmt::Debug;

use futures_util::future::join_all;

use super::{
    cases,
    fixture::{
        Failure, Fixture, INDEX, TABLE, expect, expect_equal, expect_error, index, indexed, item, partition_query, spec,
    },
};
use nagaya_store::{
    Condition, Error, ErrorKind, Key, KeyKind, KeySchema, Query, Scan, StartPosition as Start, TableSpec, Update,
    Write, WriteSet,
};

cases![
    ensuring_again_changes_nothing,
    several_tables_are_made_at_once,
    another_key_schema_is_refused,
    another_key_of_an_index_is_refused,
    another_expiry_is_refused,
    a_refused_ensure_makes_nothing,
    an_index_that_is_no_longer_named_stays,
    an_index_added_later_is_filled,
    an_index_added_later_follows_what_comes,
    an_index_added_later_leaves_out_what_does_not_fit,
    an_index_added_later_has_no_expired_items,
    an_unknown_table_is_refused_by_name,
    tables_are_kept_apart,
    what_the_capabilities_deny_is_refused_as_such,
];

async fn ensuring_again_changes_nothing(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let stored = indexed("p", "1", "i", "1");
    fixture.put(stored.clone()).await?;
    fixture.store().ensure_tables(&[spec()]).await?;
    fixture.store().ensure_tables(&[spec(), spec()]).await?;
    fixture.store().ensure_tables(&[]).await?;
    expect_equal(fixture.all(partition_query("p")).await?, vec![stored.clone()])?;
    fixture.expect_items(index("i"), vec![stored]).await
}

async fn several_tables_are_made_at_once(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let tables = ["a", "b", "c"].map(|name| TableSpec::new(name, KeySchema::strings("PK", "SK")));
    fixture.store().ensure_tables(&tables).await?;
    for table in &tables {
        fixture.write(Write::put(&table.name, item("p", &table.name))).await?;
    }
    for table in &tables {
        expect_equal(fixture.all(Query::table(&table.name, "p")).await?, vec![item("p", &table.name)])?;
    }
    Ok(())
}

async fn another_key_schema_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1")).await?;
    for key in [KeySchema::strings("PK", "other"), KeySchema::strings("SK", "PK")] {
        expect_error(fixture.store().ensure_tables(&[TableSpec { key, ..spec() }]).await, "invalid")?;
    }
    if fixture.capabilities().typed_keys {
        let key = KeySchema { sort: ("SK".to_owned(), KeyKind::Number), ..spec().key };
        expect_error(fixture.store().ensure_tables(&[TableSpec { key, ..spec() }]).await, "invalid")?;
    }
    expect_equal(fixture.get(&Key::new("p", "1")).await?, Some(item("p", "1")))
}

async fn another_key_of_an_index_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("p", "1", "i", "1")).await?;
    let changed = TableSpec { indexes: Vec::new(), ..spec() }.with_index(INDEX, KeySchema::strings("GSI1PK", "SK"));
    expect_error(fixture.store().ensure_tables(&[changed]).await, "invalid")?;
    fixture.expect_count(index("i"), 1).await
}

async fn another_expiry_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    expect_error(fixture.store().ensure_tables(&[spec().with_ttl("other")]).await, "invalid")?;
    fixture.put(item("p", "1").with("expiresAt", fixture.now())).await?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, None)
}

async fn a_refused_ensure_makes_nothing(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let new = TableSpec::new("new", KeySchema::strings("PK", "SK"));
    let changed = TableSpec { key: KeySchema::strings("PK", "other"), ..spec() };
    expect_error(fixture.store().ensure_tables(&[new, changed]).await, "invalid")?;
    expect_error(fixture.store().get("new", &Key::new("p", "1")).await, "no_table")?;
    // Neither does one that adds a good index beside a changed one.
    let changed = TableSpec { indexes: Vec::new(), ..spec() }
        .with_index("good", KeySchema::strings("a", "b"))
        .with_index(INDEX, KeySchema::strings("GSI1PK", "SK"));
    expect_error(fixture.store().ensure_tables(&[changed]).await, "invalid")?;
    expect_error(fixture.query(Query::index(TABLE, "good", "x")).await, "no_index").map(drop)
}

async fn an_index_that_is_no_longer_named_stays(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("p", "1", "i", "1")).await?;
    fixture.store().ensure_tables(&[TableSpec { indexes: Vec::new(), ..spec() }]).await?;
    fixture.put(indexed("p", "2", "i", "2")).await?;
    fixture.expect_sort_keys(index("i"), vec!["1".to_owned(), "2".to_owned()]).await
}

/// The table with an index more.
fn grown() -> TableSpec {
    spec().with_index("later", KeySchema::strings("a", "b"))
}

fn later(partition: &str) -> Query {
    Query::index(TABLE, "later", partition)
}

async fn an_index_added_later_is_filled(fixture: &Fixture<'_>) -> Result<(), Failure> {
    const COUNT: i64 = 1_500;
    expect_error(fixture.query(later("x")).await, "no_index")?;
    let stored = |at: i64| {
        // The order of the index is not the order of the table.
        indexed(&format!("p{}", at % 7), &format!("{at:04}"), "i", "x")
            .with("a", "x")
            .with("b", format!("{:04}", COUNT - at))
    };
    let puts = (0..COUNT).map(|at| fixture.put(stored(at)));
    for put in join_all(puts).await {
        put?;
    }
    fixture.put(item("p", "without")).await?;
    fixture.store().ensure_tables(&[grown()]).await?;
    fixture.expect_items(later("x").limit(400), (0..COUNT).rev().map(stored).collect()).await?;
    fixture.expect_count(index("i"), COUNT as usize).await
}

async fn an_index_added_later_follows_what_comes(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for sort in ["1", "2", "3"] {
        fixture.put(item("p", sort).with("a", "x").with("b", sort)).await?;
    }
    fixture.store().ensure_tables(&[grown()]).await?;
    fixture.put(item("p", "4").with("a", "x").with("b", "0")).await?;
    fixture.update(&Key::new("p", "1"), Update::new().set("b", "9")).await?;
    fixture.update(&Key::new("p", "2"), Update::new().remove("a")).await?;
    fixture.delete(&Key::new("p", "3")).await?;
    fixture.expect_sort_keys(later("x"), vec!["4".to_owned(), "1".to_owned()]).await
}

async fn an_index_added_later_leaves_out_what_does_not_fit(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("a", "x").with("b", "1")).await?;
    fixture.put(item("p", "2").with("a", "x").with("b", 2)).await?;
    fixture.put(item("p", "3").with("a", "x").with("b", "")).await?;
    fixture.put(item("p", "4").with("a", "x").with("b", "b".repeat(2_000))).await?;
    fixture.store().ensure_tables(&[grown()]).await?;
    fixture.expect_sort_keys(later("x"), vec!["1".to_owned()]).await?;
    expect_equal(fixture.sort_keys(partition_query("p")).await?.len(), 4)
}

async fn an_index_added_later_has_no_expired_items(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let now = fixture.now();
    fixture.put(item("p", "1").with("a", "x").with("b", "1").with("expiresAt", now)).await?;
    fixture.put(item("p", "2").with("a", "x").with("b", "2").with("expiresAt", now + 60)).await?;
    fixture.store().ensure_tables(&[grown()]).await?;
    fixture.expect_sort_keys(later("x"), vec!["2".to_owned()]).await
}

async fn an_unknown_table_is_refused_by_name(fixture: &Fixture<'_>) -> Result<(), Failure> {
    #[track_caller]
    fn names<T: Debug>(answer: Result<T, Error>) -> Result<(), Failure> {
        let error = expect_error(answer, "no_table")?;
        let named = matches!(error.kind(), ErrorKind::NoTable(table) if table == "nowhere");
        expect(named, format!("the error does not name the table: {error:?}"))
    }
    let (store, key) = (fixture.store(), Key::new("p", "1"));
    fixture.put(item("p", "1")).await?;
    names(store.get("nowhere", &key).await)?;
    names(store.batch_get(&[(TABLE.to_owned(), key.clone()), ("nowhere".to_owned(), key.clone())]).await)?;
    names(fixture.query(Query::table("nowhere", "p")).await)?;
    names(fixture.query(Query::index("nowhere", INDEX, "p")).await)?;
    names(store.scan(Scan::table("nowhere")).await)?;
    names(fixture.write(Write::put("nowhere", item("p", "1"))).await)?;
    names(fixture.write(Write::update("nowhere", key.clone(), Update::new().add("n", 1))).await)?;
    names(fixture.write(Write::delete("nowhere", key.clone())).await)?;
    names(fixture.write(Write::condition_check("nowhere", key, Condition::absent("PK"))).await)?;
    if fixture.capabilities().changes {
        names(store.changes("nowhere", Start::Oldest, 10).await)?;
    }
    Ok(())
}

async fn tables_are_kept_apart(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.store().ensure_tables(&[TableSpec { name: "others".to_owned(), ..spec() }]).await?;
    fixture.put(indexed("p", "1", "i", "1").with("in", "things")).await?;
    let other = indexed("p", "2", "i", "2").with("in", "others");
    fixture.write(Write::put("others", other.clone())).await?;
    expect_equal(fixture.sort_keys(partition_query("p")).await?, vec!["1".to_owned()])?;
    fixture.expect_sort_keys(index("i"), vec!["1".to_owned()]).await?;
    expect_equal(fixture.all(Query::table("others", "p")).await?, vec![other.clone()])?;
    fixture.expect_items(Query::index("others", INDEX, "i"), vec![other.clone()]).await?;
    expect_equal(fixture.scan_all(Scan::table("others")).await?, vec![other])
}

async fn what_the_capabilities_deny_is_refused_as_such(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let can = fixture.capabilities();
    let pair =
        |other: &str| -> WriteSet { ["p", other].map(|to| Write::put(TABLE, item(to, to))).into_iter().collect() };
    if !can.transactions || !can.cross_partition {
        expect_error(fixture.write(pair("q")).await, "unsupported")?;
    }
    if !can.transactions {
        let set: WriteSet = ["1", "2"].map(|sort| Write::put(TABLE, item("p", sort))).into_iter().collect();
        expect_error(fixture.write(set).await, "unsupported")?;
    }
    if !can.changes {
        expect_error(fixture.store().changes(TABLE, Start::Oldest, 10).await, "unsupported")?;
    }
    if !can.typed_keys {
        let key = KeySchema { sort: ("SK".to_owned(), KeyKind::Number), ..spec().key };
        expect_error(fixture.store().ensure_tables(&[TableSpec::new("numbers", key)]).await, "unsupported")?;
    }
    if !can.scan_segments {
        expect_error(fixture.store().scan(Scan { segment: (0, 2), ..Scan::table(TABLE) }).await, "unsupported")?;
    }
    expect_equal(fixture.all(partition_query("p")).await?, Vec::new())
}
