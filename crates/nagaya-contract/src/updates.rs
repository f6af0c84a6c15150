//! Updates: every change, what it starts from, and what it refuses.

use super::{
    cases,
    fixture::{Failure, Fixture, expect_equal, expect_error, item},
    values::{byte_strings, bytes, list, map, number, numbers, string_set},
};
use nagaya_store::{AssignedValue, Item, Key, Path, Update, UpdateAction, Value};

cases![
    check(values_of_every_kind_are_set),
    check(a_value_is_copied_from_another_path),
    check(numbers_go_up_and_down),
    sums_are_exact_to_38_digits[ExactNumbers],
    check(a_value_is_set_only_if_absent),
    check(elements_are_appended_to_a_list),
    check(values_inside_maps_and_lists_are_set),
    check(an_index_beyond_the_end_appends),
    check(values_are_removed),
    check(removing_what_is_not_there_is_no_error),
    check(elements_are_removed_by_the_places_they_had),
    places_inside_elements_stay_while_others_are_removed,
    check(a_number_is_added_to),
    check(a_set_gains_elements),
    check(a_set_loses_elements_and_goes_when_empty),
    check(all_changes_read_the_item_as_it_was),
    check(names_with_dots_are_not_paths),
    check(an_update_leaves_the_other_attributes),
    refuses(what_does_not_fit_is_refused_and_changes_nothing),
    refuses(two_changes_of_one_value_are_refused),
    sums_that_no_number_can_hold_are_refused,
    refuses(an_empty_set_cannot_be_set),
];

fn subject() -> Item {
    item("p", "1")
        .with("n", 5)
        .with("text", "open")
        .with("tags", string_set(["a", "b"]))
        .with("numbers", numbers(["1", "2"]))
        .with("blobs", byte_strings([&[1], &[2]]))
        .with("list", list([0.into(), 1.into(), 2.into(), 3.into()]))
        .with("map", map([("city", "Kyoto".into()), ("list", list([1.into()])), ("zip", map([("code", 600.into())]))]))
}

/// Updates, each with the attributes that it changes: `None` for those that are gone afterwards.
type Examples = Vec<(Update, Vec<(&'static str, Option<Value>)>)>;

/// Makes each update on a new [`subject`], which then differs in these attributes only.
async fn check(fixture: &Fixture<'_>, examples: Examples) -> Result<(), Failure> {
    for (update, changed) in examples {
        fixture.put(subject()).await?;
        let mut expected = subject();
        for (name, value) in changed {
            match value {
                Some(value) => expected.insert(name, value),
                None => drop(expected.remove(name)),
            }
        }
        let told = format!("{update:?}");
        let written = match fixture.update(&Key::new("p", "1"), update).await {
            Ok(written) => written,
            Err(error) => return Err(Failure::new(format!("{told} failed: {error}"))),
        };
        let found = fixture.get(&Key::new("p", "1")).await?;
        if found.as_ref() != Some(&expected) {
            return Err(Failure::new(format!("{told} gave {found:?}, not {expected:?}")));
        }
        expect_equal(written.item, Some(expected))?;
    }
    Ok(())
}

/// Each update is refused, and the [`subject`] stays as it was.
async fn refuses(fixture: &Fixture<'_>, updates: Vec<Update>) -> Result<(), Failure> {
    fixture.put(subject()).await?;
    for update in updates {
        let told = format!("{update:?}");
        match fixture.update(&Key::new("p", "1"), update).await {
            Err(error) if error.code() == "invalid" => {}
            Err(error) => return Err(Failure::new(format!("{told} failed with `{}`: {error}", error.code()))),
            Ok(_) => return Err(Failure::new(format!("{told} was done"))),
        }
        expect_equal(fixture.get(&Key::new("p", "1")).await?, Some(subject()))?;
    }
    Ok(())
}

fn at(name: &str) -> Path {
    Path::attribute(name)
}

fn values_of_every_kind_are_set() -> Examples {
    let values = [
        Value::Null,
        true.into(),
        number("-1.5").into(),
        "".into(),
        "長屋".into(),
        bytes(&[0, 255]),
        list([]),
        list([1.into(), map([("a", Value::Null)])]),
        map([]),
        map([("b", string_set(["x"]))]),
        string_set(["x", "y"]),
        numbers(["1", "-2"]),
        byte_strings([&[0], &[1]]),
    ];
    let set = |name, value: &Value| (Update::new().set(name, value.clone()), vec![(name, Some(value.clone()))]);
    values.iter().flat_map(|value| ["new", "text"].map(|name| set(name, value))).collect()
}

fn a_value_is_copied_from_another_path() -> Examples {
    let code = at("map").entry("zip").entry("code");
    vec![
        (Update::new().set("new", AssignedValue::Copy("n".into())), vec![("new", Some(5.into()))]),
        (Update::new().set("n", AssignedValue::Copy("text".into())), vec![("n", Some("open".into()))]),
        (Update::new().set("new", AssignedValue::Copy(code)), vec![("new", Some(600.into()))]),
        (Update::new().set("new", AssignedValue::Copy(at("list").index(3))), vec![("new", Some(3.into()))]),
    ]
}

fn numbers_go_up_and_down() -> Examples {
    let (plus, minus) =
        (|by| AssignedValue::Plus("n".into(), number(by)), |by| AssignedValue::Minus("n".into(), number(by)));
    vec![
        (Update::new().set("n", plus("2")), vec![("n", Some(7.into()))]),
        (Update::new().set("n", minus("7")), vec![("n", Some((-2).into()))]),
        (Update::new().set("n", plus("-5")), vec![("n", Some(0.into()))]),
        (Update::new().set("n", plus("0.1")), vec![("n", Some(number("5.1").into()))]),
        (Update::new().set("other", minus("0.5")), vec![("other", Some(number("4.5").into()))]),
        (
            Update::new().set(at("list").index(0), AssignedValue::Plus(at("list").index(3), 1.into())),
            vec![("list", Some(list([4.into(), 1.into(), 2.into(), 3.into()])))],
        ),
    ]
}

async fn sums_are_exact_to_38_digits(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let sums = [
        ("12345678901234567890123456789012345677", "1", "12345678901234567890123456789012345678"),
        ("-12345678901234567890123456789012345677", "-1", "-12345678901234567890123456789012345678"),
        ("0.1", "0.2", "0.3"),
        ("9007199254740992", "1", "9007199254740993"),
        ("99999999999999999999999999999999999999", "1", "1E+38"),
        // More than 38 digits on the way, but not at the end.
        ("90000000000000000000000000000000000001", "89999999999999999999999999999999999999", "1.8E+38"),
        ("1E+38", "-1", "99999999999999999999999999999999999999"),
        ("1E-130", "0", "1E-130"),
    ];
    for (start, by, sum) in sums {
        let key = Key::new("p", "1");
        for update in
            [Update::new().set("n", AssignedValue::Plus("n".into(), number(by))), Update::new().add("n", number(by))]
        {
            fixture.put(item("p", "1").with("n", number(start))).await?;
            let written = match fixture.update(&key, update).await {
                Ok(written) => written,
                Err(error) => return Err(Failure::new(format!("{start} + {by} failed: {error}"))),
            };
            expect_equal(written.item, Some(item("p", "1").with("n", number(sum))))?;
        }
    }
    Ok(())
}

fn a_value_is_set_only_if_absent() -> Examples {
    let if_absent = |path: Path| AssignedValue::IfAbsent(path, "default".into());
    vec![
        (Update::new().set("new", if_absent("new".into())), vec![("new", Some("default".into()))]),
        (Update::new().set("text", if_absent("text".into())), vec![]),
        (Update::new().set("new", if_absent("text".into())), vec![("new", Some("open".into()))]),
        (Update::new().set("text", if_absent(at("map").entry("none"))), vec![("text", Some("default".into()))]),
    ]
}

fn elements_are_appended_to_a_list() -> Examples {
    let append = |path: Path, values: &[Value]| AssignedValue::Append(path, values.to_vec());
    let longer = list([0.into(), 1.into(), 2.into(), 3.into(), "x".into(), Value::Null]);
    let (old, inner) = (subject().get("list").cloned(), at("map").entry("list"));
    let map =
        map([("city", "Kyoto".into()), ("list", list([1.into(), 2.into()])), ("zip", map([("code", 600.into())]))]);
    vec![
        (
            Update::new().set("list", append("list".into(), &["x".into(), Value::Null])),
            vec![("list", Some(longer.clone()))],
        ),
        (Update::new().set("new", append("list".into(), &["x".into(), Value::Null])), vec![("new", Some(longer))]),
        (Update::new().set("new", append("list".into(), &[])), vec![("new", old)]),
        (Update::new().set(inner.clone(), append(inner, &[2.into()])), vec![("map", Some(map))]),
    ]
}

fn values_inside_maps_and_lists_are_set() -> Examples {
    let inner = list([1.into()]);
    let with = |city: &str, code: i64| {
        Some(map([("city", city.into()), ("list", inner.clone()), ("zip", map([("code", code.into())]))]))
    };
    let wider = map([
        ("city", "Kyoto".into()),
        ("list", inner.clone()),
        ("street", "x".into()),
        ("zip", map([("code", 600.into())])),
    ]);
    let code = at("map").entry("zip").entry("code");
    vec![
        (Update::new().set(at("map").entry("city"), "Nara"), vec![("map", with("Nara", 600))]),
        (Update::new().set(code.clone(), 601), vec![("map", with("Kyoto", 601))]),
        (Update::new().set(code.clone(), 601).set(at("map").entry("city"), "Nara"), vec![("map", with("Nara", 601))]),
        (Update::new().set(at("map").entry("street"), "x"), vec![("map", Some(wider))]),
        (
            Update::new().set(at("list").index(1), "x"),
            vec![("list", Some(list([0.into(), "x".into(), 2.into(), 3.into()])))],
        ),
    ]
}

fn an_index_beyond_the_end_appends() -> Examples {
    let longer = list([0.into(), 1.into(), 2.into(), 3.into(), "x".into()]);
    let longest = list([0.into(), 1.into(), 2.into(), 3.into(), "x".into(), 5.into()]);
    vec![
        (Update::new().set(at("list").index(4), "x"), vec![("list", Some(longer.clone()))]),
        (Update::new().set(at("list").index(40), "x"), vec![("list", Some(longer.clone()))]),
        // In the order of the indexes, and not of the changes.
        (Update::new().add(at("list").index(5), 5).set(at("list").index(4), "x"), vec![("list", Some(longest))]),
    ]
}

fn values_are_removed() -> Examples {
    let smaller = map([("city", "Kyoto".into()), ("list", list([1.into()])), ("zip", map([]))]);
    vec![
        (Update::new().remove("n"), vec![("n", None)]),
        (Update::new().remove("n").remove("map"), vec![("n", None), ("map", None)]),
        (Update::new().remove(at("map").entry("zip").entry("code")), vec![("map", Some(smaller))]),
        (Update::new().remove(at("list").index(1)), vec![("list", Some(list([0.into(), 2.into(), 3.into()])))]),
    ]
}

fn removing_what_is_not_there_is_no_error() -> Examples {
    vec![
        (Update::new().remove("missing"), vec![]),
        (Update::new().remove(at("map").entry("missing")), vec![]),
        (Update::new().remove(at("list").index(9)), vec![]),
        (Update::new().delete("missing", string_set(["a"])), vec![]),
        (Update::new().delete("tags", string_set(["z"])), vec![]),
    ]
}

fn elements_are_removed_by_the_places_they_had() -> Examples {
    let list_at = |index| at("list").index(index);
    vec![
        (Update::new().remove(list_at(0)).remove(list_at(2)), vec![("list", Some(list([1.into(), 3.into()])))]),
        (Update::new().remove(list_at(3)).remove(list_at(1)), vec![("list", Some(list([0.into(), 2.into()])))]),
        (
            Update::new().remove(list_at(0)).set(list_at(1), "x"),
            vec![("list", Some(list(["x".into(), 2.into(), 3.into()])))],
        ),
    ]
}

async fn places_inside_elements_stay_while_others_are_removed(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let pair = |first: &str, second: &str| list([first.into(), second.into()]);
    let named = |names: [&str; 2]| map(names.map(|name| (name, true.into())));
    let key = Key::new("p", "1");

    fixture.put(item("p", "1").with("list", list([pair("a", "b"), pair("c", "d"), pair("e", "f")]))).await?;
    let list_at = |index| at("list").index(index);
    fixture.update(&key, Update::new().remove(list_at(0)).remove(list_at(1).index(0))).await?;
    let expected = list([list(["d".into()]), pair("e", "f")]);
    expect_equal(fixture.get(&key).await?, Some(item("p", "1").with("list", expected)))?;

    fixture.put(item("p", "1").with("list", list([named(["a", "b"]), named(["a", "b"]), named(["a", "b"])]))).await?;
    fixture.update(&key, Update::new().remove(list_at(0)).remove(list_at(1).entry("a"))).await?;
    let expected = list([map([("b", true.into())]), named(["a", "b"])]);
    expect_equal(fixture.get(&key).await?, Some(item("p", "1").with("list", expected)))
}

fn a_number_is_added_to() -> Examples {
    vec![
        (Update::new().add("n", 2), vec![("n", Some(7.into()))]),
        (Update::new().add("n", -7), vec![("n", Some((-2).into()))]),
        (Update::new().add("n", number("0.5")), vec![("n", Some(number("5.5").into()))]),
        (Update::new().add("new", 3), vec![("new", Some(3.into()))]),
    ]
}

fn a_set_gains_elements() -> Examples {
    vec![
        (Update::new().add("tags", string_set(["b", "c"])), vec![("tags", Some(string_set(["a", "b", "c"])))]),
        (Update::new().add("numbers", numbers(["2.0", "3"])), vec![("numbers", Some(numbers(["1", "2", "3"])))]),
        (Update::new().add("blobs", byte_strings([&[3]])), vec![("blobs", Some(byte_strings([&[1], &[2], &[3]])))]),
        (Update::new().add("new", string_set(["x"])), vec![("new", Some(string_set(["x"])))]),
    ]
}

fn a_set_loses_elements_and_goes_when_empty() -> Examples {
    vec![
        (Update::new().delete("tags", string_set(["b", "z"])), vec![("tags", Some(string_set(["a"])))]),
        (Update::new().delete("numbers", numbers(["1.0"])), vec![("numbers", Some(numbers(["2"])))]),
        (Update::new().delete("blobs", byte_strings([&[1]])), vec![("blobs", Some(byte_strings([&[2]])))]),
        (Update::new().delete("tags", string_set(["a", "b"])), vec![("tags", None)]),
        (Update::new().delete("numbers", numbers(["1", "2", "3"])), vec![("numbers", None)]),
    ]
}

fn all_changes_read_the_item_as_it_was() -> Examples {
    vec![
        (
            Update::new().set("n", AssignedValue::Copy("text".into())).set("text", AssignedValue::Copy("n".into())),
            vec![("n", Some("open".into())), ("text", Some(5.into()))],
        ),
        (
            Update::new().add("n", 1).set("new", AssignedValue::Plus("n".into(), 1.into())),
            vec![("n", Some(6.into())), ("new", Some(6.into()))],
        ),
        (
            Update::new().remove("text").set("new", AssignedValue::Copy("text".into())),
            vec![("text", None), ("new", Some("open".into()))],
        ),
    ]
}

fn names_with_dots_are_not_paths() -> Examples {
    vec![
        (Update::new().set("map.city", "x"), vec![("map.city", Some("x".into()))]),
        (Update::new().set("list[0]", "x"), vec![("list[0]", Some("x".into()))]),
        (Update::new().remove("map.city"), vec![]),
        (Update::new().set("#n", ":v").set("set", "SET"), vec![("#n", Some(":v".into())), ("set", Some("SET".into()))]),
    ]
}

fn an_update_leaves_the_other_attributes() -> Examples {
    vec![(Update::new().set("n", 6), vec![("n", Some(6.into()))]), (Update::new(), vec![])]
}

fn what_does_not_fit_is_refused_and_changes_nothing() -> Vec<Update> {
    vec![
        // Nothing to start from.
        Update::new().set("new", AssignedValue::Copy("missing".into())),
        Update::new().set("new", AssignedValue::Plus("missing".into(), 1.into())),
        Update::new().set("new", AssignedValue::Minus("missing".into(), 1.into())),
        Update::new().set("new", AssignedValue::Append("missing".into(), vec![1.into()])),
        // Of another kind.
        Update::new().set("n", AssignedValue::Plus("text".into(), 1.into())),
        Update::new().set("list", AssignedValue::Append("text".into(), vec![1.into()])),
        Update::new().set("tags", AssignedValue::Append("tags".into(), vec!["c".into()])),
        Update::new().add("text", 1),
        Update::new().add("n", string_set(["a"])),
        Update::new().add("tags", numbers(["1"])),
        Update::new().add("tags", "c"),
        Update::new().add("new", "c"),
        Update::new().add("new", list([1.into()])),
        Update::new().delete("tags", numbers(["1"])),
        Update::new().delete("tags", "a"),
        Update::new().delete("n", string_set(["a"])),
        Update::new().delete("missing", "a"),
        // No map or list around it.
        Update::new().set(at("missing").entry("x"), 1),
        Update::new().set(at("missing").index(0), 1),
        Update::new().set(at("text").entry("x"), 1),
        Update::new().set(at("map").index(0), 1),
        Update::new().set(at("list").entry("x"), 1),
        Update::new().set(at("map").entry("missing").entry("x"), 1),
        // One change that does not fit refuses the others.
        Update::new().set("n", 6).remove("text").set("new", AssignedValue::Copy("missing".into())),
    ]
}

fn two_changes_of_one_value_are_refused() -> Vec<Update> {
    vec![
        Update::new().set("n", 1).set("n", 2),
        Update::new().set("n", 1).remove("n"),
        Update::new().add("n", 1).set("n", AssignedValue::Plus("n".into(), 1.into())),
        Update::new().set("map", map([])).set(at("map").entry("city"), "x"),
        Update::new().set(at("map").entry("zip").entry("code"), 1).remove(at("map").entry("zip")),
        Update::new().set(at("list").index(0), 1).with_action(UpdateAction::Remove(at("list").index(0))),
    ]
}

async fn sums_that_no_number_can_hold_are_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let sums = [
        ("9.9999999999999999999999999999999999999E+125", "9.9999999999999999999999999999999999999E+125"),
        ("12345678901234567890123456789012345678", "0.1"),
        ("1E+100", "1"),
    ];
    for (start, by) in sums {
        let stored = item("p", "1").with("n", number(start));
        fixture.put(stored.clone()).await?;
        let key = Key::new("p", "1");
        expect_error(fixture.update(&key, Update::new().add("n", number(by))).await, "invalid")?;
        let plus = AssignedValue::Plus("n".into(), number(by));
        expect_error(fixture.update(&key, Update::new().set("n", plus)).await, "invalid")?;
        expect_equal(fixture.get(&key).await?, Some(stored))?;
    }
    Ok(())
}

fn an_empty_set_cannot_be_set() -> Vec<Update> {
    vec![
        Update::new().set("tags", string_set([])),
        Update::new().set("new", numbers([])),
        Update::new().set("new", map([("inside", byte_strings([]))])),
        Update::new().add("new", string_set([])),
    ]
}
