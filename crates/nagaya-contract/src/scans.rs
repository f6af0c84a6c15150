//! Scans: all items of a table, each once.

use super::{
    cases,
    fixture::{Failure, Fixture, TABLE, expect, expect_equal, expect_error, indexed, item, spec},
};
use nagaya_store::{Item, Key, KeySchema, Scan, TableSpec, Write};

cases![
    a_scan_gives_each_item_of_its_table_once,
    segments_together_are_the_whole[ScanSegments],
    a_scan_has_no_gap_while_others_write,
    a_segment_that_is_none_is_refused[ScanSegments],
    a_scan_of_nothing_is_an_empty_page,
    a_scan_with_a_limit_of_zero_is_refused,
];

/// The keys of items, in order.
fn keys(items: &[Item]) -> Vec<Option<Key>> {
    let mut keys: Vec<_> = items.iter().map(|item| spec().key.key_of(item)).collect();
    keys.sort();
    keys
}

/// Items in several partitions, and others in another table.
async fn fill(fixture: &Fixture<'_>) -> Result<Vec<Item>, Failure> {
    fixture.store().ensure_tables(&[TableSpec::new("others", KeySchema::strings("PK", "SK"))]).await?;
    let items: Vec<Item> = (0..60).map(|at| indexed(&format!("p{}", at % 13), &at.to_string(), "i", "x")).collect();
    for item in &items {
        fixture.put(item.clone()).await?;
    }
    fixture.write(Write::put("others", item("p0", "other"))).await?;
    Ok(items)
}

async fn a_scan_gives_each_item_of_its_table_once(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let items = fill(fixture).await?;
    for limit in [None, Some(1), Some(7), Some(60), Some(100)] {
        let found = fixture.scan_all(Scan { limit, ..Scan::table(TABLE) }).await?;
        expect_equal(keys(&found), keys(&items))?;
        expect(found.iter().all(|item| items.contains(item)), "an item is not as it was put")?;
    }
    Ok(())
}

async fn segments_together_are_the_whole(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let items = fill(fixture).await?;
    for segments in [2, 3, 8, 100] {
        let mut found = Vec::new();
        for segment in 0..segments {
            let scan = Scan { segment: (segment, segments), limit: Some(5), ..Scan::table(TABLE) };
            found.extend(fixture.scan_all(scan).await?);
        }
        expect_equal(keys(&found), keys(&items))?;
    }
    Ok(())
}

async fn a_scan_has_no_gap_while_others_write(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let items = fill(fixture).await?;
    let mut found = Vec::new();
    let mut scan = Scan { limit: Some(7), ..Scan::table(TABLE) };
    loop {
        let page = fixture.store().scan(scan.clone()).await?;
        found.extend(page.items);
        let Some(next) = page.next else { break };
        // The item that the position names comes back as it was, and others come and go beside it.
        let Some(stored) = fixture.get(&next.key).await? else { break };
        fixture.delete(&next.key).await?;
        fixture.put(item(&next.key.partition.to_string(), "!first")).await?;
        fixture.put(item(&next.key.partition.to_string(), "~last")).await?;
        scan.after = Some(next);
        let page = fixture.store().scan(scan.clone()).await?;
        fixture.put(stored).await?;
        found.extend(page.items);
        let Some(next) = page.next else { break };
        fixture.delete(&Key::new(next.key.partition.clone(), "!first")).await?;
        scan.after = Some(next);
    }
    let found: Vec<Item> = found.into_iter().filter(|item| item.get("GSI1PK").is_some()).collect();
    expect_equal(keys(&found), keys(&items))
}

async fn a_segment_that_is_none_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for segment in [(0, 0), (1, 1), (5, 4)] {
        expect_error(fixture.store().scan(Scan { segment, ..Scan::table(TABLE) }).await, "invalid")?;
    }
    Ok(())
}

async fn a_scan_of_nothing_is_an_empty_page(fixture: &Fixture<'_>) -> Result<(), Failure> {
    expect_equal(fixture.scan_all(Scan::table(TABLE)).await?, Vec::new())
}

async fn a_scan_with_a_limit_of_zero_is_refused(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fixture.put(item("p", "1")).await?;
    expect_error(fixture.store().scan(Scan { limit: Some(0), ..Scan::table(TABLE) }).await, "invalid").map(drop)
}
