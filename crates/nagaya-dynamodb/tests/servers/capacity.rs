//! The capacity units that each kind of call consumes.

use nagaya_dynamodb::Dynamodb;
use nagaya_store::{
    Clock, Condition, ConsumedCapacity, Error, Item, Key, KeySchema, Query, Scan, Store as _, TableSpec, Update, Write,
    measure_capacity,
};

use crate::test_server::Server;

const TABLE: &str = "costs";

/// A store with twenty items of 300 bytes in one partition and in the index, and one of 5,000 elsewhere.
async fn filled(server: Server) -> Dynamodb {
    let store = server.open(Clock::system()).await;
    let spec = TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))
        .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"));
    store.ensure_tables(&[spec]).await.expect("the table is made");
    for at in 0..20 {
        let sort = format!("{at:02}");
        let item = sized("many", &sort, 300, Some(("i", &sort)));
        store.write(Write::put(TABLE, item).into()).await.expect("a put");
    }
    store.write(Write::put(TABLE, sized("large", "1", 5_000, None)).into()).await.expect("a put");
    store
}

/// An item of this many bytes, as the service counts them.
fn sized(partition: &str, sort: &str, bytes: usize, index: Option<(&str, &str)>) -> Item {
    let mut item = Item::new().with("PK", partition).with("SK", sort).with("blob", "");
    if let Some((partition, sort)) = index {
        item = item.with("GSI1PK", partition).with("GSI1SK", sort);
    }
    let blob = "x".repeat(bytes - item.size());
    item.with("blob", blob.as_str())
}

/// Checks what a call consumed.
async fn costs<T>(what: &str, call: impl Future<Output = Result<T, Error>>, read_units: f64, write_units: f64) {
    let (answer, consumed) = measure_capacity(call).await;
    if let Err(error) = answer {
        panic!("{what}: {error}");
    }
    assert_eq!(consumed, ConsumedCapacity { read_units, write_units }, "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_cost_by_four_kilobytes_and_half_on_an_index() {
    let store = filled(Server::DynamodbLocal).await;
    let keys = |count: i32| -> Vec<_> {
        (0..count).map(|at| (TABLE.to_owned(), Key::new("many", format!("{at:02}")))).collect()
    };
    let filter = Condition::equal("blob", "nothing");
    costs("an item of 300 bytes", store.get(TABLE, &Key::new("many", "00")), 1.0, 0.0).await;
    costs("an item of 5,000 bytes", store.get(TABLE, &Key::new("large", "1")), 2.0, 0.0).await;
    costs("an item that is not there", store.get(TABLE, &Key::new("none", "1")), 1.0, 0.0).await;
    costs("a batch of ten", store.batch_get(&keys(10)), 10.0, 0.0).await;
    costs("a query of twenty", store.query(Query::table(TABLE, "many")), 2.0, 0.0).await;
    costs("a query of one", store.query(Query::table(TABLE, "many").limit(1)), 1.0, 0.0).await;
    costs("a query that returns nothing", store.query(Query::table(TABLE, "many").filter(filter)), 2.0, 0.0).await;
    costs("a query of twenty on an index", store.query(Query::index(TABLE, "GSI1", "i")), 1.0, 0.0).await;
    costs("a scan of all", store.scan(Scan::table(TABLE)), 3.0, 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_cost_by_a_kilobyte_and_more_on_indexes() {
    let store = filled(Server::DynamodbLocal).await;
    let put = |sort: &str, bytes| Write::put(TABLE, sized("new", sort, bytes, None));
    let set = |update: Update| Write::update(TABLE, Key::new("many", "00"), update);
    let create = put("created", 300).when(Condition::absent("PK"));
    let indexed = Write::put(TABLE, sized("new", "indexed", 300, Some(("j", "1"))));

    costs("an item of 300 bytes", store.write(put("small", 300).into()), 0.0, 1.0).await;
    costs("an item of 3,000 bytes", store.write(put("large", 3_000).into()), 0.0, 3.0).await;
    costs("a create", store.write(create.into()), 0.0, 1.0).await;
    costs("an item in an index", store.write(indexed.into()), 0.0, 2.0).await;
    costs("an update", store.write(set(Update::new().set("n", 1)).into()), 0.0, 2.0).await;
    costs("a move in an index", store.write(set(Update::new().set("GSI1SK", "99")).into()), 0.0, 3.0).await;
    costs("a delete", store.write(Write::delete(TABLE, Key::new("new", "small")).into()), 0.0, 1.0).await;
}

/// On dynoxide, because DynamoDB Local counts only one item of a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_cost_twice_as_much_and_checks_as_writes() {
    let store = filled(Server::Dynoxide).await;
    let put = |sort: &str| Write::put(TABLE, sized("new", sort, 300, None));
    let check = |sort: &str| Write::condition_check(TABLE, Key::new("many", sort), Condition::exists("PK"));
    costs("three puts", store.write([put("a"), put("b"), put("c")].into_iter().collect()), 0.0, 6.0).await;
    costs("a put and a check", store.write([put("d"), check("01")].into_iter().collect()), 0.0, 4.0).await;
    costs("a check alone is a read", store.write(check("01").into()), 1.0, 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_counts_what_its_calls_consumed() {
    let store = filled(Server::DynamodbLocal).await;
    let before = store.metrics();
    for _ in 0..3 {
        store.get(TABLE, &Key::new("many", "00")).await.expect("a get");
    }
    let after = store.metrics();
    assert_eq!(after.get.calls - before.get.calls, 3);
    assert_eq!(after.get.consumed.read_units - before.get.consumed.read_units, 3.0);
    assert_eq!((after.throttles, after.retries, after.timeouts), (0, 0, 0));
}
