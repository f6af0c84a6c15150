//! Numbers are exact, ordered by value, and survive a round trip through text.

use nagaya_store::{Number, NumberError};
use proptest::prelude::*;

fn parse(text: &str) -> Result<Number, NumberError> {
    text.parse()
}

/// A number of up to 38 digits in any notation.
fn spelling() -> impl Strategy<Value = String> {
    ("[-+]?", "0{0,3}[0-9]{1,19}", "[0-9]{0,19}", -80..80i32).prop_map(|(sign, whole, fraction, power)| match power {
        -40..=40 if fraction.is_empty() => format!("{sign}{whole}"),
        -40..=40 => format!("{sign}{whole}.{fraction}"),
        power => format!("{sign}{whole}.{fraction}E{power}"),
    })
}

/// Small numbers with a few decimals, whose order and sum can be computed with integers.
fn thousandths() -> impl Strategy<Value = i64> {
    prop_oneof![-20..20i64, -2_000_000..2_000_000i64, any::<i32>().prop_map(i64::from)]
}

fn from_thousandths(number: i64) -> Number {
    let sign = if number < 0 { "-" } else { "" };
    let (whole, part) = (number.abs() / 1000, number.abs() % 1000);
    parse(&format!("{sign}{whole}.{part:03}")).expect("a small number")
}

fn ordered(number: &Number) -> Vec<u8> {
    let mut bytes = Vec::new();
    number.encode_ordered(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn a_number_survives_a_round_trip_through_text(text in spelling()) {
        let number = parse(&text).expect("up to 38 digits within range");
        prop_assert_eq!(parse(&number.to_string()), Ok(number), "{} written as {}", text, number);
    }

    #[test]
    fn order_is_by_value(a in thousandths(), b in thousandths()) {
        let (left, right) = (from_thousandths(a), from_thousandths(b));
        prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        prop_assert_eq!(left == right, a == b);
        prop_assert_eq!(ordered(&left).cmp(&ordered(&right)), a.cmp(&b), "as bytes");
    }

    #[test]
    fn the_order_of_encoded_bytes_is_the_order_of_values(a in spelling(), b in spelling()) {
        let (a, b) = (parse(&a).expect("a number"), parse(&b).expect("a number"));
        prop_assert_eq!(ordered(&a).cmp(&ordered(&b)), a.cmp(&b));
        // No encoding is a prefix of another, so that the next part of a key cannot change the order.
        prop_assert!(a == b || !ordered(&b).starts_with(&ordered(&a)));
    }

    #[test]
    fn sums_and_differences_are_exact(a in thousandths(), b in thousandths()) {
        let (left, right) = (from_thousandths(a), from_thousandths(b));
        prop_assert_eq!(left.plus(&right), Ok(from_thousandths(a + b)));
        prop_assert_eq!(left.minus(&right), Ok(from_thousandths(a - b)));
    }

    #[test]
    fn integers_survive_a_round_trip(number in any::<i64>()) {
        prop_assert_eq!(i64::try_from(Number::from(number)), Ok(number));
        prop_assert_eq!(Number::from(number).to_string(), number.to_string());
    }

    #[test]
    fn any_text_is_a_number_or_an_error(text in "[-+0-9.eE]{0,60}") {
        let _ = parse(&text);
    }
}

#[test]
fn the_limits_are_those_of_dynamodb() {
    let digits = "9".repeat(38);
    assert_eq!(parse(&digits).expect("38 digits").to_string(), digits);
    assert_eq!(parse(&format!("{digits}9")), Err(NumberError::TooManyDigits));
    assert_eq!(parse(&format!("{digits}00")).expect("trailing zeros do not count").to_string(), format!("{digits}00"));
    assert!(parse("1E-130").is_ok() && parse("9.9E+125").is_ok());
    assert_eq!(parse("1E-131"), Err(NumberError::OutOfRange));
    assert_eq!(parse("1E+126"), Err(NumberError::OutOfRange));
    for wrong in ["", "-", ".", "1.2.3", "1e", "0x1", " 1", "1 ", "NaN", "inf", "１"] {
        assert_eq!(parse(wrong), Err(NumberError::Malformed), "{wrong:?}");
    }
    assert_eq!(parse("-0.00"), Ok(Number::ZERO));
    let big = parse(&digits).expect("38 digits");
    assert_eq!(big.plus(&parse("0.1").expect("a number")), Err(NumberError::TooManyDigits));
    assert_eq!(big.minus(&big), Ok(Number::ZERO));
}
