//! Needed ingredients compared with the stock.

use proptest::prelude::*;

use super::*;

/// Needed (recipe, name, amount, unit, factor), stock (name, amount, unit), and expected missing items.
#[track_caller]
fn check(
    needed: &[(&str, &str, Option<f64>, &str, f64)],
    there: &[(&str, Option<f64>, &str)],
    missing: &[(&str, Option<f64>, &str, Option<&str>)],
) {
    let needs = needs(needed);
    let (lines, _) = needs.compare(&stock(&needs, there));
    let lines: Vec<_> = lines
        .iter()
        .map(|line| (line.name.as_str(), line.amount, line.unit.as_deref().unwrap_or(""), line.recipe.as_deref()))
        .collect();
    assert_eq!(lines, missing);
}

fn needs(needed: &[(&str, &str, Option<f64>, &str, f64)]) -> Needs {
    let mut needs = Needs::default();
    for (recipe, name, number, unit, times) in needed {
        needs.add(recipe, name, &Amount::new(*number, Some(unit)), *times);
    }
    needs
}

fn stock(needs: &Needs, there: &[(&str, Option<f64>, &str)]) -> Stock {
    let mut stock = needs.stock();
    for (name, number, unit) in there {
        stock.add(name, &Amount::new(*number, Some(unit)), Source::Fridge);
    }
    stock
}

#[test]
fn equal_ingredients_are_added_up() {
    check(
        &[
            ("r1", "豚肉", Some(200.0), "g", 1.0),
            ("r2", " 豚肉 ", Some(100.0), "ｇ", 1.5),
            ("r1", "玉ねぎ", Some(1.0), "個", 2.0),
            ("r2", "Tomato", Some(1.0), "", 1.0),
            ("r2", "ＴＯＭＡＴＯ", Some(2.0), "", 1.0),
        ],
        &[],
        &[
            ("豚肉", Some(350.0), "g", None),
            ("玉ねぎ", Some(2.0), "個", Some("r1")),
            ("Tomato", Some(3.0), "", Some("r2")),
        ],
    );
}

#[test]
fn tablespoons_and_teaspoons_are_different_units() {
    check(
        &[("r1", "醤油", Some(1.0), "T", 1.0), ("r1", "醤油", Some(1.0), "t", 1.0)],
        &[("醤油", Some(1.0), "t")],
        &[("醤油", Some(1.0), "T", Some("r1"))],
    );
}

#[test]
fn ingredients_in_stock_are_left_out() {
    let pork = [("r1", "豚肉", Some(300.0), "g", 1.0)];
    check(&pork, &[("豚肉", Some(100.0), "g"), ("豚肉", Some(50.0), "g")], &[("豚肉", Some(150.0), "g", Some("r1"))]);
    check(&pork, &[("豚肉", Some(300.0), "g")], &[]);
    check(&pork, &[("豚肉", Some(999.0), "g")], &[]);
    // A stock without an amount is enough.
    check(&pork, &[("豚肉", None, "")], &[]);
    // The units cannot be compared.
    check(&pork, &[("豚肉", Some(1.0), "パック")], &[("豚肉", Some(300.0), "g", Some("r1"))]);
    check(&pork, &[("豚肉", Some(0.0), "g"), ("牛肉", None, "")], &[("豚肉", Some(300.0), "g", Some("r1"))]);
}

#[test]
fn what_is_in_stock_is_named_with_its_place() {
    let needs = needs(&[
        ("r1", "豚肉", Some(300.0), "g", 1.0),
        ("r1", "塩", None, "", 1.0),
        ("r1", "酢", Some(2.0), "T", 1.0),
        ("r1", "米", Some(1.0), "kg", 1.0),
    ]);
    let mut stock = needs.stock();
    for (name, number, unit, source) in [
        ("豚肉", Some(250.0), "g", Source::List),
        ("豚肉", Some(50.0), "g", Source::Bought),
        ("豚肉", Some(100.0), "g", Source::Fridge),
        ("塩", Some(1.0), "袋", Source::List),
        ("塩", Some(1.0), "袋", Source::Bought),
        ("酢", None, "", Source::Bought),
    ] {
        stock.add(name, &Amount::new(number, Some(unit)), source);
    }
    let (missing, left_out) = needs.compare(&stock);
    assert_eq!(missing.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["米"]);
    let left_out: Vec<_> =
        left_out.iter().map(|part| (part.name.as_str(), part.amount, part.source.reason())).collect();
    let expected = [
        ("豚肉", Some(100.0), "in_fridge"),
        ("豚肉", Some(50.0), "bought"),
        ("豚肉", Some(150.0), "on_list"),
        ("塩", None, "bought"),
        ("酢", Some(2.0), "bought"),
    ];
    assert_eq!(left_out, expected);
}

#[test]
fn any_stock_satisfies_an_ingredient_without_an_amount() {
    let salt = [("r1", "塩", None, "少々", 1.0), ("r2", "塩", None, "", 3.0), ("r2", "塩", Some(0.0), "g", 1.0)];
    check(&salt, &[], &[("塩", None, "", None)]);
    check(&salt, &[("塩", Some(0.0), "g")], &[("塩", None, "", None)]);
    check(&salt, &[("塩", Some(1.0), "kg")], &[]);
    check(&salt, &[("塩", None, "")], &[]);
    check(
        &[("r1", "塩", None, "", 1.0), ("r2", "塩", Some(5.0), "g", 1.0)],
        &[],
        &[("塩", Some(5.0), "g", Some("r2"))],
    );
    check(&[("r1", "  ", Some(1.0), "g", 1.0)], &[], &[]);
}

#[test]
fn amounts_are_exact_to_a_thousandth() {
    let third = ("r1", "米", Some(100.0), "g", 1.0 / 3.0);
    check(&[third, third, third], &[], &[("米", Some(100.0), "g", Some("r1"))]);
    check(
        &[("r1", "酢", Some(0.1), "l", 1.0), ("r1", "酢", Some(0.2), "l", 1.0)],
        &[],
        &[("酢", Some(0.3), "l", Some("r1"))],
    );
    check(&[("r1", "酢", Some(0.3), "l", 1.0)], &[("酢", Some(0.1), "l"), ("酢", Some(0.2), "l")], &[]);
    check(&[("r1", "サフラン", Some(0.0001), "g", 1.0)], &[], &[("サフラン", Some(0.001), "g", Some("r1"))]);
}

/// However much a fridge has, what it does not need takes no memory.
#[test]
fn a_stock_keeps_what_is_needed_only() {
    let needs = needs(&[("r1", "豚肉", Some(300.0), "g", 1.0), ("r1", "塩", None, "", 1.0)]);
    let units: Vec<_> = (0..1_000).map(|n| format!("unit {n}")).collect();
    let there = units.iter().flat_map(|unit| [("豚肉", Some(1.0), unit.as_str()), (unit.as_str(), None, "")]);
    let stock = stock(&needs, &there.collect::<Vec<_>>());
    assert_eq!((stock.amounts.len(), stock.some.len(), stock.enough.len()), (2, 1, 0));
}

proptest! {
    /// The added items are sufficient together with the stock, and none of them is superfluous.
    #[test]
    fn added_items_are_sufficient_and_necessary(
        needed in proptest::collection::vec((0..3_usize, 0..4_usize, proptest::option::of(0.0..500.0_f64), 0..3_usize, 1..9_u8), 0..30),
        there in proptest::collection::vec((0..4_usize, proptest::option::of(0.0..500.0_f64), 0..3_usize), 0..6),
    ) {
        let (recipes, names, units) = (["r1", "r2", "r3"], ["a", "b", "c", "d"], ["", "g", "ml"]);
        let needed: Vec<_> = needed
            .into_iter()
            .map(|(recipe, name, number, unit, times)| (recipes[recipe], names[name], number, units[unit], f64::from(times) / 4.0))
            .collect();
        let there: Vec<_> = there.into_iter().map(|(name, number, unit)| (names[name], number, units[unit])).collect();
        let needs = needs(&needed);
        let mut stock = stock(&needs, &there);
        let (missing, left_out) = needs.compare(&stock);
        for (at, line) in missing.iter().enumerate() {
            prop_assert!(line.amount.is_none_or(|amount| amount > 0.0));
            let again = |other: &ShoppingLine| (&other.name, &other.unit) == (&line.name, &line.unit);
            prop_assert!(!missing[..at].iter().any(again), "a line twice: {:?}", missing);
        }
        // Without any one of them something is missing.
        for left_out in 0..missing.len() {
            let mut without = self::stock(&needs, &there);
            let others = missing.iter().enumerate().filter(|(at, _)| *at != left_out);
            others.for_each(|(_, line)| without.add(&line.name, &Amount::new(line.amount, line.unit.as_deref()), Source::List));
            prop_assert_eq!(needs.compare(&without).0.len(), 1);
        }
        missing.iter().for_each(|line| stock.add(&line.name, &Amount::new(line.amount, line.unit.as_deref()), Source::List));
        prop_assert_eq!(needs.compare(&stock).0, Vec::new());
        // What is left out is there.
        prop_assert!(left_out.iter().all(|part| part.source == Source::Fridge && part.amount.is_none_or(|amount| amount > 0.0)));
    }
}
