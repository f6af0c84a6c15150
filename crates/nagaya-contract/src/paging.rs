//! Paging: each item once, forward and backward, also while others write.

use std::collections::BTreeSet;

use super::{
    cases,
    fixture::{
        Failure, Fixture, TABLE, expect, expect_equal, expect_error, index, indexed, item, partition_query, sort_keys,
    },
};
use nagaya_store::{Condition, Item, Key, PagePosition, Query, Scan, SortCondition, Update};

cases![
    pages_of_every_size_give_each_item_once,
    pages_keep_to_the_sort_condition,
    a_position_is_the_last_item_read,
    the_same_position_gives_the_same_page_again,
    a_position_outlives_its_item,
    pages_have_no_gap_while_others_write,
    pages_of_an_index_have_no_gap_while_others_write,
    pages_of_equal_index_keys_give_each_item_once,
    pages_of_large_items_give_each_item_once,
    filtered_pages_give_each_item_once,
    a_position_of_a_table_is_not_one_of_an_index,
];

fn name(at: usize) -> String {
    format!("{at:04}")
}

async fn fill(fixture: &Fixture<'_>, count: usize) -> Result<(), Failure> {
    for at in 0..count {
        fixture.put(indexed("p", &name(at), "i", &name(at)).with("n", at as i64)).await?;
        fixture.put(indexed("q", &name(at), "j", &name(at))).await?;
    }
    fixture.expect_count(index("i"), count).await
}

async fn pages_of_every_size_give_each_item_once(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fill(fixture, 23).await?;
    let forward: Vec<String> = (0..23).map(name).collect();
    let backward: Vec<String> = forward.iter().rev().cloned().collect();
    for limit in [1, 2, 5, 22, 23, 24, 100] {
        for query in [partition_query("p").limit(limit), index("i").limit(limit)] {
            fixture.expect_sort_keys(query.clone(), forward.clone()).await?;
            fixture.expect_sort_keys(query.descending(), backward.clone()).await?;
        }
    }
    Ok(())
}

async fn pages_keep_to_the_sort_condition(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fill(fixture, 23).await?;
    let cases = [
        (SortCondition::BeginsWith("000".into()), 0..10),
        (SortCondition::BeginsWith("001".into()), 10..20),
        (SortCondition::Between("0004".into(), "0011".into()), 4..12),
        (SortCondition::Less("0007".into()), 0..7),
        (SortCondition::LessOrEqual("0007".into()), 0..8),
        (SortCondition::Greater("0007".into()), 8..23),
        (SortCondition::GreaterOrEqual("0007".into()), 7..23),
        (SortCondition::Equal("0007".into()), 7..8),
    ];
    for (sort, places) in cases {
        for query in [partition_query("p"), index("i")] {
            let query = query.sort(sort.clone()).limit(3);
            fixture.expect_sort_keys(query.clone(), places.clone().map(name).collect()).await?;
            fixture.expect_sort_keys(query.descending(), places.clone().rev().map(name).collect()).await?;
        }
    }
    Ok(())
}

async fn a_position_is_the_last_item_read(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fill(fixture, 5).await?;
    let page = fixture.query(partition_query("p").limit(2)).await?;
    expect_equal(page.next, Some(PagePosition { key: Key::new("p", name(1)), index_key: None }))?;
    let page = fixture.query(index("i").limit(2).descending()).await?;
    expect_equal(
        page.next,
        Some(PagePosition { key: Key::new("p", name(3)), index_key: Some(Key::new("i", name(3))) }),
    )?;
    // With a filter, it is the last that was read, not the last that was returned.
    let page = fixture.query(partition_query("p").limit(3).filter(Condition::equal("n", 0))).await?;
    expect_equal(page.next.map(|next| next.key), Some(Key::new("p", name(2))))
}

async fn the_same_position_gives_the_same_page_again(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fill(fixture, 9).await?;
    for query in [partition_query("p").limit(3), index("i").limit(3), index("i").limit(3).descending()] {
        let first = fixture.query(query.clone()).await?;
        let Some(next) = first.next else { return Err(Failure::new("the first page does not go on".to_owned())) };
        let second = fixture.query(query.clone().after(next.clone())).await?;
        let again = fixture.query(query.after(next)).await?;
        expect_equal(second, again)?;
    }
    Ok(())
}

async fn a_position_outlives_its_item(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for (query, expected) in [
        (partition_query("p").limit(3), 3..9),
        (partition_query("p").limit(3).descending(), 0..6),
        (index("i").limit(3), 3..9),
        (index("i").limit(3).descending(), 0..6),
    ] {
        fill(fixture, 9).await?;
        let page = fixture.query(query.clone()).await?;
        let Some(next) = page.next else { return Err(Failure::new("the page does not go on".to_owned())) };
        fixture.delete(&next.key).await?;
        let mut found = fixture.sort_keys(query.after(next)).await?;
        found.sort_unstable();
        expect_equal(found, expected.map(name).collect())?;
    }
    Ok(())
}

/// Reads all pages while items come and go around the position: those there throughout come once, in order.
async fn has_no_gap(fixture: &Fixture<'_>, query: &Query) -> Result<(), Failure> {
    let index = query.index.is_some();
    let stored = |sort: &str| if index { indexed("p", sort, "i", sort) } else { item("p", sort) };
    // The even ones stay, and the odd ones come and go.
    let stays: Vec<String> = (0..60).step_by(2).map(name).collect();
    for sort in &stays {
        fixture.put(stored(sort)).await?;
    }
    for at in (1..60).step_by(4) {
        fixture.put(stored(&name(at))).await?;
    }
    let mut found: Vec<Item> = Vec::new();
    let mut query = query.clone().limit(4);
    loop {
        let page = fixture.query(query.clone()).await?;
        found.extend(page.items);
        let Some(next) = page.next else { break };
        // Around the position, and at both ends: what has no even number goes if it is there, and comes if not.
        let at: usize = next.key.sort.to_string().parse().unwrap_or(0);
        for at in [at.saturating_sub(3), at.saturating_sub(1), at, at + 1, at + 3, 1, 59] {
            let (odd, key) = (at | 1, Key::new("p", name(at | 1)));
            match fixture.get(&key).await? {
                Some(_) => fixture.delete(&key).await?,
                None => fixture.put(stored(&name(odd))).await?,
            };
            // One that stays is written in between, which does not move it.
            fixture.update(&Key::new("p", name((odd - 1).min(58))), Update::new().add("writes", 1)).await?;
        }
        query.after = Some(next);
    }
    let found = sort_keys(&found);
    let once: BTreeSet<&String> = found.iter().collect();
    expect_equal(once.len(), found.len())?;
    let ordered = found.windows(2).all(|pair| if query.descending { pair[0] > pair[1] } else { pair[0] < pair[1] });
    expect(ordered, format!("not in order: {found:?}"))?;
    let missing: Vec<&String> = stays.iter().filter(|sort| !once.contains(sort)).collect();
    expect(missing.is_empty(), format!("{missing:?} were there throughout, but not in the pages"))
}

async fn pages_have_no_gap_while_others_write(fixture: &Fixture<'_>) -> Result<(), Failure> {
    has_no_gap(fixture, &partition_query("p")).await?;
    has_no_gap(fixture, &partition_query("p").descending()).await
}

async fn pages_of_an_index_have_no_gap_while_others_write(fixture: &Fixture<'_>) -> Result<(), Failure> {
    has_no_gap(fixture, &index("i")).await?;
    has_no_gap(fixture, &index("i").descending()).await
}

async fn pages_of_equal_index_keys_give_each_item_once(fixture: &Fixture<'_>) -> Result<(), Failure> {
    for at in 0..20 {
        fixture.put(indexed(&format!("p{}", at % 3), &name(at), "i", "same")).await?;
    }
    for limit in [1, 3, 7] {
        for query in [index("i").limit(limit), index("i").limit(limit).descending()] {
            let mut found = fixture.sort_keys(query).await?;
            found.sort_unstable();
            expect_equal(found, (0..20).map(name).collect())?;
        }
    }
    Ok(())
}

async fn pages_of_large_items_give_each_item_once(fixture: &Fixture<'_>) -> Result<(), Failure> {
    // Three megabytes: more than a page of any engine.
    for at in 0..10 {
        fixture.put(indexed("p", &name(at), "i", &name(at)).with("blob", "x".repeat(300_000))).await?;
    }
    for query in [partition_query("p"), index("i"), partition_query("p").limit(9)] {
        fixture.expect_sort_keys(query.clone(), (0..10).map(name).collect()).await?;
        fixture.expect_sort_keys(query.descending(), (0..10).rev().map(name).collect()).await?;
    }
    expect_equal(fixture.scan_all(Scan::table(TABLE)).await?.len(), 10)
}

async fn filtered_pages_give_each_item_once(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fill(fixture, 23).await?;
    let few = Condition::In(nagaya_store::Operand::Value("n".into()), vec![0.into(), 7.into(), 8.into(), 22.into()]);
    let expected: Vec<String> = [0, 7, 8, 22].map(name).to_vec();
    for limit in [1, 4, 23] {
        for query in [partition_query("p"), index("i")] {
            let query = query.limit(limit).filter(few.clone());
            fixture.expect_sort_keys(query.clone(), expected.clone()).await?;
            fixture.expect_sort_keys(query.descending(), expected.iter().rev().cloned().collect()).await?;
        }
    }
    Ok(())
}

async fn a_position_of_a_table_is_not_one_of_an_index(fixture: &Fixture<'_>) -> Result<(), Failure> {
    fill(fixture, 3).await?;
    let of_table = PagePosition { key: Key::new("p", name(0)), index_key: None };
    let of_index = PagePosition { key: Key::new("p", name(0)), index_key: Some(Key::new("i", name(0))) };
    expect_error(fixture.query(index("i").after(of_table)).await, "invalid")?;
    expect_error(fixture.query(partition_query("p").after(of_index)).await, "invalid").map(drop)
}
