//! Changes: in order for each item, resumed without loss, and never silently missed.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;

use super::{
    RETENTION, cases,
    fixture::{Failure, Fixture, TABLE, expect, expect_equal, expect_error, item},
};
use nagaya_store::{
    ChangeCause, ChangePosition, ChangeRecord, Condition, Item, Key, KeySchema, StartPosition as Start, TableSpec,
    Update, Write, WriteSet,
};

cases![
    each_write_is_a_change_with_the_item_after_it [Changes],
    changes_tell_the_item_before_and_deletions [OldImages],
    changes_of_one_item_are_in_order [Changes],
    changes_of_one_item_are_in_order_under_concurrent_writes [OldImages],
    sequences_of_one_item_grow [Changes],
    a_set_is_seen_as_a_change_of_each_item [Changes, Transactions],
    what_is_refused_or_changes_nothing_is_no_change [Changes],
    reading_goes_on_from_a_saved_position [Changes],
    a_limit_is_kept [Changes],
    now_gives_only_what_follows [Changes],
    a_position_at_the_end_gives_what_comes_later [Changes],
    a_table_has_its_own_changes [Changes],
    a_position_that_has_fallen_out_of_retention_is_a_gap [Changes, Sweep],
    a_reader_that_has_missed_nothing_has_no_gap [Changes, Sweep],
    the_oldest_that_is_kept_is_never_a_gap [Changes, Sweep],
    changes_go_on_after_a_sweep [Changes, Sweep],
    a_position_that_the_store_did_not_give_out_is_a_gap [Changes],
];

fn key(sort: &str) -> Key {
    Key::new("p", sort)
}

/// The numbers `n` that the changes of an item went through.
fn steps(records: &[ChangeRecord], key: &Key) -> Vec<i64> {
    let of_item = records.iter().filter(|record| record.key == *key);
    of_item.filter_map(|record| record.new.as_ref()?.get("n")?.as_number()?.try_into().ok()).collect()
}

async fn each_write_is_a_change_with_the_item_after_it(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("n", 1)).await?;
    fixture.update(&key("1"), Update::new().add("n", 1)).await?;
    fixture.put(item("p", "1").with("m", 1)).await?;
    let records = fixture.changes(Start::Oldest).await?;
    let found: Vec<_> = records.into_iter().map(|record| (record.key, record.new, record.cause)).collect();
    let expected = [item("p", "1").with("n", 1), item("p", "1").with("n", 2), item("p", "1").with("m", 1)];
    expect_equal(found, expected.map(|item| (key("1"), Some(item), ChangeCause::Write)).to_vec())
}

async fn changes_tell_the_item_before_and_deletions(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("n", 1)).await?;
    fixture.update(&key("1"), Update::new().add("n", 1)).await?;
    fixture.put(item("p", "1").with("n", 3)).await?;
    fixture.delete(&key("1")).await?;
    fixture.put(item("p", "1").with("n", 4)).await?;
    let records = fixture.changes(Start::Oldest).await?;
    let found: Vec<_> = records.into_iter().map(|record| (record.old, record.new)).collect();
    let with = |n: i64| Some(item("p", "1").with("n", n));
    let expected = vec![(None, with(1)), (with(1), with(2)), (with(2), with(3)), (with(3), None), (None, with(4))];
    expect_equal(found, expected)
}

async fn changes_of_one_item_are_in_order(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for n in 0..20 {
        for sort in ["1", "2", "3"] {
            fixture.put(item("p", sort).with("n", n)).await?;
        }
    }
    let records = fixture.changes(Start::Oldest).await?;
    for sort in ["1", "2", "3"] {
        expect_equal(steps(&records, &key(sort)), (0..20).collect())?;
    }
    Ok(())
}

async fn changes_of_one_item_are_in_order_under_concurrent_writes(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key_of = |at: usize| key(&(at % 5).to_string());
    let writes = (0..100).map(|at| fixture.update(&key_of(at), Update::new().add("n", 1)));
    for written in join_all(writes).await {
        written?;
    }
    let records = fixture.changes(Start::Oldest).await?;
    expect_equal(records.len(), 100)?;
    let mut last: BTreeMap<Key, Option<Item>> = BTreeMap::new();
    for record in &records {
        let before = last.insert(record.key.clone(), record.new.clone()).unwrap_or(None);
        expect_equal(&record.old, &before)?;
    }
    for at in 0..5 {
        expect_equal(steps(&records, &key_of(at)), (1..=20).collect())?;
    }
    Ok(())
}

async fn sequences_of_one_item_grow(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for n in 0..10 {
        fixture.put(item("p", "1").with("n", n)).await?;
        fixture.put(item("p", "2").with("n", n)).await?;
    }
    let records = fixture.changes(Start::Oldest).await?;
    for sort in ["1", "2"] {
        let sequences: Vec<u128> =
            records.iter().filter(|record| record.key == key(sort)).map(|record| record.sequence).collect();
        expect(sequences.windows(2).all(|pair| pair[0] < pair[1]), format!("they do not grow: {sequences:?}"))?;
    }
    Ok(())
}

async fn a_set_is_seen_as_a_change_of_each_item(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "2").with("n", 1)).await?;
    fixture.put(item("p", "3")).await?;
    let set = WriteSet::new()
        .and(Write::put(TABLE, item("p", "1").with("n", 7)))
        .and(Write::update(TABLE, key("2"), Update::new().add("n", 1)))
        .and(Write::condition_check(TABLE, key("3"), Condition::exists("PK")));
    fixture.write(set).await?;
    let records = fixture.changes(Start::Oldest).await?;
    expect_equal(steps(&records, &key("1")), vec![7])?;
    expect_equal(steps(&records, &key("2")), vec![1, 2])?;
    expect_equal(records.len(), 4)
}

async fn what_is_refused_or_changes_nothing_is_no_change(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("n", 1)).await?;
    let never = Write::put(TABLE, item("p", "1").with("n", 2)).when(Condition::absent("PK"));
    expect_error(fixture.write(never).await, "condition_failed")?;
    expect_error(fixture.update(&key("1"), Update::new().add("n", "x")).await, "invalid")?;
    fixture.write(Write::condition_check(TABLE, key("1"), Condition::exists("n"))).await?;
    fixture.delete(&key("none")).await?;
    expect_equal(fixture.changes(Start::Oldest).await?.len(), 1)
}

async fn reading_goes_on_from_a_saved_position(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let mut saved: Option<String> = None;
    let mut found = Vec::new();
    for round in 0..10_i64 {
        for n in 0..5 {
            fixture.put(item("p", "1").with("n", round * 5 + n)).await?;
        }
        // Each reader starts from what the one before wrote down, and reads less than there is.
        for _ in 0..2 {
            let from = saved.take().map_or(Start::Oldest, |saved| Start::After(ChangePosition(saved)));
            let changes = fixture.store().changes(TABLE, from, 2).await?;
            found.extend(changes.records);
            saved = Some(changes.next.0);
        }
    }
    let from = Start::After(ChangePosition(saved.unwrap_or_default()));
    found.extend(fixture.changes(from).await?);
    found.dedup_by_key(|record| record.sequence);
    expect_equal(steps(&found, &key("1")), (0..50).collect())
}

async fn a_limit_is_kept(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for n in 0..10 {
        fixture.put(item("p", &n.to_string())).await?;
    }
    for limit in [1, 3, 10, 100] {
        let found = fixture.store().changes(TABLE, Start::Oldest, limit).await?.records.len();
        expect(found >= 1 && found <= limit, format!("{found} records with a limit of {limit}"))?;
    }
    Ok(())
}

async fn now_gives_only_what_follows(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("n", 1)).await?;
    let now = fixture.store().changes(TABLE, Start::Latest, 10).await?;
    expect_equal(now.records, Vec::new())?;
    fixture.put(item("p", "1").with("n", 2)).await?;
    fixture.put(item("p", "2").with("n", 3)).await?;
    let records = fixture.changes(Start::After(now.next)).await?;
    expect_equal(steps(&records, &key("1")), vec![2])?;
    expect_equal(steps(&records, &key("2")), vec![3])
}

async fn a_position_at_the_end_gives_what_comes_later(fixture: &Fixture<'_>) -> Result<(), Failure> {
    // From the beginning of nothing, too.
    let mut next = fixture.store().changes(TABLE, Start::Oldest, 10).await?.next;
    for n in 0..5 {
        let none = fixture.store().changes(TABLE, Start::After(next.clone()), 10).await?;
        expect_equal(none.records, Vec::new())?;
        fixture.put(item("p", "1").with("n", n)).await?;
        let one = fixture.store().changes(TABLE, Start::After(none.next), 10).await?;
        expect_equal(steps(&one.records, &key("1")), vec![n])?;
        next = one.next;
    }
    Ok(())
}

async fn a_table_has_its_own_changes(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.store().ensure_tables(&[TableSpec::new("others", KeySchema::strings("PK", "SK"))]).await?;
    fixture.put(item("p", "1").with("n", 1)).await?;
    fixture.write(Write::put("others", item("p", "1").with("n", 2))).await?;
    fixture.put(item("p", "1").with("n", 3)).await?;
    expect_equal(steps(&fixture.changes(Start::Oldest).await?, &key("1")), vec![1, 3])?;
    let others = fixture.store().changes("others", Start::Oldest, 10).await?;
    expect_equal(steps(&others.records, &key("1")), vec![2])
}

const LONGER: Duration = Duration::from_secs(RETENTION.as_secs() + 60);

async fn a_position_that_has_fallen_out_of_retention_is_a_gap(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("n", 1)).await?;
    let position = fixture.store().changes(TABLE, Start::Oldest, 1).await?.next;
    let before = fixture.store().changes(TABLE, Start::Latest, 1).await?.next;
    fixture.put(item("p", "1").with("n", 2)).await?;
    fixture.put(item("p", "1").with("n", 3)).await?;
    fixture.clock.advance(LONGER);
    fixture.sweep().await?;
    expect_error(fixture.store().changes(TABLE, Start::After(position.clone()), 10).await, "gap")?;
    expect_error(fixture.store().changes(TABLE, Start::After(before), 10).await, "gap")?;
    // What comes later does not close it.
    fixture.put(item("p", "1").with("n", 4)).await?;
    expect_error(fixture.store().changes(TABLE, Start::After(position), 10).await, "gap").map(drop)
}

async fn a_reader_that_has_missed_nothing_has_no_gap(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let of_nothing = fixture.store().changes(TABLE, Start::Oldest, 10).await?.next;
    fixture.clock.advance(LONGER);
    fixture.sweep().await?;
    expect_equal(fixture.changes(Start::After(of_nothing)).await?, Vec::new())?;
    fixture.put(item("p", "1").with("n", 1)).await?;
    let of_all = fixture.store().changes(TABLE, Start::Oldest, 10).await?.next;
    fixture.clock.advance(LONGER);
    fixture.sweep().await?;
    expect_equal(fixture.changes(Start::After(of_all.clone())).await?, Vec::new())?;
    fixture.put(item("p", "1").with("n", 2)).await?;
    expect_equal(steps(&fixture.changes(Start::After(of_all)).await?, &key("1")), vec![2])
}

async fn the_oldest_that_is_kept_is_never_a_gap(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("n", 1)).await?;
    fixture.clock.advance(RETENTION / 2);
    fixture.put(item("p", "1").with("n", 2)).await?;
    fixture.sweep().await?;
    expect_equal(steps(&fixture.changes(Start::Oldest).await?, &key("1")), vec![1, 2])?;
    fixture.clock.advance(RETENTION / 2 + Duration::from_secs(60));
    fixture.sweep().await?;
    expect_equal(steps(&fixture.changes(Start::Oldest).await?, &key("1")), vec![2])?;
    fixture.clock.advance(LONGER);
    fixture.sweep().await?;
    expect_equal(fixture.changes(Start::Oldest).await?, Vec::new())?;
    // The items are kept, whatever happens to their changes.
    expect_equal(fixture.get(&key("1")).await?, Some(item("p", "1").with("n", 2)))
}

async fn changes_go_on_after_a_sweep(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("n", 1)).await?;
    let before = fixture.changes(Start::Oldest).await?;
    fixture.clock.advance(LONGER);
    fixture.sweep().await?;
    let now = fixture.store().changes(TABLE, Start::Latest, 1).await?.next;
    fixture.put(item("p", "1").with("n", 2)).await?;
    let after = fixture.changes(Start::After(now)).await?;
    expect_equal(steps(&after, &key("1")), vec![2])?;
    let grown = before[0].sequence < after[0].sequence;
    expect(grown, format!("the sequence went from {} to {}", before[0].sequence, after[0].sequence))
}

/// Such as one of another engine, or one that a restored copy of another store still has: what happened in between is not
/// known here.
async fn a_position_that_the_store_did_not_give_out_is_a_gap(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1").with("n", 1)).await?;
    let elsewhere = ["00000000000000000000000000000000:1", "1|2026-01-01T00:00:00.000|1767225600|shard-1>1"];
    for text in ["", "x", "1", "12x", "-1", "長屋"].into_iter().chain(elsewhere) {
        let from = Start::After(ChangePosition(text.to_owned()));
        expect_error(fixture.store().changes(TABLE, from, 10).await, "gap")?;
    }
    Ok(())
}
