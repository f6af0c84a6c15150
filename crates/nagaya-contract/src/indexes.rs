//! Indexes: sparse, overloaded, and always in step with the items.

use super::{
    cases,
    fixture::{Failure, Fixture, INDEX, TABLE, expect_equal, expect_error, index, indexed, item, partition_query},
    values::{key_number, list, map, number, string_set},
};
use nagaya_store::{Key, KeyKind, KeySchema, Query, SortCondition, TableSpec, Update, Value, Write};

cases![
    an_index_has_the_whole_items_in_its_own_order,
    an_index_is_sparse,
    an_index_is_overloaded,
    every_sort_condition_holds_in_an_index,
    items_with_equal_index_keys_are_all_there,
    an_update_moves_an_item_in_the_index,
    an_item_leaves_the_index_with_its_attribute_and_comes_back,
    a_put_moves_an_item_in_the_index,
    a_deleted_item_leaves_the_index,
    an_index_shows_what_was_written_last,
    a_refused_write_leaves_the_index,
    an_attribute_of_another_kind_is_refused,
    an_empty_index_key_is_refused,
    indexes_of_numbers_are_ordered_by_value[TypedKeys],
    an_index_may_turn_the_table_around,
    several_indexes_are_kept_apart,
];

async fn an_index_has_the_whole_items_in_its_own_order(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let whole = |sort: &str, index_sort: &str| {
        indexed("p", sort, "i", index_sort).with("map", map([("x", list([1.into()]))])).with("tags", string_set(["a"]))
    };
    fixture.put(whole("1", "c")).await?;
    fixture.put(whole("2", "a")).await?;
    fixture.put(whole("3", "b")).await?;
    fixture.expect_items(index("i"), vec![whole("2", "a"), whole("3", "b"), whole("1", "c")]).await?;
    fixture.expect_items(index("i").descending(), vec![whole("1", "c"), whole("3", "b"), whole("2", "a")]).await?;
    expect_equal(fixture.sort_keys(partition_query("p")).await?, ["1", "2", "3"].map(str::to_owned).to_vec())
}

async fn an_index_is_sparse(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("p", "both", "i", "1")).await?;
    fixture.put(item("p", "neither")).await?;
    fixture.put(item("p", "partition only").with("GSI1PK", "i")).await?;
    fixture.put(item("p", "sort only").with("GSI1SK", "1")).await?;
    fixture.expect_items(index("i"), vec![indexed("p", "both", "i", "1")]).await?;
    expect_equal(fixture.all(partition_query("p")).await?.len(), 4)
}

async fn an_index_is_overloaded(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("TENANT#t", "USER#u", "EMAIL#u@x", "USER#u")).await?;
    fixture.put(indexed("TENANT#t", "TODO#1", "USER#u", "TODO#OPEN#1")).await?;
    fixture.put(indexed("TENANT#t", "TODO#2", "USER#u", "TODO#DONE#2")).await?;
    fixture.put(indexed("TENANT#t", "ROLE#a", "USER#u", "ROLE#a")).await?;
    fixture.expect_sort_keys(index("EMAIL#u@x"), vec!["USER#u".to_owned()]).await?;
    let todos = index("USER#u").sort(SortCondition::BeginsWith("TODO#".into()));
    fixture.expect_sort_keys(todos, vec!["TODO#2".to_owned(), "TODO#1".to_owned()]).await?;
    let open = index("USER#u").sort(SortCondition::BeginsWith("TODO#OPEN#".into()));
    fixture.expect_sort_keys(open, vec!["TODO#1".to_owned()]).await
}

async fn every_sort_condition_holds_in_an_index(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for at in 0..6 {
        // The order of the index is not the order of the table.
        fixture.put(indexed("p", &(9 - at).to_string(), "i", &format!("a{at}"))).await?;
    }
    let cases: [(SortCondition, &[&str]); 9] = [
        (SortCondition::Any, &["9", "8", "7", "6", "5", "4"]),
        (SortCondition::Equal("a2".into()), &["7"]),
        (SortCondition::Equal("a".into()), &[]),
        (SortCondition::BeginsWith("a".into()), &["9", "8", "7", "6", "5", "4"]),
        (SortCondition::Between("a1".into(), "a3".into()), &["8", "7", "6"]),
        (SortCondition::Less("a2".into()), &["9", "8"]),
        (SortCondition::LessOrEqual("a2".into()), &["9", "8", "7"]),
        (SortCondition::Greater("a3".into()), &["5", "4"]),
        (SortCondition::GreaterOrEqual("a3".into()), &["6", "5", "4"]),
    ];
    for (sort, expected) in cases {
        let mut expected: Vec<String> = expected.iter().map(|sort| (*sort).to_owned()).collect();
        fixture.expect_sort_keys(index("i").sort(sort.clone()), expected.clone()).await?;
        expected.reverse();
        fixture.expect_sort_keys(index("i").sort(sort).descending(), expected).await?;
    }
    Ok(())
}

async fn items_with_equal_index_keys_are_all_there(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for (partition, sort) in [("p", "1"), ("p", "2"), ("q", "1")] {
        fixture.put(indexed(partition, sort, "i", "same")).await?;
    }
    fixture.put(indexed("q", "2", "i", "sam")).await?;
    let same_key = index("i").sort(SortCondition::Equal("same".into()));
    fixture.expect_count(same_key.clone(), 3).await?;
    fixture.delete(&Key::new("p", "2")).await?;
    fixture.expect_count(same_key, 2).await?;
    let found = fixture.all(index("i").sort(SortCondition::Equal("same".into()))).await?;
    let mut keys: Vec<Option<Key>> = found.iter().map(|item| super::fixture::spec().key.key_of(item)).collect();
    keys.sort();
    expect_equal(keys, vec![Some(Key::new("p", "1")), Some(Key::new("q", "1"))])
}

async fn an_update_moves_an_item_in_the_index(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key = Key::new("p", "1");
    fixture.put(indexed("p", "1", "i", "1")).await?;
    fixture.update(&key, Update::new().set("GSI1SK", "9")).await?;
    fixture.expect_items(index("i"), vec![indexed("p", "1", "i", "9")]).await?;
    fixture.update(&key, Update::new().set("GSI1PK", "j")).await?;
    fixture.expect_items(index("i"), Vec::new()).await?;
    fixture.expect_items(index("j"), vec![indexed("p", "1", "j", "9")]).await
}

async fn an_item_leaves_the_index_with_its_attribute_and_comes_back(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key = Key::new("p", "1");
    fixture.put(indexed("p", "1", "i", "1")).await?;
    fixture.update(&key, Update::new().remove("GSI1PK")).await?;
    fixture.expect_items(index("i"), Vec::new()).await?;
    expect_equal(fixture.get(&key).await?, Some(item("p", "1").with("GSI1SK", "1")))?;
    fixture.update(&key, Update::new().set("GSI1PK", "i")).await?;
    fixture.expect_items(index("i"), vec![indexed("p", "1", "i", "1")]).await?;
    fixture.update(&key, Update::new().remove("GSI1SK")).await?;
    fixture.expect_items(index("i"), Vec::new()).await
}

async fn a_put_moves_an_item_in_the_index(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("p", "1", "i", "1")).await?;
    fixture.put(indexed("p", "1", "j", "1")).await?;
    fixture.expect_items(index("i"), Vec::new()).await?;
    fixture.expect_count(index("j"), 1).await?;
    fixture.put(item("p", "1")).await?;
    fixture.expect_items(index("j"), Vec::new()).await?;
    fixture.put(indexed("p", "1", "i", "1")).await?;
    fixture.expect_count(index("i"), 1).await
}

async fn a_deleted_item_leaves_the_index(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("p", "1", "i", "1")).await?;
    fixture.put(indexed("p", "2", "i", "2")).await?;
    fixture.delete(&Key::new("p", "1")).await?;
    fixture.expect_sort_keys(index("i"), vec!["2".to_owned()]).await
}

async fn an_index_shows_what_was_written_last(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key = Key::new("p", "1");
    fixture.put(indexed("p", "1", "i", "1").with("n", 0)).await?;
    for n in 1..20 {
        fixture.update(&key, Update::new().add("n", 1)).await?;
        fixture.expect_items(index("i"), vec![indexed("p", "1", "i", "1").with("n", n)]).await?;
    }
    Ok(())
}

async fn a_refused_write_leaves_the_index(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("p", "1", "i", "1")).await?;
    let never = nagaya_store::Condition::absent("PK");
    let writes = [
        Write::put(TABLE, indexed("p", "1", "j", "1")),
        Write::update(TABLE, Key::new("p", "1"), Update::new().set("GSI1PK", "j")),
        Write::delete(TABLE, Key::new("p", "1")),
    ];
    for write in writes {
        expect_error(fixture.write(write.when(never.clone())).await, "condition_failed")?;
    }
    fixture.expect_items(index("j"), Vec::new()).await?;
    fixture.expect_items(index("i"), vec![indexed("p", "1", "i", "1")]).await
}

async fn an_attribute_of_another_kind_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("p", "1", "i", "1")).await?;
    for wrong in [Value::from(1), Value::Null, true.into(), list(["i".into()])] {
        for name in ["GSI1PK", "GSI1SK"] {
            expect_error(fixture.put(indexed("p", "1", "i", "1").with(name, wrong.clone())).await, "invalid")?;
            let update = Update::new().set(name, wrong.clone());
            expect_error(fixture.update(&Key::new("p", "1"), update.clone()).await, "invalid")?;
            expect_error(fixture.update(&Key::new("p", "2"), update).await, "invalid")?;
        }
        expect_error(fixture.put(item("p", "2").with("GSI1SK", wrong)).await, "invalid")?;
    }
    expect_equal(fixture.all(partition_query("p")).await?, vec![indexed("p", "1", "i", "1")])?;
    fixture.expect_items(index("i"), vec![indexed("p", "1", "i", "1")]).await
}

async fn an_empty_index_key_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("p", "1", "i", "1")).await?;
    expect_error(fixture.put(indexed("p", "1", "", "1")).await, "invalid")?;
    expect_error(fixture.put(indexed("p", "1", "i", "")).await, "invalid")?;
    expect_error(fixture.update(&Key::new("p", "1"), Update::new().set("GSI1SK", "")).await, "invalid")?;
    fixture.expect_items(index("i"), vec![indexed("p", "1", "i", "1")]).await
}

async fn indexes_of_numbers_are_ordered_by_value(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key =
        KeySchema { partition: ("kind".to_owned(), KeyKind::String), sort: ("price".to_owned(), KeyKind::Number) };
    let table = TableSpec::new("goods", KeySchema::strings("PK", "SK")).with_index("by-price", key);
    fixture.store().ensure_tables(&[table]).await?;
    for (sort, price) in [("a", "10"), ("b", "9"), ("c", "-1"), ("d", "0.5"), ("e", "100")] {
        fixture.write(Write::put("goods", item("p", sort).with("kind", "tea").with("price", number(price)))).await?;
    }
    let query = Query::index("goods", "by-price", "tea");
    fixture.expect_sort_keys(query.clone(), ["c", "d", "b", "a", "e"].map(str::to_owned).to_vec()).await?;
    let cheap = query.clone().sort(SortCondition::LessOrEqual(key_number("9.0"))).descending();
    fixture.expect_sort_keys(cheap, ["b", "d", "c"].map(str::to_owned).to_vec()).await?;
    fixture.write(Write::update("goods", Key::new("p", "e"), Update::new().add("price", -200))).await?;
    fixture.expect_sort_keys(query.limit(2), ["e", "c", "d", "b", "a"].map(str::to_owned).to_vec()).await
}

async fn an_index_may_turn_the_table_around(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let table =
        TableSpec::new("edges", KeySchema::strings("PK", "SK")).with_index("back", KeySchema::strings("SK", "PK"));
    fixture.store().ensure_tables(&[table]).await?;
    for (from, to) in [("a", "x"), ("b", "x"), ("a", "y")] {
        fixture.write(Write::put("edges", item(from, to))).await?;
    }
    fixture.expect_items(Query::index("edges", "back", "x"), vec![item("a", "x"), item("b", "x")]).await?;
    fixture.expect_items(Query::index("edges", "back", "a"), Vec::new()).await
}

async fn several_indexes_are_kept_apart(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let table = TableSpec::new("many", KeySchema::strings("PK", "SK"))
        .with_index("one", KeySchema::strings("a", "b"))
        .with_index("two", KeySchema::strings("b", "a"))
        .with_index("three", KeySchema::strings("a", "SK"))
        .with_index(INDEX, KeySchema::strings("GSI1PK", "GSI1SK"));
    fixture.store().ensure_tables(&[table]).await?;
    let both = |sort: &str| item("p", sort).with("a", "x").with("b", "y");
    fixture.write(Write::put("many", both("1"))).await?;
    fixture.write(Write::put("many", item("p", "2").with("a", "x"))).await?;
    let found =
        |index: &'static str, partition: &'static str| fixture.sort_keys(Query::index("many", index, partition));
    expect_equal(found("one", "x").await?, vec!["1".to_owned()])?;
    expect_equal(found("two", "y").await?, vec!["1".to_owned()])?;
    expect_equal(found("two", "x").await?, Vec::new())?;
    expect_equal(found("three", "x").await?, vec!["1".to_owned(), "2".to_owned()])?;
    // An index of the same name in another table is another one.
    fixture.put(indexed("p", "1", "i", "1")).await?;
    expect_equal(found(INDEX, "i").await?, Vec::new())
}
