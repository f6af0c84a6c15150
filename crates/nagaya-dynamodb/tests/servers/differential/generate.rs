//! Random operations on a small key space, so that they conflict.

use std::collections::BTreeSet;

use fastrand::Rng;
use nagaya_store::{
    AssignedValue, ComparisonOp, Condition, Item, Key, KeySchema, Number, Operand, Path, Query, Scan, SortCondition,
    TableSpec, Update, UpdateAction, Value, Write, WriteSet,
};

pub(crate) const TABLE: &str = "things";
pub(crate) const INDEXES: [&str; 2] = ["GSI1", "GSI2"];
const PARTITIONS: usize = 3;
const SORTS: usize = 6;
/// Attributes and their usual types. Some names would need escaping in expressions.
const ATTRIBUTES: [(&str, Mostly); 10] = [
    ("n", Mostly::Number),
    ("count", Mostly::Number),
    ("name", Mostly::Text),
    ("a.b", Mostly::Text),
    ("#x", Mostly::Anything),
    ("長屋", Mostly::Anything),
    ("list", Mostly::List),
    ("map", Mostly::Map),
    ("set", Mostly::TextSet),
    ("numbers", Mostly::NumberSet),
];

#[derive(Clone, Copy)]
enum Mostly {
    Number,
    Text,
    List,
    Map,
    TextSet,
    NumberSet,
    Anything,
}

/// Two indexes: one with string keys, and one with a number as sort key.
pub(crate) fn spec() -> TableSpec {
    let mut by_number = KeySchema::strings("GSI2PK", "GSI2SK");
    by_number.sort.1 = nagaya_store::KeyKind::Number;
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))
        .with_index(INDEXES[0], KeySchema::strings("GSI1PK", "GSI1SK"))
        .with_index(INDEXES[1], by_number)
        .with_ttl("expiresAt")
}

/// An operation on both stores.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Write(WriteSet),
    Get(Key),
    BatchGet(Vec<Key>),
    /// All pages of a query.
    Query(Query),
    /// The first page of a query on the table, to be continued later.
    Open(Query),
    /// The next page of that query.
    Resume,
    /// All pages of a scan.
    Scan(Scan),
    /// Advances the clock by seconds.
    Wait(i64),
}

pub(crate) fn operation(rng: &mut Rng, now: i64) -> Operation {
    match rng.u32(0..100) {
        0..52 => Operation::Write(write_set(rng, now)),
        52..64 => Operation::Get(key(rng)),
        64..69 => Operation::BatchGet((0..rng.usize(1..8)).map(|_| key(rng)).collect()),
        69..86 => Operation::Query(query(rng)),
        86..90 => Operation::Open(table_query(rng).limit(rng.usize(1..4))),
        90..94 => Operation::Resume,
        94..97 => Operation::Scan(scan(rng)),
        _ => Operation::Wait(rng.i64(1..4)),
    }
}

fn key(rng: &mut Rng) -> Key {
    Key::new(format!("P{}", rng.usize(0..PARTITIONS)), format!("S{}", rng.usize(0..SORTS)))
}

fn write_set(rng: &mut Rng, now: i64) -> WriteSet {
    let count = if rng.u8(0..10) < 6 { 1 } else { rng.usize(2..6) };
    let mut keys = BTreeSet::new();
    let mut writes = Vec::new();
    for _ in 0..count {
        let key = key(rng);
        // Two actions on one item are rejected, so they must be rare.
        if keys.insert(key.clone()) || rng.u8(0..20) == 0 {
            writes.push(write(rng, key, now));
        }
    }
    writes.into_iter().collect()
}

fn write(rng: &mut Rng, key: Key, now: i64) -> Write {
    let write = match rng.u8(0..10) {
        0..4 => Write::put(TABLE, item(rng, &key, now)),
        4..8 => Write::update(TABLE, key, update(rng, now)),
        8 => Write::delete(TABLE, key),
        _ => return Write::condition_check(TABLE, key, condition(rng, 2)),
    };
    match rng.u8(0..10) {
        0..4 => write,
        4..6 => write.when(Condition::absent("PK")),
        6..8 => write.when(Condition::exists("PK")),
        _ => write.when(condition(rng, 2)),
    }
}

fn item(rng: &mut Rng, key: &Key, now: i64) -> Item {
    let mut item = Item::new().with("PK", key.partition.clone()).with("SK", key.sort.clone());
    for (name, mostly) in ATTRIBUTES {
        if rng.u8(0..10) < 4 {
            item.insert(name, value(rng, mostly));
        }
    }
    for (name, value) in index_attributes(rng) {
        // An attribute alone leaves the item out of the index.
        if rng.u8(0..10) > 0 {
            item.insert(name, value);
        }
    }
    if rng.u8(0..12) == 0 {
        item.insert("expiresAt", expiry(rng, now));
    }
    item
}

/// Values for the attributes of one index, of none or of both; rarely of the wrong type.
fn index_attributes(rng: &mut Rng) -> Vec<(&'static str, Value)> {
    let mut attributes = Vec::new();
    if rng.bool() {
        attributes.push(("GSI1PK", index_partition(rng)));
        attributes.push(("GSI1SK", Value::from(format!("K{}", rng.u8(0..5)).as_str())));
    }
    if rng.bool() {
        attributes.push(("GSI2PK", index_partition(rng)));
        attributes.push(("GSI2SK", Value::Number(number(rng))));
    }
    if rng.u8(0..60) == 0 {
        attributes.push(("GSI1SK", rng.choice([Value::from(1), "".into(), Value::Null]).unwrap_or(Value::Null)));
    }
    attributes
}

fn index_partition(rng: &mut Rng) -> Value {
    format!("I{}", rng.usize(0..PARTITIONS)).as_str().into()
}

fn expiry(rng: &mut Rng, now: i64) -> Value {
    match rng.u8(0..8) {
        0 => "never".into(),
        _ => (now + rng.i64(-3..20)).into(),
    }
}

fn value(rng: &mut Rng, mostly: Mostly) -> Value {
    if rng.u8(0..8) == 0 {
        return anything(rng, 2);
    }
    match mostly {
        Mostly::Number => Value::Number(number(rng)),
        Mostly::Text => text(rng).as_str().into(),
        Mostly::List => Value::List((0..rng.usize(0..4)).map(|_| anything(rng, 1)).collect()),
        Mostly::Map => map(rng, 1),
        Mostly::TextSet => texts(rng),
        Mostly::NumberSet => numbers(rng),
        Mostly::Anything => anything(rng, 2),
    }
}

fn anything(rng: &mut Rng, depth: usize) -> Value {
    match rng.u8(0..if depth == 0 { 8 } else { 10 }) {
        0 => Value::Null,
        1 => rng.bool().into(),
        2 | 3 => Value::Number(number(rng)),
        4 => text(rng).as_str().into(),
        5 => Value::Binary(bytes(rng)),
        6 => texts(rng),
        7 => match rng.bool() {
            true => numbers(rng),
            false => Value::BinarySet((0..rng.usize(1..3)).map(|_| bytes(rng)).collect()),
        },
        8 => Value::List((0..rng.usize(0..3)).map(|_| anything(rng, depth - 1)).collect()),
        _ => map(rng, depth - 1),
    }
}

/// A map that is never empty: DynamoDB Local writes empty maps into its streams without their type.
fn map(rng: &mut Rng, depth: usize) -> Value {
    let entries = (0..rng.usize(0..4)).map(|_| (entry(rng), anything(rng, depth)));
    Value::Map(entries.chain([("stays".to_owned(), Value::Null)]).collect())
}

fn number(rng: &mut Rng) -> Number {
    let text = match rng.u8(0..12) {
        0 => format!("{}.{}", rng.i32(-3..4), rng.u8(0..100)),
        1 => format!("{}E{}", rng.i32(-9..10), rng.i32(-120..120)),
        2 => format!("{}{:037}", rng.u8(1..10), rng.u64(..)),
        _ => rng.i32(-3..6).to_string(),
    };
    text.parse().expect("a number")
}

fn numbers(rng: &mut Rng) -> Value {
    Value::NumberSet((0..rng.usize(1..4)).map(|_| number(rng)).collect())
}

fn text(rng: &mut Rng) -> String {
    let all = ["", "a", "ab", "abc", "b", "長", "長屋", "S1", "0", "A"];
    all[rng.usize(0..all.len())].to_owned()
}

fn texts(rng: &mut Rng) -> Value {
    Value::StringSet((0..rng.usize(1..4)).map(|_| text(rng)).collect())
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    (0..rng.usize(0..3)).map(|_| rng.u8(0..3)).collect()
}

fn entry(rng: &mut Rng) -> String {
    ["x", "y.z", "size"][rng.usize(0..3)].to_owned()
}

/// A path to an attribute or into one, and its usual type.
fn path(rng: &mut Rng) -> (Path, Mostly) {
    let (name, mostly) = ATTRIBUTES[rng.usize(0..ATTRIBUTES.len())];
    let path = Path::attribute(name);
    match (mostly, rng.u8(0..4)) {
        (Mostly::List, 0..3) => (path.index(rng.usize(0..4)), Mostly::Anything),
        (Mostly::Map, 0..3) => (path.entry(entry(rng)), Mostly::Anything),
        (Mostly::Anything, 0) => (path.entry(entry(rng)), Mostly::Anything),
        (Mostly::Anything, 1) => (path.index(rng.usize(0..2)), Mostly::Anything),
        _ => (path, mostly),
    }
}

fn update(rng: &mut Rng, now: i64) -> Update {
    let mut update = Update::new();
    for _ in 0..rng.usize(0..4) {
        update = update.with_action(change(rng, now));
    }
    update
}

fn change(rng: &mut Rng, now: i64) -> UpdateAction {
    match rng.u8(0..40) {
        0 => return UpdateAction::Set("expiresAt".into(), AssignedValue::Value(expiry(rng, now))),
        1 => return UpdateAction::Remove("expiresAt".into()),
        2 => return UpdateAction::Remove(["GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK"][rng.usize(0..4)].into()),
        3 => return UpdateAction::Add("GSI2SK".into(), Value::Number(number(rng))),
        4 => return UpdateAction::Set("SK".into(), AssignedValue::Value("S1".into())),
        5..8 => {
            let attributes = index_attributes(rng);
            if let Some((name, value)) = rng.choice(attributes) {
                return UpdateAction::Set(name.into(), AssignedValue::Value(value));
            }
        }
        _ => {}
    }
    let (path, mostly) = path(rng);
    match rng.u8(0..10) {
        0 => UpdateAction::Remove(path),
        1 => UpdateAction::Delete("set".into(), texts(rng)),
        2 => UpdateAction::Delete(path, value(rng, mostly)),
        3 => UpdateAction::Add("n".into(), Value::Number(number(rng))),
        4 => UpdateAction::Add(path, value(rng, mostly)),
        _ => UpdateAction::Set(path, assign(rng, mostly)),
    }
}

fn assign(rng: &mut Rng, mostly: Mostly) -> AssignedValue {
    let (other, _) = path(rng);
    match rng.u8(0..10) {
        0 => AssignedValue::Copy(other),
        1 => AssignedValue::Plus("n".into(), number(rng)),
        2 => AssignedValue::Minus("count".into(), number(rng)),
        3 => AssignedValue::Plus(other, number(rng)),
        4 => AssignedValue::IfAbsent(other, value(rng, mostly)),
        5 => AssignedValue::Append("list".into(), (0..rng.usize(1..3)).map(|_| anything(rng, 1)).collect()),
        _ => AssignedValue::Value(value(rng, mostly)),
    }
}

fn condition(rng: &mut Rng, depth: usize) -> Condition {
    let (path, mostly) = path(rng);
    match rng.u8(0..if depth == 0 { 10 } else { 14 }) {
        0 => Condition::Exists(path),
        1 => Condition::Absent(path),
        2..5 => Condition::Compare(Operand::Value(path), comparison(rng), value(rng, mostly)),
        5 => Condition::Compare(Operand::Size(path), comparison(rng), rng.i64(0..4).into()),
        6 => {
            let (least, most) = (number(rng), number(rng));
            Condition::Between(
                Operand::Value("n".into()),
                Value::Number(least.min(most)),
                Value::Number(least.max(most)),
            )
        }
        7 => Condition::In(Operand::Value(path), (0..rng.usize(1..4)).map(|_| value(rng, mostly)).collect()),
        8 => Condition::BeginsWith(path, text(rng).as_str().into()),
        9 => Condition::Contains(path, anything(rng, 0)),
        10 => Condition::Not(Box::new(condition(rng, depth - 1))),
        11 => condition(rng, depth - 1).or(condition(rng, depth - 1)),
        _ => condition(rng, depth - 1).and(condition(rng, depth - 1)),
    }
}

fn comparison(rng: &mut Rng) -> ComparisonOp {
    use ComparisonOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual][rng.usize(0..6)]
}

fn table_query(rng: &mut Rng) -> Query {
    let place = |rng: &mut Rng| format!("S{}", rng.usize(0..SORTS)).into();
    let query = Query::table(TABLE, format!("P{}", rng.usize(0..PARTITIONS)));
    Query { descending: rng.bool(), ..query.sort(sort(rng, place)) }
}

fn query(rng: &mut Rng) -> Query {
    let partition = rng.usize(0..PARTITIONS);
    let mut query = match rng.u8(0..4) {
        0 | 1 => table_query(rng),
        2 => {
            let place = |rng: &mut Rng| format!("K{}", rng.u8(0..5)).into();
            Query::index(TABLE, INDEXES[0], format!("I{partition}")).sort(sort(rng, place))
        }
        _ => {
            let place = |rng: &mut Rng| nagaya_store::KeyValue::Number(number(rng));
            let sort = match sort(rng, place) {
                // `BeginsWith` does not exist for numbers.
                SortCondition::BeginsWith(_) => SortCondition::Any,
                sort => sort,
            };
            Query::index(TABLE, INDEXES[1], format!("I{partition}")).sort(sort)
        }
    };
    query.descending = rng.bool();
    query.limit = (rng.u8(0..3) == 0).then(|| rng.usize(1..6));
    query.filter = (rng.u8(0..3) == 0).then(|| condition(rng, 2));
    query
}

fn sort(rng: &mut Rng, key_value: fn(&mut Rng) -> nagaya_store::KeyValue) -> SortCondition {
    let one = key_value(rng);
    match rng.u8(0..10) {
        0 => SortCondition::Equal(one),
        1 => SortCondition::BeginsWith(one),
        2 => {
            let other = key_value(rng);
            SortCondition::Between(one.clone().min(other.clone()), one.max(other))
        }
        3 => SortCondition::Less(one),
        4 => SortCondition::LessOrEqual(one),
        5 => SortCondition::Greater(one),
        6 => SortCondition::GreaterOrEqual(one),
        _ => SortCondition::Any,
    }
}

fn scan(rng: &mut Rng) -> Scan {
    // The engines divide a table into different segments, so only whole scans can be compared.
    Scan { limit: rng.bool().then(|| rng.usize(1..10)), ..Scan::table(TABLE) }
}
