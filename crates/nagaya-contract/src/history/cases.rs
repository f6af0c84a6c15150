//! Histories of concurrent clients: conditional writes are linearizable, and reads never see half a write set nor go back.

use super::clients::{Members, Plan, Reading};
use crate::{
    cases,
    fixture::{Failure, Fixture, INDEX, TABLE},
};
use nagaya_store::{Key, KeySchema, TableSpec};

cases![
    conditional_writes_are_linearizable,
    conditional_writes_of_several_items_are_linearizable[CrossPartition],
    reads_of_threads_never_go_back[SnapshotReads],
    gets_in_sequence_never_see_half_a_write_set[CrossPartition, SnapshotReads],
    batches_across_tables_see_whole_write_sets[CrossPartition, SnapshotReads],
    pages_see_whole_write_sets[Transactions, SnapshotReads],
    index_pages_see_whole_write_sets[Transactions, SnapshotReads, ConsistentIndexes],
    all_ways_to_read_agree_on_what_came_first[Transactions, SnapshotReads, ConsistentIndexes],
];

/// The second table of a register that spans two.
const OTHER: &str = "other_things";

/// A register of one item.
fn single_member(at: usize) -> Members {
    vec![(TABLE.to_owned(), Key::new("p", format!("one{at}")))]
}

/// A register of three items of one partition.
fn together() -> Members {
    ["1", "2", "3"].map(|sort| (TABLE.to_owned(), Key::new("p", sort))).to_vec()
}

/// A register of four items of two partitions and two tables.
async fn apart(fixture: &Fixture<'_>) -> Result<Members, Failure> {
    let other = TableSpec::new(OTHER, KeySchema::strings("PK", "SK"));
    fixture.store().ensure_tables(&[other.with_index(INDEX, KeySchema::strings("GSI1PK", "GSI1SK"))]).await?;
    let place = |table: &str, partition: &str| (table.to_owned(), Key::new(partition, "1"));
    Ok(vec![place(TABLE, "p"), place(OTHER, "p"), place(TABLE, "q"), place(OTHER, "q")])
}

async fn conditional_writes_are_linearizable(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let readers = vec![Reading::Gets; 2];
    Plan { registers: vec![single_member(0), single_member(1)], writers: 6, writes: 20, readers }
        .run_on_one_task(fixture)
        .await
}

async fn conditional_writes_of_several_items_are_linearizable(fixture: &Fixture<'_>) -> Result<(), Failure> {
    // What a reader sees of a set meanwhile is not asked here: not every engine reads at one moment.
    let registers = vec![apart(fixture).await?];
    Plan { registers, writers: 4, writes: 15, readers: Vec::new() }.run_on_one_task(fixture).await
}

async fn reads_of_threads_never_go_back(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let readers = vec![Reading::Gets; 3];
    Plan { registers: vec![single_member(0), single_member(1)], writers: 3, writes: 100, readers }
        .run_on_threads(fixture)
}

async fn gets_in_sequence_never_see_half_a_write_set(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let readers = vec![Reading::Gets; 3];
    Plan { registers: vec![apart(fixture).await?], writers: 2, writes: 200, readers }.run_on_threads(fixture)
}

async fn batches_across_tables_see_whole_write_sets(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let readers = vec![Reading::Batch; 3];
    Plan { registers: vec![apart(fixture).await?], writers: 2, writes: 150, readers }.run_on_threads(fixture)
}

async fn pages_see_whole_write_sets(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let readers = vec![Reading::Page; 3];
    Plan { registers: vec![together()], writers: 2, writes: 150, readers }.run_on_threads(fixture)
}

async fn index_pages_see_whole_write_sets(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let readers = vec![Reading::IndexPage; 3];
    Plan { registers: vec![together()], writers: 2, writes: 150, readers }.run_on_threads(fixture)
}

async fn all_ways_to_read_agree_on_what_came_first(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let readers = vec![Reading::Gets, Reading::Batch, Reading::Page, Reading::IndexPage];
    Plan { registers: vec![together()], writers: 2, writes: 200, readers }.run_on_threads(fixture)
}
