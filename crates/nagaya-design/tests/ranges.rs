//! A range finds exactly the items in it: `from` is inclusive, `to` is exclusive, for every type and position of the field.

use nagaya_design::{Design, FieldValues, Scalar, SortCondition, check};
use proptest::prelude::*;

/// Each type of ordered field, once inside the key and once at its end.
const DESIGN: &str = r#"
    name    = "ranges"
    version = "1.0"
    tenant  = { field = "t" }

    [table.main]
    key         = ["PK", "SK"]
    index.inner = ["IPK", "ISK"]
    index.bare  = ["BPK", "BSK"]

    [entity.millis]
    table = "main"
    key         = { PK = "M#{t}", SK = "M#{v}#{id}" }
    index.inner = { IPK = "M#{t}", ISK = "M#{v}" }
    index.bare  = { BPK = "M#{t}", BSK = "{v}" }
    fields      = { t = { type = "string", max = 9 }, id = { type = "ulid" }, v = { type = "timestamp", precision = "millis" } }

    [entity.date]
    table = "main"
    key         = { PK = "D#{t}", SK = "D#{v}#{id}" }
    index.inner = { IPK = "D#{t}", ISK = "D#{v}" }
    index.bare  = { BPK = "D#{t}", BSK = "{v}" }
    fields      = { t = { type = "string", max = 9 }, id = { type = "ulid" }, v = { type = "date" } }

    [entity.ulid]
    table = "main"
    key         = { PK = "U#{t}", SK = "U#{v}#{id}" }
    index.inner = { IPK = "U#{t}", ISK = "U#{v}" }
    index.bare  = { BPK = "U#{t}", BSK = "{v}" }
    fields      = { t = { type = "string", max = 9 }, id = { type = "ulid" }, v = { type = "ulid" } }

    [entity.padded]
    table = "main"
    key         = { PK = "P#{t}", SK = "P#{v:04}#{id}" }
    index.inner = { IPK = "P#{t}", ISK = "P#{v:04}" }
    index.bare  = { BPK = "P#{t}", BSK = "{v:04}" }
    fields      = { t = { type = "string", max = 9 }, id = { type = "ulid" }, v = { type = "integer", min = 5, max = 2000 } }

    [entity.plain]
    table = "main"
    key         = { PK = "I#{t}", SK = "I#{v}#{id}" }
    index.inner = { IPK = "I#{t}", ISK = "I#{v}" }
    index.bare  = { BPK = "I#{t}", BSK = "{v}" }
    fields      = { t = { type = "string", max = 9 }, id = { type = "ulid" }, v = { type = "integer", min = 100, max = 999 } }
"#;

const KINDS: [&str; 5] = ["millis", "date", "ulid", "padded", "plain"];

fn design() -> Design {
    let patterns = KINDS.iter().flat_map(|kind| {
        let pattern =
            |name: &str, index: &str| format!("[access.{kind}_{name}]\nentity = \"{kind}\"\n{index}range = \"v\"\n");
        [pattern("key", ""), pattern("inner", "index = \"inner\"\n"), pattern("bare", "index = \"bare\"\n")]
    });
    let source = DESIGN.to_owned() + &patterns.collect::<String>();
    let checked = check(&source, &[]);
    checked.design.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics))
}

struct Values(Vec<(&'static str, String)>);

impl FieldValues for Values {
    fn scalar(&self, path: &str) -> Option<Scalar<'_>> {
        self.0.iter().find(|(name, _)| *name == path).map(|(_, value)| Scalar::Text(value))
    }
}

/// Whether a stored sort key fulfils the query's condition, as a store would decide it.
fn finds(sort: &SortCondition, key: &str) -> bool {
    match sort {
        SortCondition::Any => true,
        SortCondition::Nothing => false,
        SortCondition::Equal(value) => key == value,
        SortCondition::BeginsWith(start) => key.starts_with(start),
        SortCondition::Between(least, most) => key >= least.as_str() && key <= most.as_str(),
        SortCondition::AtLeast(least) => key >= least.as_str(),
        SortCondition::Below(most) => key < most.as_str(),
    }
}

/// A small number as a value of each type; neighbours and equal numbers are likely.
fn value(kind: &str, number: u32) -> String {
    match kind {
        "millis" => format!("2026-01-31T23:{:02}:59.{:03}Z", number % 60, number % 1000),
        "date" => format!("20{:02}-{:02}-{:02}", 20 + number % 10, 1 + number % 12, 1 + number % 28),
        "ulid" => format!("01KG9S5Q60T4N2Y8ZC3M7VX{:03}", number % 1000),
        "padded" => (5 + number % 1996).to_string(),
        _ => (100 + number % 900).to_string(),
    }
}

/// A bound of a range, which may exceed the limits of the field.
fn limit(kind: &str, number: u32) -> String {
    match kind {
        "padded" | "plain" => (number % 3000).to_string(),
        _ => value(kind, number),
    }
}

/// Numbers compare by value, everything else as text does.
fn rank(kind: &str, value: &str) -> (u32, String) {
    match kind {
        "padded" | "plain" => (value.parse().expect("a number"), String::new()),
        _ => (0, value.to_owned()),
    }
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![0..40u32, 0..4000u32, Just(1995u32), Just(899u32)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_range_finds_exactly_the_items_in_it(
        kind in proptest::sample::select(KINDS.to_vec()),
        place in proptest::sample::select(vec!["key", "inner", "bare"]),
        (from, to) in (proptest::option::of(number()), proptest::option::of(number())),
        values in proptest::collection::vec(number(), 1..12),
    ) {
        thread_local!(static DESIGN: Design = design());
        DESIGN.with(|design| {
            let access = design.access_pattern(&format!("{kind}_{place}")).expect("declared above");
            let (from, to) = (from.map(|from| limit(kind, from)), to.map(|to| limit(kind, to)));
            let mut parameters = vec![("t", "x".to_owned())];
            parameters.extend(from.clone().map(|from| ("from", from)));
            parameters.extend(to.clone().map(|to| ("to", to)));
            let reversed = from.as_ref().zip(to.as_ref()).is_some_and(|(from, to)| rank(kind, from) >= rank(kind, to));
            let query = design.query(access, &Values(parameters));
            assert_eq!(query.is_err(), reversed, "{from:?} {to:?} {query:?}");
            let Ok(query) = query else { return };
            let (_, key) = design.key_of_access(access);
            for number in values {
                let value = value(kind, number);
                let fields = Values(vec![("t", "x".to_owned()), ("id", "01KG9S5Q60T4N2Y8ZC3M7VXR1E".to_owned()), ("v", value.clone())]);
                let stored = key.sort.render(&fields).expect("all fields are given");
                let inside = from.as_ref().is_none_or(|from| rank(kind, &value) >= rank(kind, from))
                    && to.as_ref().is_none_or(|to| rank(kind, &value) < rank(kind, to));
                assert_eq!(finds(&query.sort, &stored), inside, "{kind} {place} {value} in {from:?}..{to:?}: {:?}", query.sort);
            }
        });
    }
}

#[test]
fn an_invalid_bound_is_rejected() {
    let design = design();
    for (access, name, value) in [
        ("millis_key", "from", "yesterday"),
        ("date_bare", "to", "2026-02-30"),
        ("padded_key", "from", "ten"),
        ("ulid_inner", "to", "01"),
    ] {
        let access = design.access_pattern(access).expect("declared above");
        assert!(
            design.query(access, &Values(vec![("t", "x".to_owned()), (name, value.to_owned())])).is_err(),
            "{value}"
        );
    }
}

#[test]
fn the_refusal_of_a_bound_gives_the_expected_form() {
    let design = design();
    let refusal = |access: &str, value: &str| {
        let access = design.access_pattern(access).expect("declared above");
        let given = Values(vec![("t", "x".to_owned()), ("from", value.to_owned())]);
        design.query(access, &given).expect_err("it is no bound").to_string()
    };
    let shown = refusal("millis_key", "2026-01-01");
    assert!(shown.starts_with("`from` is not an instant in the form 20"), "{shown}");
    let shown = refusal("date_bare", "2026-02-30");
    assert!(shown.starts_with("`from` is not a day in the form 20"), "{shown}");
}
