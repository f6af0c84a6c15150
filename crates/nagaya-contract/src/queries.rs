//! Queries: one partition, in order, with every sort condition, both ways.

use super::{
    cases,
    fixture::{Failure, Fixture, TABLE, expect, expect_equal, expect_error, index, indexed, item, partition_query},
    values::{binary_key, key_number, number},
};
use nagaya_store::{
    ComparisonOp, Condition, ErrorKind, Item, KeyKind, KeySchema, KeyValue, Operand, Query, SortCondition, TableSpec,
    Write,
};

cases![
    a_partition_is_read_in_the_order_of_bytes,
    a_partition_without_items_is_an_empty_page,
    every_sort_condition_on_texts_both_ways,
    texts_with_zeros_and_last_characters_keep_their_order,
    every_sort_condition_on_numbers_both_ways [TypedKeys],
    numbers_of_38_digits_are_ordered_by_value [TypedKeys, ExactNumbers],
    every_sort_condition_on_bytes_both_ways [TypedKeys],
    partitions_may_be_numbers_and_bytes [TypedKeys],
    an_inverted_range_is_empty,
    a_filter_leaves_out_what_does_not_fit,
    a_limit_counts_what_is_read_before_the_filter,
    a_page_may_be_empty_and_still_go_on,
    a_limit_takes_the_first_and_descending_the_last,
    a_query_sees_each_write_acknowledged_before,
    a_value_of_another_kind_than_the_key_is_refused,
    a_number_does_not_begin_with_anything [TypedKeys],
    an_empty_partition_value_is_refused,
    a_limit_of_zero_is_refused,
    an_unknown_index_is_refused_by_name,
];

async fn a_partition_is_read_in_the_order_of_bytes(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let mut texts = ["b", "a", "B", "10", "9", "é", "z", "長", "👍", "\u{ffff}", "a#", "a b", "ab"];
    for text in texts {
        fixture.put(item("p", text)).await?;
        fixture.put(item("q", text)).await?;
    }
    texts.sort_unstable();
    let mut expected: Vec<Item> = texts.iter().map(|text| item("p", text)).collect();
    expect_equal(&fixture.all(partition_query("p")).await?, &expected)?;
    expected.reverse();
    expect_equal(fixture.all(partition_query("p").descending()).await?, expected)
}

async fn a_partition_without_items_is_an_empty_page(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1")).await?;
    for query in [
        partition_query("q"),
        partition_query("p1"),
        index("p"),
        partition_query("p").sort(SortCondition::Equal("2".into())),
    ] {
        let page = fixture.query(query).await?;
        expect_equal((page.items.len(), page.next), (0, None))?;
    }
    Ok(())
}

/// All sort conditions about these values.
fn conditions(values: &[KeyValue]) -> Vec<SortCondition> {
    let mut all = vec![SortCondition::Any];
    for value in values {
        all.extend([
            SortCondition::Equal(value.clone()),
            SortCondition::Less(value.clone()),
            SortCondition::LessOrEqual(value.clone()),
        ]);
        all.extend([SortCondition::Greater(value.clone()), SortCondition::GreaterOrEqual(value.clone())]);
        all.extend(
            values.iter().filter(|most| value <= *most).map(|most| SortCondition::Between(value.clone(), most.clone())),
        );
    }
    all
}

/// Puts an item for each sort key, then asks with each condition, both ways.
async fn check(
    fixture: &Fixture<'_>,
    kind: KeyKind,
    keys: &[KeyValue],
    sorts: Vec<SortCondition>,
) -> Result<(), Failure> {
    let table = "sorted";
    let schema = KeySchema { partition: ("PK".to_owned(), KeyKind::String), sort: ("SK".to_owned(), kind) };
    fixture.store().ensure_tables(&[TableSpec::new(table, schema)]).await?;
    let stored = |key: &KeyValue| Item::new().with("PK", "p").with("SK", key.clone());
    for key in keys {
        fixture.write(Write::put(table, stored(key))).await?;
        // The neighbours are never seen.
        fixture.write(Write::put(table, stored(key).with("PK", "o"))).await?;
        fixture.write(Write::put(table, stored(key).with("PK", "p\0"))).await?;
    }
    let mut ordered = keys.to_vec();
    ordered.sort();
    for sort in sorts {
        let mut expected: Vec<Item> = ordered.iter().filter(|key| sort.is_satisfied_by(key)).map(stored).collect();
        let query = Query::table(table, "p").sort(sort.clone());
        let found = fixture.all(query.clone()).await?;
        expect(found == expected, format!("{sort:?} gave {found:?}, not {expected:?}"))?;
        expected.reverse();
        let found = fixture.all(query.descending()).await?;
        expect(found == expected, format!("{sort:?} descending gave {found:?}, not {expected:?}"))?;
    }
    Ok(())
}

async fn every_sort_condition_on_texts_both_ways(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let keys = ["A", "A#1", "A#10", "A#2", "A$", "B", "a", "é", "長屋"].map(KeyValue::from);
    let mut values = keys.to_vec();
    values.extend(["0", "A#", "AB", "zz", "\u{10ffff}"].map(KeyValue::from));
    let mut sorts = conditions(&values);
    let starts = ["A", "A#", "A#1", "A#3", "B", "é", "長", "長屋", "長屋さん", "\u{10ffff}"];
    sorts.extend(starts.map(|start| SortCondition::BeginsWith(start.into())));
    check(fixture, KeyKind::String, &keys, sorts).await
}

async fn texts_with_zeros_and_last_characters_keep_their_order(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let keys =
        ["a", "a\0", "a\0\0", "a\0\u{1}", "a\u{1}", "a\u{7f}", "ab", "a\u{10ffff}", "a\u{10ffff}\u{10ffff}", "b", "\0"];
    let keys = keys.map(KeyValue::from);
    let mut sorts = conditions(&keys);
    let starts = ["a", "a\0", "a\0\0", "a\u{1}", "a\u{10ffff}", "\0", "b"];
    sorts.extend(starts.map(|start| SortCondition::BeginsWith(start.into())));
    check(fixture, KeyKind::String, &keys, sorts).await
}

async fn every_sort_condition_on_numbers_both_ways(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let keys =
        ["-100", "-20", "-3", "-2.5", "-0.001", "0", "0.001", "0.5", "1", "2", "10", "10.5", "99", "100", "1E+30"];
    let keys = keys.map(key_number);
    let mut values = keys.to_vec();
    values.extend(["-1000", "-10", "1.5", "1E+40"].map(key_number));
    check(fixture, KeyKind::Number, &keys, conditions(&values)).await
}

async fn numbers_of_38_digits_are_ordered_by_value(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let keys = [
        "-9.9999999999999999999999999999999999999E+125",
        "-12345678901234567890123456789012345679",
        "-12345678901234567890123456789012345678",
        "-1E-130",
        "0",
        "1E-130",
        "1.0000000000000000000000000000000000001E-130",
        "0.12345678901234567890123456789012345678",
        "0.12345678901234567890123456789012345679",
        "9007199254740992",
        "9007199254740993",
        "12345678901234567890123456789012345678",
        "12345678901234567890123456789012345679",
        "1E+125",
        "9.9999999999999999999999999999999999999E+125",
    ];
    let keys = keys.map(key_number);
    check(fixture, KeyKind::Number, &keys, conditions(&keys)).await
}

async fn every_sort_condition_on_bytes_both_ways(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let keys: [&[u8]; 10] = [&[0], &[0, 0], &[0, 1], &[0, 255], &[1], &[1, 0], &[127], &[255], &[255, 0], &[255, 255]];
    let keys = keys.map(binary_key);
    let mut sorts = conditions(&keys);
    let starts: [&[u8]; 6] = [&[0], &[0, 0], &[1], &[255], &[255, 255], &[255, 255, 255]];
    sorts.extend(starts.map(|start| SortCondition::BeginsWith(binary_key(start))));
    check(fixture, KeyKind::Binary, &keys, sorts).await
}

async fn partitions_may_be_numbers_and_bytes(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let tables = [
        ("numbers", KeyKind::Number, [key_number("1"), key_number("10"), key_number("-1")]),
        ("bytes", KeyKind::Binary, [binary_key(&[1]), binary_key(&[1, 0]), binary_key(&[255])]),
    ];
    for (table, kind, partitions) in tables {
        let schema = KeySchema { partition: ("PK".to_owned(), kind), sort: ("SK".to_owned(), KeyKind::String) };
        fixture.store().ensure_tables(&[TableSpec::new(table, schema)]).await?;
        let stored = |partition: &KeyValue, sort: &str| Item::new().with("PK", partition.clone()).with("SK", sort);
        for partition in &partitions {
            fixture.write(Write::put(table, stored(partition, "b"))).await?;
            fixture.write(Write::put(table, stored(partition, "a"))).await?;
        }
        for partition in partitions {
            let expected = vec![stored(&partition, "a"), stored(&partition, "b")];
            expect_equal(fixture.all(Query::table(table, partition)).await?, expected)?;
        }
    }
    Ok(())
}

async fn an_inverted_range_is_empty(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for sort in ["1", "2", "3"] {
        fixture.put(item("p", sort)).await?;
    }
    let query = partition_query("p").sort(SortCondition::Between("3".into(), "1".into()));
    fixture.expect_items(query.clone(), Vec::new()).await?;
    fixture.expect_items(query.descending(), Vec::new()).await
}

/// Ten items, of which the third and the seventh are open.
async fn ten(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for at in 0..10 {
        let status = if at == 2 || at == 6 { "open" } else { "done" };
        fixture.put(indexed("p", &at.to_string(), "i", &at.to_string()).with("status", status).with("n", at)).await?;
    }
    fixture.expect_count(index("i"), 10).await
}

async fn a_filter_leaves_out_what_does_not_fit(fixture: &Fixture<'_>) -> Result<(), Failure> {
    ten(fixture).await?;
    let open = Condition::equal("status", "open");
    let small = Condition::Compare(Operand::Value("n".into()), ComparisonOp::Less, 3.into());
    for query in [partition_query("p"), index("i")] {
        fixture.expect_sort_keys(query.clone().filter(open.clone()), vec!["2".to_owned(), "6".to_owned()]).await?;
        let both = query.clone().filter(open.clone().and(small.clone()));
        fixture.expect_sort_keys(both, vec!["2".to_owned()]).await?;
        let last = query.sort(SortCondition::GreaterOrEqual("3".into())).filter(open.clone()).descending();
        fixture.expect_sort_keys(last, vec!["6".to_owned()]).await?;
    }
    Ok(())
}

async fn a_limit_counts_what_is_read_before_the_filter(fixture: &Fixture<'_>) -> Result<(), Failure> {
    ten(fixture).await?;
    for query in [partition_query("p"), index("i")] {
        let page = fixture.query(query.limit(4).filter(Condition::equal("status", "open"))).await?;
        expect_equal(page.scanned_count, 4)?;
        expect_equal(super::fixture::sort_keys(&page.items), vec!["2".to_owned()])?;
        expect(page.next.is_some(), "there is more, but the page does not go on")?;
    }
    Ok(())
}

async fn a_page_may_be_empty_and_still_go_on(fixture: &Fixture<'_>) -> Result<(), Failure> {
    ten(fixture).await?;
    for (query, expected) in [(partition_query("p"), ["2", "6"]), (index("i").descending(), ["6", "2"])] {
        let query = query.limit(2).filter(Condition::equal("status", "open"));
        let page = fixture.query(query.clone()).await?;
        expect_equal((page.items.len(), page.scanned_count, page.next.is_some()), (0, 2, true))?;
        fixture.expect_sort_keys(query, expected.map(str::to_owned).to_vec()).await?;
    }
    Ok(())
}

async fn a_limit_takes_the_first_and_descending_the_last(fixture: &Fixture<'_>) -> Result<(), Failure> {
    ten(fixture).await?;
    for query in [partition_query("p"), index("i")] {
        let page = fixture.query(query.clone().limit(1)).await?;
        expect_equal(super::fixture::sort_keys(&page.items), vec!["0".to_owned()])?;
        let page = fixture.query(query.clone().limit(2).descending()).await?;
        expect_equal(super::fixture::sort_keys(&page.items), vec!["9".to_owned(), "8".to_owned()])?;
        let page = fixture.query(query.clone().limit(11)).await?;
        expect_equal((page.items.len(), page.scanned_count, page.next), (10, 10, None))?;
    }
    Ok(())
}

async fn a_query_sees_each_write_acknowledged_before(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for at in 0..50 {
        fixture.put(indexed("p", &format!("{at:02}"), "i", "x").with("n", at)).await?;
        let (found, last) = (fixture.all(partition_query("p")).await?, at as usize);
        expect_equal(found.len(), last + 1)?;
        expect_equal(found[last].get("n"), Some(&at.into()))?;
    }
    Ok(())
}

async fn a_value_of_another_kind_than_the_key_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("p", "1", "i", "1")).await?;
    expect_error(fixture.query(partition_query(1)).await, "invalid")?;
    expect_error(fixture.query(index(binary_key(b"i"))).await, "invalid")?;
    for query in [partition_query("p"), index("i")] {
        for sort in [
            SortCondition::Equal(1.into()),
            SortCondition::Less(1.into()),
            SortCondition::LessOrEqual(binary_key(b"1")),
            SortCondition::Greater(1.into()),
            SortCondition::GreaterOrEqual(1.into()),
            SortCondition::Between("0".into(), 1.into()),
            SortCondition::Between(1.into(), "2".into()),
            SortCondition::BeginsWith(binary_key(b"1")),
        ] {
            expect_error(fixture.query(query.clone().sort(sort)).await, "invalid")?;
        }
    }
    Ok(())
}

async fn a_number_does_not_begin_with_anything(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let schema = KeySchema { sort: ("SK".to_owned(), KeyKind::Number), ..KeySchema::strings("PK", "SK") };
    fixture.store().ensure_tables(&[TableSpec::new("numbers", schema)]).await?;
    let query = Query::table("numbers", "p").sort(SortCondition::BeginsWith(KeyValue::Number(number("1"))));
    expect_error(fixture.query(query).await, "invalid").map(drop)
}

async fn an_empty_partition_value_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    expect_error(fixture.query(partition_query("")).await, "invalid")?;
    expect_error(fixture.query(index("")).await, "invalid").map(drop)
}

async fn a_limit_of_zero_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(indexed("p", "1", "i", "1")).await?;
    expect_error(fixture.query(partition_query("p").limit(0)).await, "invalid")?;
    expect_error(fixture.query(index("i").limit(0)).await, "invalid").map(drop)
}

async fn an_unknown_index_is_refused_by_name(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let error = expect_error(fixture.query(Query::index(TABLE, "GSI9", "i")).await, "no_index")?;
    let named = matches!(error.kind(), ErrorKind::NoIndex { table, index } if table == TABLE && index == "GSI9");
    expect(named, format!("the error does not name the index: {error:?}"))
}
