//! The hash chain of the operator log, written by several servers at once.

use std::{path::Path, sync::Arc};

use nagaya_design::check;
use nagaya_store::{Clock, Store};
use nagaya_tenancy::{List, Nagaya, Principal, Settings};

use crate::test_server::Server;

const SERVERS: usize = 3;
const CALLS: usize = 8;

async fn verify(server: Server) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/todo/design/todo.toml");
    let design = check(&std::fs::read_to_string(path).expect("a design"), &[]).design.expect("it is sound");
    let store: Arc<dyn Store> = Arc::new(server.open(Clock::system()).await);
    let open = || {
        let settings = Settings { audit_keys: [7; 32].into(), ..Settings::default() };
        Nagaya::open_with(design.clone(), Arc::clone(&store), settings)
    };
    let operator = |nagaya: &Nagaya| nagaya.operator("ticket 4711: a complaint", &Principal::new("", "op-1"));
    open().ensure_tables().await.expect("the tables are made");
    let mut tasks = tokio::task::JoinSet::new();
    for nagaya in (0..SERVERS).map(|_| open()) {
        for _ in 0..CALLS {
            let within = operator(&nagaya).as_tenant("f-1").expect("a tenant");
            tasks.spawn(async move { within.list(&List::by("todos_active")).await.expect("a page") });
        }
    }
    tasks.join_all().await;
    let report = operator(&open()).verify_log(None).await.expect("a report");
    assert_eq!((report.findings.as_slice(), report.entries), ([].as_slice(), (SERVERS * CALLS + 1) as u64));
    let page = operator(&open()).read_log(0, i64::MAX, None).await.expect("a page");
    assert_eq!(page.entries.len(), SERVERS * CALLS + 2);
    assert_eq!(open().prune_operator_log().await.expect("nothing has expired"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_write_one_chain_on_dynamodb_local() {
    verify(Server::DynamodbLocal).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_write_one_chain_on_dynoxide() {
    verify(Server::Dynoxide).await;
}

/// Without transactions, an entry is written after the head.
#[tokio::test(flavor = "multi_thread")]
async fn several_servers_write_one_chain_without_transactions() {
    verify(Server::Dynalite).await;
}
