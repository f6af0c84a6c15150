//! Scans: all items of a table, each once.

use super::{
    cases,
    trial::{Failure, TABLE, Trial, holds, indexed, item, refused, same, spec},
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
async fn fill(trial: &Trial<'_>) -> Result<Vec<Item>, Failure> {
    trial.store().ensure(&[TableSpec::new("others", KeySchema::strings("PK", "SK"))]).await?;
    let items: Vec<Item> = (0..60).map(|at| indexed(&format!("p{}", at % 13), &at.to_string(), "i", "x")).collect();
    for item in &items {
        trial.put(item.clone()).await?;
    }
    trial.write(Write::put("others", item("p0", "other"))).await?;
    Ok(items)
}

async fn a_scan_gives_each_item_of_its_table_once(trial: &Trial<'_>) -> Result<(), Failure> {
    let items = fill(trial).await?;
    for limit in [None, Some(1), Some(7), Some(60), Some(100)] {
        let found = trial.scan_all(Scan { limit, ..Scan::table(TABLE) }).await?;
        same(keys(&found), keys(&items))?;
        holds(found.iter().all(|item| items.contains(item)), "an item is not as it was put")?;
    }
    Ok(())
}

async fn segments_together_are_the_whole(trial: &Trial<'_>) -> Result<(), Failure> {
    let items = fill(trial).await?;
    for segments in [2, 3, 8, 100] {
        let mut found = Vec::new();
        for segment in 0..segments {
            let scan = Scan { segment: (segment, segments), limit: Some(5), ..Scan::table(TABLE) };
            found.extend(trial.scan_all(scan).await?);
        }
        same(keys(&found), keys(&items))?;
    }
    Ok(())
}

async fn a_scan_has_no_gap_while_others_write(trial: &Trial<'_>) -> Result<(), Failure> {
    let items = fill(trial).await?;
    let mut found = Vec::new();
    let mut scan = Scan { limit: Some(7), ..Scan::table(TABLE) };
    loop {
        let page = trial.store().scan(scan.clone()).await?;
        found.extend(page.items);
        let Some(next) = page.next else { break };
        // The item that the position names comes back as it was, and others come and go beside it.
        let Some(stored) = trial.get(&next.key).await? else { break };
        trial.delete(&next.key).await?;
        trial.put(item(&next.key.partition.to_string(), "!first")).await?;
        trial.put(item(&next.key.partition.to_string(), "~last")).await?;
        scan.after = Some(next);
        let page = trial.store().scan(scan.clone()).await?;
        trial.put(stored).await?;
        found.extend(page.items);
        let Some(next) = page.next else { break };
        trial.delete(&Key::new(next.key.partition.clone(), "!first")).await?;
        scan.after = Some(next);
    }
    let found: Vec<Item> = found.into_iter().filter(|item| item.get("GSI1PK").is_some()).collect();
    same(keys(&found), keys(&items))
}

async fn a_segment_that_is_none_is_refused(trial: &Trial<'_>) -> Result<(), Failure> {
    for segment in [(0, 0), (1, 1), (5, 4)] {
        refused(trial.store().scan(Scan { segment, ..Scan::table(TABLE) }).await, "invalid")?;
    }
    Ok(())
}

async fn a_scan_of_nothing_is_an_empty_page(trial: &Trial<'_>) -> Result<(), Failure> {
    same(trial.scan_all(Scan::table(TABLE)).await?, Vec::new())
}

async fn a_scan_with_a_limit_of_zero_is_refused(trial: &Trial<'_>) -> Result<(), Failure> {
    trial.put(item("p", "1")).await?;
    refused(trial.store().scan(Scan { limit: Some(0), ..Scan::table(TABLE) }).await, "invalid").map(drop)
}
