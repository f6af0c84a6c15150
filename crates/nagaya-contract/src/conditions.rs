//! Conditions: on every kind of value, in writes and in filters alike.

use super::{
    cases,
    fixture::{Failure, Fixture, TABLE, expect, expect_equal, expect_error, item, partition_query},
    values::{byte_strings, bytes, list, map, number, numbers, string_set},
};
use nagaya_store::{
    ComparisonOp, Condition, FailedCondition, Item, Key, Operand, Path, Update, Value, Write, WriteSet,
};

cases![
    check(a_value_exists_or_is_absent),
    check(values_of_every_kind_can_be_equal),
    check(numbers_are_ordered_by_value),
    check(texts_and_bytes_are_ordered_by_bytes),
    numbers_of_38_digits_are_compared_exactly[ExactNumbers],
    check(values_of_different_kinds_are_unequal_and_have_no_order),
    check(an_absent_value_is_unequal_to_all_and_nothing_else),
    check(between_includes_both_ends),
    check(in_is_one_of_several),
    check(texts_and_bytes_begin_with),
    check(texts_sets_and_lists_contain),
    check(a_size_counts_units_bytes_or_elements),
    check(what_has_no_size_is_unequal_to_all_and_nothing_else),
    check(conditions_are_joined_by_and_or_and_not),
    check(a_join_of_nothing_holds_for_and_only),
    check(paths_lead_into_maps_and_lists),
    check(names_are_taken_as_they_are),
    an_item_that_is_not_there_has_no_attributes,
    a_failed_condition_answers_with_the_found_item,
    a_failed_condition_changes_nothing,
    all_failing_actions_are_listed[Transactions],
    a_create_on_absence_succeeds_once,
];

use ComparisonOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};

/// The item that the conditions below are about.
fn subject() -> Item {
    item("p", "1")
        .with("text", "open")
        .with("empty", "")
        .with("n", 5)
        .with("negative", -3)
        .with("flag", true)
        .with("nothing", Value::Null)
        .with("bytes", bytes(&[1, 2, 3]))
        .with("texts", string_set(["a", "b"]))
        .with("numbers", numbers(["1", "2", "3"]))
        .with("blobs", byte_strings([&[1], &[2, 3]]))
        .with("list", list([1.into(), "x".into(), map([("deep", true.into())]), list([10.into(), 20.into()])]))
        .with("map", map([("city", "Kyoto".into()), ("zip", map([("code", 600.into())]))]))
        .with("a.b", "dotted")
        .with("a", map([("b", "nested")].map(|(name, value)| (name, value.into()))))
        .with("list[0]", "bracketed")
        .with("unicode", "長屋")
        .with("emoji", "👍!")
}

/// Conditions, and whether they hold for the [`subject`].
type Examples = Vec<(Condition, bool)>;

/// Tries conditions on the [`subject`]: as the condition of a write, and as the filter of a query.
async fn check(fixture: &Fixture<'_>, examples: Examples) -> Result<(), Failure> {
    fixture.put(subject()).await?;
    for (condition, expected) in examples {
        let told = format!("{condition:?} should {}hold", if expected { "" } else { "not " });
        let write = Write::condition_check(TABLE, Key::new("p", "1"), condition.clone());
        match fixture.write(write).await {
            Ok(_) => expect(expected, format!("{told}, but did in a write"))?,
            Err(error) if error.failed_conditions().is_some() => {
                expect(!expected, format!("{told}, but did not in a write"))?;
            }
            Err(error) => return Err(Failure::new(format!("{told}, but the write failed: {error}"))),
        }
        let found = match fixture.query(partition_query("p").filter(condition)).await {
            Ok(page) => page.items.len(),
            Err(error) => return Err(Failure::new(format!("{told}, but the filter failed: {error}"))),
        };
        expect(found == usize::from(expected), format!("{told}, but the filter let {found} items through"))?;
    }
    Ok(())
}

fn compare(path: impl Into<Path>, comparison: ComparisonOp, value: impl Into<Value>) -> Condition {
    Condition::Compare(Operand::Value(path.into()), comparison, value.into())
}

fn size(path: impl Into<Path>, comparison: ComparisonOp, length: i64) -> Condition {
    Condition::Compare(Operand::Size(path.into()), comparison, length.into())
}

fn between(path: impl Into<Path>, least: impl Into<Value>, most: impl Into<Value>) -> Condition {
    Condition::Between(Operand::Value(path.into()), least.into(), most.into())
}

fn one_of<const N: usize>(path: impl Into<Path>, values: [Value; N]) -> Condition {
    Condition::In(Operand::Value(path.into()), values.to_vec())
}

fn begins(path: impl Into<Path>, start: impl Into<Value>) -> Condition {
    Condition::BeginsWith(path.into(), start.into())
}

fn contains(path: impl Into<Path>, part: impl Into<Value>) -> Condition {
    Condition::Contains(path.into(), part.into())
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}

/// The value at a path, compared with one in each of the six ways.
fn all_comparisons(path: &str, value: &Value, order: std::cmp::Ordering) -> [(Condition, bool); 6] {
    [
        (compare(path, Equal, value.clone()), order.is_eq()),
        (compare(path, NotEqual, value.clone()), order.is_ne()),
        (compare(path, Less, value.clone()), order.is_lt()),
        (compare(path, LessOrEqual, value.clone()), order.is_le()),
        (compare(path, Greater, value.clone()), order.is_gt()),
        (compare(path, GreaterOrEqual, value.clone()), order.is_ge()),
    ]
}

fn a_value_exists_or_is_absent() -> Examples {
    let there = ["text", "empty", "n", "flag", "nothing", "bytes", "texts", "list", "map"];
    let exists = |name, expected: bool| [(Condition::exists(name), expected), (Condition::absent(name), !expected)];
    there.into_iter().flat_map(|name| exists(name, true)).chain(exists("missing", false)).collect()
}

fn values_of_every_kind_can_be_equal() -> Examples {
    let compared = |name: &str, value: Value, equal: bool| {
        [(compare(name, Equal, value.clone()), equal), (compare(name, NotEqual, value), !equal)]
    };
    let others: [(&str, Value); 10] = [
        ("text", "Open".into()),
        ("empty", " ".into()),
        ("n", 6.into()),
        ("flag", false.into()),
        ("bytes", bytes(&[1, 2])),
        ("texts", string_set(["a"])),
        ("numbers", numbers(["1", "2", "4"])),
        ("blobs", byte_strings([&[1], &[2]])),
        ("list", list([1.into(), "x".into()])),
        ("map", map([("city", "Kyoto".into())])),
    ];
    let (subject, is_key) = (subject(), |name: &str| ["PK", "SK"].contains(&name));
    let same = subject.iter().filter(|(name, _)| !is_key(name));
    let same = same.flat_map(|(name, value)| compared(name, value.clone(), true));
    same.chain(others.into_iter().flat_map(|(name, value)| compared(name, value, false))).collect()
}

fn numbers_are_ordered_by_value() -> Examples {
    use std::cmp::Ordering::{Equal, Greater, Less};
    // "10" is before "5" as text, and -3 before -10 as digits.
    let five = [("10", Less), ("5.0", Equal), ("4.99", Greater), ("-10", Greater), ("0", Greater)];
    let minus_three = [("-10", Greater), ("-3", Equal), ("-2.9", Less), ("0", Less), ("2", Less)];
    let compared = |name, (other, order): (&str, _)| all_comparisons(name, &number(other).into(), order);
    let five = five.into_iter().flat_map(|other| compared("n", other));
    five.chain(minus_three.into_iter().flat_map(|other| compared("negative", other))).collect()
}

fn texts_and_bytes_are_ordered_by_bytes() -> Examples {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let texts = [("opem", Greater), ("open", Equal), ("open ", Less), ("ope", Greater), ("Z", Greater), ("é", Less)];
    let blobs: [(&[u8], _); 4] = [(&[1, 2], Greater), (&[1, 2, 3], Equal), (&[1, 2, 3, 0], Less), (&[200], Less)];
    let texts = texts.into_iter().flat_map(|(other, order)| all_comparisons("text", &other.into(), order));
    texts.chain(blobs.into_iter().flat_map(|(other, order)| all_comparisons("bytes", &bytes(other), order))).collect()
}

async fn numbers_of_38_digits_are_compared_exactly(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let (smaller, larger) = ("12345678901234567890123456789012345677", "12345678901234567890123456789012345678");
    fixture.put(item("q", "1").with("n", number(larger))).await?;
    let n =
        |comparison, other| Write::condition_check(TABLE, Key::new("q", "1"), compare("n", comparison, number(other)));
    fixture.write(n(Greater, smaller)).await?;
    fixture.write(n(NotEqual, smaller)).await?;
    fixture.write(n(Equal, larger)).await?;
    expect_error(fixture.write(n(Equal, smaller)).await, "condition_failed")?;
    expect_error(fixture.write(n(LessOrEqual, smaller)).await, "condition_failed").map(drop)
}

fn values_of_different_kinds_are_unequal_and_have_no_order() -> Examples {
    let mut examples = vec![
        (between("n", "0", "9"), false),
        (one_of("n", ["5".into(), string_set(["5"])]), false),
        (begins("n", "5"), false),
        (begins("bytes", "\u{1}"), false),
        (contains("texts", 1), false),
        (contains("numbers", "1"), false),
        (contains("text", bytes(b"open")), false),
        (compare("nothing", Equal, ""), false),
    ];
    let pairs: [(&str, Value); 4] =
        [("n", "5".into()), ("text", 1.into()), ("bytes", "\u{1}".into()), ("flag", 1.into())];
    for (name, value) in pairs {
        let all = [Less, LessOrEqual, Greater, GreaterOrEqual, Equal, NotEqual];
        examples.extend(all.map(|comparison| (compare(name, comparison, value.clone()), comparison == NotEqual)));
    }
    examples
}

fn an_absent_value_is_unequal_to_all_and_nothing_else() -> Examples {
    let way = |comparison| compare("missing", comparison, 1);
    vec![
        (way(NotEqual), true),
        (compare("missing", NotEqual, Value::Null), true),
        (way(Equal), false),
        (way(Less), false),
        (way(LessOrEqual), false),
        (way(Greater), false),
        (way(GreaterOrEqual), false),
        (compare("missing", Equal, Value::Null), false),
        (between("missing", 0, 9), false),
        (one_of("missing", [1.into(), Value::Null]), false),
        (begins("missing", "x"), false),
        (contains("missing", "x"), false),
        (not(way(Equal)), true),
        (not(way(Less)), true),
        (not(way(NotEqual)), false),
    ]
}

fn between_includes_both_ends() -> Examples {
    vec![
        (between("n", 5, 5), true),
        (between("n", 5, 9), true),
        (between("n", -1, 5), true),
        (between("n", 6, 9), false),
        (between("n", 1, 4), false),
        (between("n", number("4.9"), number("5.1")), true),
        (between("negative", -10, -3), true),
        (between("text", "o", "p"), true),
        (between("text", "open", "open"), true),
        (between("text", "opened", "p"), false),
        (between("bytes", bytes(&[1]), bytes(&[2])), true),
        (between("bytes", bytes(&[1, 3]), bytes(&[2])), false),
        (Condition::Between(Operand::Size("text".into()), 4.into(), 5.into()), true),
        (Condition::Between(Operand::Size("text".into()), 5.into(), 6.into()), false),
    ]
}

fn in_is_one_of_several() -> Examples {
    vec![
        (one_of("text", ["done".into(), "open".into()]), true),
        (one_of("text", ["done".into(), "ope".into()]), false),
        (one_of("n", [number("5.0").into()]), true),
        (one_of("flag", [false.into(), true.into()]), true),
        (one_of("nothing", [Value::Null]), true),
        (one_of("texts", [string_set(["b", "a"])]), true),
        (one_of("bytes", [bytes(&[1]), bytes(&[1, 2, 3])]), true),
        (Condition::In(Operand::Size("list".into()), vec![3.into(), 4.into()]), true),
        (Condition::In(Operand::Size("list".into()), vec![3.into(), 5.into()]), false),
    ]
}

fn texts_and_bytes_begin_with() -> Examples {
    vec![
        (begins("text", "op"), true),
        (begins("text", "open"), true),
        (begins("text", "opened"), false),
        (begins("text", "pen"), false),
        (begins("text", "OP"), false),
        (begins("unicode", "長"), true),
        (begins("bytes", bytes(&[1, 2])), true),
        (begins("bytes", bytes(&[2])), false),
        (begins(Path::attribute("map").entry("city"), "Kyo"), true),
    ]
}

fn texts_sets_and_lists_contain() -> Examples {
    vec![
        (contains("text", "pe"), true),
        (contains("text", "pn"), false),
        (contains("unicode", "屋"), true),
        (contains("bytes", bytes(&[2, 3])), true),
        (contains("bytes", bytes(&[1, 3])), false),
        (contains("texts", "a"), true),
        (contains("texts", "c"), false),
        (contains("numbers", number("2.0")), true),
        (contains("numbers", 4), false),
        (contains("blobs", bytes(&[2, 3])), true),
        (contains("blobs", bytes(&[2])), false),
        (contains("list", "x"), true),
        (contains("list", 1), true),
        (contains("list", "1"), false),
        (contains("list", 10), false),
        (contains(Path::attribute("list").index(3), 10), true),
    ]
}

fn a_size_counts_units_bytes_or_elements() -> Examples {
    let sizes = [
        ("text", 4),
        ("empty", 0),
        ("unicode", 2),
        ("emoji", 3),
        ("bytes", 3),
        ("texts", 2),
        ("numbers", 3),
        ("blobs", 2),
        ("list", 4),
        ("map", 2),
    ];
    let compared = |(name, length): (&str, i64)| {
        [
            (size(name, Equal, length), true),
            (size(name, NotEqual, length), false),
            (size(name, Less, length + 1), true),
            (size(name, Less, length), false),
            (size(name, LessOrEqual, length), true),
            (size(name, Greater, length - 1), true),
            (size(name, Greater, length), false),
            (size(name, GreaterOrEqual, length), true),
        ]
    };
    let inside = (size(Path::attribute("map").entry("zip"), Equal, 1), true);
    sizes.into_iter().flat_map(compared).chain([inside]).collect()
}

fn what_has_no_size_is_unequal_to_all_and_nothing_else() -> Examples {
    let compared =
        |name| [(size(name, Equal, 1), false), (size(name, NotEqual, 1), true), (size(name, GreaterOrEqual, 0), false)];
    ["missing", "n", "flag", "nothing"].into_iter().flat_map(compared).collect()
}

fn conditions_are_joined_by_and_or_and_not() -> Examples {
    let (yes, no) = (Condition::equal("n", 5), Condition::equal("n", 6));
    vec![
        (yes.clone().and(yes.clone()), true),
        (yes.clone().and(no.clone()), false),
        (no.clone().or(yes.clone()), true),
        (no.clone().or(no.clone()), false),
        (not(no.clone()), true),
        (not(yes.clone()), false),
        (not(not(yes.clone())), true),
        (Condition::And(vec![yes.clone(), yes.clone(), no.clone()]), false),
        (Condition::Or(vec![no.clone(), no.clone(), yes.clone()]), true),
        (no.clone().and(no.clone()).or(yes.clone()), true),
        (Condition::And(vec![no.clone(), no.clone().or(yes.clone())]), false),
        (yes.clone().or(yes.clone()).and(no.clone()), false),
        (not(yes.clone().and(no.clone())), true),
        (not(no.clone().or(yes.clone())), false),
        (Condition::And(vec![yes]), true),
        (Condition::Or(vec![no]), false),
    ]
}

fn a_join_of_nothing_holds_for_and_only() -> Examples {
    vec![(Condition::And(Vec::new()), true), (Condition::Or(Vec::new()), false), (one_of("n", []), false)]
}

fn paths_lead_into_maps_and_lists() -> Examples {
    let (map, list) = (Path::attribute("map"), Path::attribute("list"));
    let code = map.clone().entry("zip").entry("code");
    vec![
        (Condition::equal(map.clone().entry("city"), "Kyoto"), true),
        (Condition::equal(code.clone(), 600), true),
        (compare(code.clone(), Greater, 599), true),
        (Condition::exists(map.clone().entry("zip")), true),
        (Condition::absent(map.clone().entry("street")), true),
        (compare(map.clone().entry("street"), NotEqual, 1), true),
        (Condition::equal(list.clone().index(1), "x"), true),
        (Condition::equal(list.clone().index(2).entry("deep"), true), true),
        (Condition::equal(list.clone().index(3).index(1), 20), true),
        (Condition::exists(list.clone().index(4)), false),
        // A step that does not fit the value leads nowhere.
        (Condition::exists(map.index(0)), false),
        (Condition::exists(list.entry("deep")), false),
        (Condition::exists(Path::attribute("text").entry("x")), false),
        (Condition::absent(code.index(0)), true),
        (Condition::absent(Path::attribute("missing").entry("x").index(3)), true),
    ]
}

fn names_are_taken_as_they_are() -> Examples {
    vec![
        (Condition::equal("a.b", "dotted"), true),
        (Condition::equal(Path::attribute("a").entry("b"), "nested"), true),
        (Condition::equal("list[0]", "bracketed"), true),
        (Condition::equal(Path::attribute("list").index(0), 1), true),
        (Condition::absent("a.c"), true),
        (Condition::absent("map.city"), true),
        (Condition::absent("list[1]"), true),
        (Condition::absent("#n"), true),
        (Condition::absent("n) OR attribute_exists(n"), true),
    ]
}

async fn an_item_that_is_not_there_has_no_attributes(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let cases = [
        (Condition::absent("PK"), true),
        (Condition::exists("PK"), false),
        (Condition::exists("n"), false),
        (compare("n", NotEqual, 5), true),
        (compare("n", Equal, 5), false),
        (compare("n", Less, 5), false),
        (not(Condition::equal("n", 5)), true),
        (size("n", GreaterOrEqual, 0), false),
        (contains("n", 5), false),
        (between("n", 0, 9), false),
        (Condition::absent(Path::attribute("map").entry("city")), true),
    ];
    for (condition, expected) in cases {
        let told = format!("{condition:?}");
        match fixture.write(Write::condition_check(TABLE, Key::new("p", "none"), condition)).await {
            Ok(_) => expect(expected, format!("{told} held"))?,
            Err(error) => {
                expect_equal(error.failed_conditions(), Some(&[FailedCondition { action: 0, current: None }][..]))?;
                expect(!expected, format!("{told} did not hold"))?;
            }
        }
    }
    expect_equal(fixture.get(&Key::new("p", "none")).await?, None)
}

/// A write of each kind on this key, under a condition.
fn each_write(key: &Key, condition: &Condition) -> [Write; 4] {
    let put = Item::new().with("PK", key.partition.clone()).with("SK", key.sort.clone()).with("by", "put");
    [
        Write::put(TABLE, put),
        Write::update(TABLE, key.clone(), Update::new().set("by", "update").add("n", 1)),
        Write::delete(TABLE, key.clone()),
        Write::condition_check(TABLE, key.clone(), Condition::exists("n")),
    ]
    .map(|write| write.when(condition.clone()))
}

async fn a_failed_condition_answers_with_the_found_item(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(subject()).await?;
    for write in each_write(&Key::new("p", "1"), &Condition::equal("n", 6)) {
        let error = expect_error(fixture.write(write).await, "condition_failed")?;
        expect_equal(error.failed_conditions(), Some(&[FailedCondition { action: 0, current: Some(subject()) }][..]))?;
    }
    for write in each_write(&Key::new("p", "none"), &Condition::exists("PK")) {
        let error = expect_error(fixture.write(write).await, "condition_failed")?;
        expect_equal(error.failed_conditions(), Some(&[FailedCondition { action: 0, current: None }][..]))?;
    }
    Ok(())
}

async fn a_failed_condition_changes_nothing(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(subject()).await?;
    for write in each_write(&Key::new("p", "1"), &Condition::absent("PK")) {
        expect_error(fixture.write(write).await, "condition_failed")?;
    }
    for write in each_write(&Key::new("p", "none"), &Condition::exists("PK")) {
        expect_error(fixture.write(write).await, "condition_failed")?;
    }
    expect_equal(fixture.all(partition_query("p")).await?, vec![subject()])
}

async fn all_failing_actions_are_listed(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "0").with("n", 0)).await?;
    fixture.put(item("p", "1").with("n", 1)).await?;
    fixture.put(item("p", "2").with("n", 2)).await?;
    let set = WriteSet::new()
        .and(Write::put(TABLE, item("p", "0")).when(Condition::absent("PK")))
        .and(Write::delete(TABLE, Key::new("p", "1")).when(Condition::equal("n", 1)))
        .and(Write::condition_check(TABLE, Key::new("p", "2"), Condition::equal("n", 3)))
        .and(Write::update(TABLE, Key::new("p", "3"), Update::new().add("n", 1)).when(Condition::exists("PK")));
    let error = expect_error(fixture.write(set).await, "condition_failed")?;
    let expected = [
        FailedCondition { action: 0, current: Some(item("p", "0").with("n", 0)) },
        FailedCondition { action: 2, current: Some(item("p", "2").with("n", 2)) },
        FailedCondition { action: 3, current: None },
    ];
    expect_equal(error.failed_conditions(), Some(&expected[..]))
}

async fn a_create_on_absence_succeeds_once(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let create = |by: &str| Write::put(TABLE, item("p", "1").with("by", by)).when(Condition::absent("PK"));
    fixture.write(create("first")).await?;
    let error = expect_error(fixture.write(create("second")).await, "condition_failed")?;
    let found = error.failed_conditions().and_then(|failed| failed[0].current.clone());
    expect_equal(found, Some(item("p", "1").with("by", "first")))?;
    fixture.delete(&Key::new("p", "1")).await?;
    fixture.write(create("third")).await?;
    expect_equal(fixture.get(&Key::new("p", "1")).await?, Some(item("p", "1").with("by", "third")))
}
