//! Many at once: no write is lost, and no reader sees half a write set.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::future::{join, join_all};

use super::{
    cases,
    fixture::{Failure, Fixture, TABLE, expect, expect_equal, item, partition_query, yield_now},
};
use nagaya_store::{ComparisonOp, Condition, Error, ErrorKind, Item, Key, Operand, Update, Value, Write, WriteSet};

cases![
    conditional_increments_lose_none,
    plain_increments_lose_none,
    one_of_many_creates_wins,
    concurrent_sets_are_whole_to_batches[Transactions, SnapshotReads],
    concurrent_sets_are_whole_to_queries[Transactions, SnapshotReads],
    transfers_between_items_keep_their_sum[Transactions],
    a_write_is_seen_by_whoever_heard_of_it,
];

fn number_of(item: Option<&Item>) -> i64 {
    item.and_then(|item| item.get("n")).and_then(Value::as_number).and_then(|n| n.try_into().ok()).unwrap_or(-1)
}

/// Whether it may go better another time.
fn is_race(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ConditionFailed(_) | ErrorKind::Busy)
}

/// Reads and writes until the write wins.
async fn increment(fixture: &Fixture<'_>, key: &Key) -> Result<(), Failure> {
    loop {
        let seen = number_of(fixture.get(key).await?.as_ref());
        let update = Update::new().set("n", seen + 1);
        match fixture.write(Write::update(TABLE, key.clone(), update).when(Condition::equal("n", seen))).await {
            Ok(_) => return Ok(()),
            Err(error) if is_race(&error) => yield_now().await,
            Err(error) => return Err(error.into()),
        }
    }
}

async fn conditional_increments_lose_none(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key = Key::new("p", "1");
    fixture.put(item("p", "1").with("n", 0)).await?;
    for done in join_all((0..50).map(|_| increment(fixture, &key))).await {
        done?;
    }
    expect_equal(number_of(fixture.get(&key).await?.as_ref()), 50)
}

async fn plain_increments_lose_none(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let key = Key::new("p", "1");
    let mut seen = Vec::new();
    for written in join_all((0..50).map(|_| fixture.update(&key, Update::new().add("n", 1)))).await {
        seen.push(number_of(written?.item.as_ref()));
    }
    // Each answers with its own step.
    seen.sort_unstable();
    expect_equal(seen, (1..=50).collect())?;
    expect_equal(number_of(fixture.get(&key).await?.as_ref()), 50)
}

async fn one_of_many_creates_wins(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let create = |n: i64| fixture.write(Write::put(TABLE, item("p", "1").with("n", n)).when(Condition::absent("PK")));
    let mut winners = Vec::new();
    let mut found = Vec::new();
    for answer in join_all((0..50).map(create)).await {
        match answer {
            Ok(written) => winners.push(number_of(written.item.as_ref())),
            Err(error) if is_race(&error) => {
                found.extend(error.failed_conditions().unwrap_or_default().iter().map(|failed| failed.current.clone()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    expect_equal(winners.len(), 1)?;
    let stored = fixture.get(&Key::new("p", "1")).await?;
    expect_equal(number_of(stored.as_ref()), winners[0])?;
    // Whoever lost was told who won.
    expect(found.iter().all(|found| *found == stored), format!("not all found {stored:?}: {found:?}"))
}

/// Writes sets of two items while others read both, until all are written.
async fn are_whole<F>(fixture: &Fixture<'_>, read: impl Fn() -> F + Sync) -> Result<(), Failure>
where
    F: Future<Output = Result<Vec<i64>, Failure>> + Send,
{
    let pair = |n: i64| -> WriteSet {
        ["1", "2"].map(|sort| Write::put(TABLE, item("p", sort).with("n", n))).into_iter().collect()
    };
    fixture.write(pair(0)).await?;
    let (done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    let write = async {
        for round in 0..60 {
            for written in join_all((0..10).map(|at| fixture.write(pair(round * 10 + at)))).await {
                match written {
                    Err(error) if !is_race(&error) => return Err(Failure::from(error)),
                    _ => {}
                }
            }
        }
        Ok(())
    };
    let write = async {
        let written = write.await;
        done.store(true, Ordering::SeqCst);
        written
    };
    let reader = || async {
        while !done.load(Ordering::SeqCst) {
            let found = read().await?;
            reads.fetch_add(1, Ordering::SeqCst);
            expect(found.len() == 2 && found[0] == found[1], format!("half a write set was seen: {found:?}"))?;
            yield_now().await;
        }
        Ok::<(), Failure>(())
    };
    let (written, read) = join(write, join_all((0..4).map(|_| reader()))).await;
    written?;
    read.into_iter().collect::<Result<(), Failure>>()?;
    expect(reads.into_inner() > 0, "nobody read meanwhile")
}

async fn concurrent_sets_are_whole_to_batches(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let keys = ["1", "2"].map(|sort| (TABLE.to_owned(), Key::new("p", sort)));
    are_whole(fixture, || async {
        let found = fixture.store().batch_get(&keys).await?;
        Ok(found.iter().map(|item| number_of(item.as_ref())).collect())
    })
    .await
}

async fn concurrent_sets_are_whole_to_queries(fixture: &Fixture<'_>) -> Result<(), Failure> {
    are_whole(fixture, || async {
        let found = fixture.query(partition_query("p")).await?.items;
        Ok(found.iter().map(|item| number_of(Some(item))).collect())
    })
    .await
}

async fn transfers_between_items_keep_their_sum(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for at in 0..5 {
        fixture.put(item("p", &at.to_string()).with("n", 10)).await?;
    }
    let transfer = |at: usize| async move {
        let (from, to) = (at % 5, (at * 3 + 1) % 5);
        if from == to {
            return Ok(());
        }
        let key = |at: usize| Key::new("p", at.to_string());
        let enough = Condition::Compare(Operand::Value("n".into()), ComparisonOp::Greater, 0.into());
        let set = WriteSet::new()
            .and(Write::update(TABLE, key(from), Update::new().add("n", -1)).when(enough))
            .and(Write::update(TABLE, key(to), Update::new().add("n", 1)));
        match fixture.write(set).await {
            Err(error) if !is_race(&error) => Err(Failure::from(error)),
            _ => Ok(()),
        }
    };
    for done in join_all((0..200).map(transfer)).await {
        done?;
    }
    let left: Vec<i64> = fixture.all(partition_query("p")).await?.iter().map(|item| number_of(Some(item))).collect();
    expect(left.iter().sum::<i64>() == 50 && left.iter().all(|n| *n >= 0), format!("50 in five became {left:?}"))
}

async fn a_write_is_seen_by_whoever_heard_of_it(fixture: &Fixture<'_>) -> Result<(), Failure> {
    // Each writes its own item and reads it as soon as the write is acknowledged, while the others write.
    let round_trip = |at: usize| async move {
        for n in 0..10 {
            let sort = at.to_string();
            fixture.put(item("p", &sort).with("n", n)).await?;
            expect_equal(number_of(fixture.get(&Key::new("p", sort.as_str())).await?.as_ref()), n)?;
        }
        Ok::<(), Failure>(())
    };
    join_all((0..20).map(round_trip)).await.into_iter().collect()
}
