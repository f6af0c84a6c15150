//! Single items: written, read, replaced, deleted, whatever their values and keys.

use super::{
    cases,
    fixture::{Failure, Fixture, TABLE, expect, expect_equal, expect_error, item},
    values::{binary_key, byte_strings, bytes, key_number, list, map, number, numbers, string_set},
};
use nagaya_store::{Condition, Item, Key, KeyKind, KeySchema, KeyValue, TableSpec, Update, Value, Write};

cases![
    a_put_item_is_read_back,
    what_is_not_there_is_none,
    a_put_replaces_the_whole_item,
    a_deleted_item_is_gone,
    deleting_what_is_not_there_is_no_error,
    a_single_write_answers_with_the_item_after_it,
    every_kind_of_value_comes_back_as_it_was,
    empty_values_are_values,
    texts_come_back_byte_for_byte,
    attribute_names_are_free,
    numbers_keep_all_their_digits[ExactNumbers],
    a_number_has_one_form_however_it_is_written,
    keys_do_not_run_into_each_other,
    keys_may_have_any_characters,
    keys_may_be_numbers_and_bytes[TypedKeys],
    equal_numbers_are_the_same_key[TypedKeys],
    a_key_of_another_kind_is_refused,
    a_batch_is_read_in_the_order_of_its_keys,
    a_batch_reads_from_several_tables,
    a_batch_may_be_empty,
];

async fn a_put_item_is_read_back(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let todo = item("p", "1").with("title", "Buy milk").with("version", 1);
    fixture.put(todo.clone()).await?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, Some(todo))
}

async fn what_is_not_there_is_none(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1")).await?;
    for key in [Key::new("p", "2"), Key::new("q", "1"), Key::new("1", "p")] {
        expect_equal(fixture.get(&key).await?, None)?;
    }
    Ok(())
}

async fn a_put_replaces_the_whole_item(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("old", true).with("both", 1)).await?;
    let new = item("p", "1").with("new", true).with("both", 2);
    fixture.put(new.clone()).await?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, Some(new))
}

async fn a_deleted_item_is_gone(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1")).await?;
    fixture.put(item("p", "2")).await?;
    fixture.delete(&Key::new("p", "1")).await?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, None)?;
    expect_equal(fixture.get(&Key::new("p", "2")).await?, Some(item("p", "2")))
}

async fn deleting_what_is_not_there_is_no_error(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.delete(&Key::new("p", "1")).await?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, None)
}

async fn a_single_write_answers_with_the_item_after_it(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key = Key::new("p", "1");
    let written = fixture.put(item("p", "1").with("n", 1)).await?;
    expect_equal(written.item, Some(item("p", "1").with("n", 1)))?;
    let written = fixture.update(&key, Update::new().add("n", 1).set("m", "x")).await?;
    expect_equal(written.item, Some(item("p", "1").with("n", 2).with("m", "x")))?;
    let written = fixture.write(Write::condition_check(TABLE, key.clone(), Condition::exists("n"))).await?;
    expect_equal(written.item, None)?;
    let written = fixture.delete(&key).await?;
    expect_equal(written.item, None)
}

/// Puts an item with these attributes, and reads it back by each way.
async fn comes_back(fixture: &Fixture<'_>, attributes: &[(&str, Value)]) -> Result<(), Failure> {
    let mut stored = item("p", "1");
    for (name, value) in attributes {
        stored.insert(*name, value.clone());
    }
    fixture.put(stored.clone()).await?;
    let key = Key::new("p", "1");
    let found = fixture.get(&key).await?.unwrap_or_default();
    for (name, value) in attributes {
        expect(found.get(name) == Some(value), format!("`{name}` is {:?}, not {value:?}", found.get(name)))?;
    }
    expect_equal(&found, &stored)?;
    expect_equal(fixture.store().batch_get(&[(TABLE.to_owned(), key)]).await?, vec![Some(stored.clone())])?;
    expect_equal(fixture.all(super::fixture::partition_query("p")).await?, vec![stored])
}

async fn every_kind_of_value_comes_back_as_it_was(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let every_byte: Vec<u8> = (0..=255).collect();
    let nested = map([
        ("list", list([1.into(), "x".into(), Value::Null, list([list([true.into()])])])),
        ("map", map([("set", string_set(["a", "b"])), ("bytes", bytes(&[0, 255]))])),
        ("number", number("-12.5").into()),
    ]);
    comes_back(
        fixture,
        &[
            ("null", Value::Null),
            ("true", true.into()),
            ("false", false.into()),
            ("number", 42.into()),
            ("negative", (-42).into()),
            ("fraction", number("0.001").into()),
            ("text", "Buy milk".into()),
            ("number as text", "42".into()),
            ("bytes", Value::Binary(every_byte)),
            ("list", list(["b".into(), "a".into(), "b".into(), 1.into()])),
            ("map", map([("b", 1.into()), ("a", "x".into())])),
            ("texts", string_set(["b", "a", "日本"])),
            ("numbers", numbers(["10", "9", "-1", "0.5"])),
            ("byte strings", byte_strings([&[1, 2], &[0], &[255]])),
            ("one text", string_set(["a"])),
            ("nested", nested),
        ],
    )
    .await
}

async fn empty_values_are_values(fixture: &Fixture<'_>) -> Result<(), Failure> {
    comes_back(
        fixture,
        &[
            ("text", "".into()),
            ("bytes", bytes(&[])),
            ("list", list([])),
            ("map", map([])),
            ("inside a list", list(["".into(), list([]), map([])])),
            ("inside a map", map([("text", "".into()), ("list", list([]))])),
        ],
    )
    .await
}

async fn texts_come_back_byte_for_byte(fixture: &Fixture<'_>) -> Result<(), Failure> {
    // Composed and decomposed, beyond the basic plane, zero and control characters, line ends, right to left.
    let all = ["é", "e\u{301}", "長屋", "👨‍👩‍👧", "a\0b", "\u{1}\u{7f}\u{feff}", "a\r\nb\tc", "שלום", "\"\\'", " padded "];
    let attributes: Vec<(String, Value)> =
        all.iter().enumerate().map(|(at, text)| (format!("text {at}"), (*text).into())).collect();
    let attributes: Vec<(&str, Value)> =
        attributes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    comes_back(fixture, &attributes).await
}

async fn attribute_names_are_free(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let names = [
        "a.b",
        "a[0]",
        "#n",
        ":v",
        "size",
        "name",
        "SET",
        "and",
        "長屋",
        "with space",
        "_ts",
        "id",
        "_etag",
        "-",
        "\"",
        "$type",
    ];
    let attributes: Vec<(&str, Value)> = names.iter().map(|name| (*name, Value::from(*name))).collect();
    comes_back(fixture, &attributes).await
}

async fn numbers_keep_all_their_digits(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let texts = [
        "12345678901234567890123456789012345678",
        "-12345678901234567890123456789012345678",
        "0.12345678901234567890123456789012345678",
        "99999999999999999999999999999999999999",
        "1234567890123456789.0123456789012345678",
        "9.9999999999999999999999999999999999999E+125",
        "-9.9999999999999999999999999999999999999E+125",
        "1E-130",
        "-1E-130",
        "9007199254740993",
        "9223372036854775807",
        "0.1",
    ];
    for text in texts {
        let value = Value::Number(number(text));
        comes_back(fixture, &[("number", value.clone()), ("in a list", list([value])), ("in a set", numbers([text]))])
            .await?;
    }
    Ok(())
}

async fn a_number_has_one_form_however_it_is_written(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for (written, read) in [("1.50", "1.5"), ("-0", "0"), ("-0.00", "0"), ("0100", "100"), ("1E2", "100"), ("+7", "7")]
    {
        fixture.put(item("p", "1").with("n", number(written))).await?;
        let found = fixture.get(&Key::new("p", "1")).await?.unwrap_or_default();
        let found = found.get("n").and_then(Value::as_number).map(|number| number.to_string());
        expect_equal(found.as_deref(), Some(read))?;
    }
    Ok(())
}

/// Puts an item under each key, and reads each.
async fn are_different(fixture: &Fixture<'_>, keys: &[(&str, &str)]) -> Result<(), Failure> {
    for (at, (partition, sort)) in keys.iter().enumerate() {
        fixture.put(item(partition, sort).with("at", at as i64)).await?;
    }
    for (at, (partition, sort)) in keys.iter().enumerate() {
        let found = fixture.get(&Key::new(*partition, *sort)).await?;
        expect_equal(found, Some(item(partition, sort).with("at", at as i64)))?;
        let found = fixture.sort_keys(super::fixture::partition_query(*partition)).await?;
        let mut expected: Vec<&str> =
            keys.iter().filter(|(other, _)| other == partition).map(|(_, sort)| *sort).collect();
        expected.sort_unstable();
        expect_equal(found, expected.into_iter().map(str::to_owned).collect())?;
    }
    Ok(())
}

async fn keys_do_not_run_into_each_other(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let keys = [
        ("a", "bc"),
        ("ab", "c"),
        ("a#b", "c"),
        ("a", "b#c"),
        ("a|b", "c"),
        ("a", "b|c"),
        ("a\0", "b"),
        ("a", "\0b"),
        ("a\0\u{1}", "b"),
        ("a\0\0", "b"),
        ("A", "bc"),
    ];
    are_different(fixture, &keys).await
}

async fn keys_may_have_any_characters(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let keys = [
        ("/", "?"),
        ("\\", "#"),
        ("長屋", "日本"),
        (" ", " "),
        (" a", "a "),
        ("é", "e\u{301}"),
        ("e\u{301}", "é"),
        ("%2F", "+"),
        ("'", "\""),
        ("👨‍👩‍👧", "\u{10ffff}"),
        ("\n", "\t"),
    ];
    are_different(fixture, &keys).await
}

/// A table with keys of these kinds.
fn typed(name: &str, kinds: [KeyKind; 2]) -> TableSpec {
    let [partition, sort] = kinds;
    TableSpec::new(name, KeySchema { partition: ("PK".to_owned(), partition), sort: ("SK".to_owned(), sort) })
}

async fn keys_may_be_numbers_and_bytes(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let samples = |kind: KeyKind| match kind {
        KeyKind::String => ["a", "\0", "長屋"].map(KeyValue::from),
        KeyKind::Number => ["-1.5", "0", "12345678901234567890"].map(key_number),
        KeyKind::Binary => [&[0, 1][..], &[0][..], &[255, 0, 255][..]].map(binary_key),
    };
    let kinds = [KeyKind::String, KeyKind::Number, KeyKind::Binary];
    for (at, kinds) in kinds.iter().flat_map(|first| kinds.map(|second| [*first, second])).enumerate() {
        let table = format!("typed{at}");
        fixture.store().ensure_tables(&[typed(&table, kinds)]).await?;
        let keys = samples(kinds[0]).into_iter().zip(samples(kinds[1])).map(|(first, second)| Key::new(first, second));
        for key in keys {
            let stored = Item::new().with("PK", key.partition.clone()).with("SK", key.sort.clone()).with("x", 1);
            fixture.write(Write::put(&table, stored.clone())).await?;
            expect_equal(fixture.store().get(&table, &key).await?, Some(stored))?;
            fixture.write(Write::delete(&table, key.clone())).await?;
            expect_equal(fixture.store().get(&table, &key).await?, None)?;
        }
    }
    Ok(())
}

async fn equal_numbers_are_the_same_key(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.store().ensure_tables(&[typed("numbers", [KeyKind::Number, KeyKind::Number])]).await?;
    let stored = Item::new().with("PK", number("1.50")).with("SK", number("-0"));
    fixture.write(Write::put("numbers", stored.clone())).await?;
    let key = Key::new(key_number("1.5"), key_number("0"));
    expect_equal(fixture.store().get("numbers", &key).await?, Some(stored))
}

async fn a_key_of_another_kind_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for key in [Key::new(1, "1"), Key::new("p", 1), Key::new(binary_key(b"p"), "1")] {
        expect_error(fixture.get(&key).await, "invalid")?;
        expect_error(fixture.delete(&key).await, "invalid")?;
        expect_error(fixture.update(&key, Update::new().set("x", 1)).await, "invalid")?;
        expect_error(
            fixture.write(Write::condition_check(TABLE, key.clone(), Condition::absent("x"))).await,
            "invalid",
        )?;
        expect_error(fixture.store().batch_get(&[(TABLE.to_owned(), key)]).await, "invalid")?;
    }
    for incomplete in [
        Item::new().with("PK", "p"),
        Item::new().with("SK", "1"),
        item("p", "1").with("SK", 1),
        item("p", "1").with("PK", Value::Null),
    ] {
        expect_error(fixture.put(incomplete).await, "invalid")?;
    }
    expect_equal(fixture.all(super::fixture::partition_query("p")).await?, Vec::new())
}

async fn a_batch_is_read_in_the_order_of_its_keys(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for sort in ["1", "2", "3", "4"] {
        fixture.put(item("p", sort)).await?;
    }
    let key = |partition: &str, sort: &str| (TABLE.to_owned(), Key::new(partition, sort));
    let keys = [key("p", "3"), key("p", "9"), key("p", "1"), key("q", "1"), key("p", "4")];
    let expected = vec![Some(item("p", "3")), None, Some(item("p", "1")), None, Some(item("p", "4"))];
    expect_equal(fixture.store().batch_get(&keys).await?, expected)
}

async fn a_batch_reads_from_several_tables(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.store().ensure_tables(&[TableSpec::new("others", KeySchema::strings("PK", "SK"))]).await?;
    fixture.put(item("p", "1").with("in", "things")).await?;
    fixture.write(Write::put("others", item("p", "1").with("in", "others"))).await?;
    let keys = ["others", TABLE].map(|table| (table.to_owned(), Key::new("p", "1")));
    let expected = ["others", "things"].map(|table| Some(item("p", "1").with("in", table)));
    expect_equal(fixture.store().batch_get(&keys).await?, expected.to_vec())
}

async fn a_batch_may_be_empty(fixture: &Fixture<'_>) -> Result<(), Failure> {
    expect_equal(fixture.store().batch_get(&[]).await?, Vec::new())
}
