//! `nagaya tables`, as an operator uses it, on DynamoDB Local.

mod common;

use std::time::{SystemTime, UNIX_EPOCH};

use common::{Run, nagaya, nagaya_in};
use nagaya_dynamodb::{Dynamodb, Options, Settings};
use nagaya_store::{Item, KeySchema, Query, StartPosition, Store as _, TableSpec, Write};
use serde_json::Value;

const DESIGNS: [(&str, &str); 5] = [
    ("aiagent-multi", "systems/aiagent/design/multi.toml"),
    ("aiagent-single", "systems/aiagent/design/single.toml"),
    ("kondate", "systems/kondate/design/kondate.toml"),
    ("management", "systems/management/design/management.toml"),
    ("todo", "systems/todo/design/todo.toml"),
];

/// Tables on the server that no other test and no earlier run has used.
///
/// Each has a region of its own, which is a database of its own in DynamoDB Local: not all designs put the base into the
/// names of their tables, and a database with many expiring tables never fills an index that is added.
struct Place {
    endpoint: String,
    base: String,
}

impl Place {
    fn new(test: &str) -> Self {
        let endpoint = std::env::var("NAGAYA_TEST_DYNAMODB_LOCAL").expect(
            "NAGAYA_TEST_DYNAMODB_LOCAL is not set: run `cargo xtask test`, \
             or `cargo xtask servers` and set the variables it prints",
        );
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        Place { endpoint, base: format!("{test}-{nanos:x}") }
    }

    /// Runs `nagaya tables`, with the names of this place taken out of what it says.
    fn tables(&self, verb: &str, design: &str, args: &[&str]) -> Run {
        let Run { status, stdout, stderr } = self.run(verb, design, args);
        let same = |text: String| text.replace(&self.base, "<base>").replace(&self.endpoint, "<endpoint>");
        Run { status, stdout: same(stdout), stderr: same(stderr) }
    }

    fn run(&self, verb: &str, design: &str, args: &[&str]) -> Run {
        let fixed = ["tables", verb, design, "--store", "dynamodb", "--base", &self.base];
        let args: Vec<&str> = fixed.iter().chain(args).copied().collect();
        nagaya_in(&args, "", &[("DYNAMODB_ENDPOINT", &self.endpoint), ("AWS_REGION", &self.base)])
    }

    fn json(&self, verb: &str, design: &str, args: &[&str]) -> Value {
        let run = self.run(verb, design, &[args, &["--json"]].concat());
        assert_eq!(run.status, 0, "{run}");
        serde_json::from_str(&run.stdout).expect("--json prints JSON")
    }

    async fn store(&self) -> Dynamodb {
        let settings = Settings { region: Some(self.base.clone()), ..Settings::local(&self.endpoint) };
        Dynamodb::open(&settings, Options::default()).await.expect("a server on this machine needs nothing")
    }
}

/// Proves the tables' part of A12. Proves the store's part of M1.
#[test]
fn the_tables_of_each_design_are_planned_made_looked_at_and_dropped() {
    for (name, design) in DESIGNS {
        let place = Place::new(name);
        let run = |verb: &str, args: &[&str]| place.tables(verb, design, args);
        insta::assert_snapshot!(format!("{name}-plan"), run("plan", &[]));

        let pending = run("plan", &["--exit-code"]);
        assert_eq!(pending.status, 1, "{pending}");
        let applied = run("apply", &["--yes"]);
        assert_eq!(applied.status, 0, "{applied}");
        let settled = run("plan", &["--exit-code"]);
        assert_eq!(settled.status, 0, "{settled}");
        assert!(settled.stdout.ends_with("nothing to do\n"), "{settled}");
        // Doing it again does nothing.
        let again = place.json("apply", design, &["--yes"]);
        assert_eq!(again["done"], 0);
        insta::assert_snapshot!(format!("{name}-status"), run("status", &[]));

        let dropped = run("drop", &["--yes"]);
        assert_eq!(dropped.status, 0, "{dropped}");
        assert_eq!(run("drop", &["--yes"]).stdout, "none of the tables is there\n");
    }
}

/// Proves the store's part of K17.
#[tokio::test]
async fn indexes_come_stage_by_stage_and_are_told_as_missing_before() {
    let (place, design) = (Place::new("staged"), "systems/kondate/design/kondate.toml");
    let store = place.store().await;
    let mut told = Vec::new();
    for stage in ["0", "1", "2", "3"] {
        told.push(format!("$ plan --stage {stage}\n{}", place.tables("plan", design, &["--stage", stage])));
        let applied = place.tables("apply", design, &["--stage", stage, "--yes"]);
        assert_eq!(applied.status, 0, "{applied}");
        told.push(format!("$ status\n{}", place.tables("status", design, &[])));

        // Callers see what is there and what is not yet, without a restart.
        let fresh = place.store().await;
        let planned = place.json("plan", design, &["--stage", stage]);
        for next in planned["next"].as_array().expect("a list") {
            let (table, index) = (next["table"].as_str().expect("a name"), next["index"].as_str().expect("a name"));
            for store in [&store, &fresh] {
                let error = store.query(Query::index(table, index, "x")).await.expect_err("it is not there yet");
                assert_eq!(error.code(), "no_index", "{error}");
                assert_eq!(error.to_string(), format!("the table `{table}` has no index `{index}` yet"));
            }
        }
        for table in place.json("status", design, &[])["tables"].as_array().expect("a list") {
            for index in table["indexes"].as_array().expect("a list").iter().filter(|index| index["state"] == "active")
            {
                let name = |value: &Value| value.as_str().expect("a name").to_owned();
                for store in [&store, &fresh] {
                    let query = Query::index(name(&table["table"]), name(&index["name"]), "x");
                    store.query(query).await.expect("it is there now");
                }
            }
        }
    }
    // All stages are all indexes.
    told.push(format!("$ plan --exit-code\n{}", place.tables("plan", design, &["--exit-code"])));
    insta::assert_snapshot!("stages", told.join("\n\n"));
    assert_eq!(place.tables("drop", design, &["--yes"]).status, 0);
}

#[tokio::test]
async fn tables_with_items_are_dropped_only_when_told_to() {
    let (place, design) = (Place::new("filled"), "systems/todo/design/todo.toml");
    assert_eq!(place.tables("apply", design, &["--yes"]).status, 0);
    let first = place.json("status", design, &[])["tables"][0]["table"].as_str().expect("a name").to_owned();
    let item = Item::new().with("PK", "TODO#1").with("SK", "EVENT#1");
    place.store().await.write(Write::put(&first, item).into()).await.expect("a put");

    let mut told = Vec::new();
    for args in [&["--yes"][..], &["--drop"], &["--drop", "--yes"], &["--drop", "--yes"]] {
        told.push(format!("$ drop {}\n{}", args.join(" "), place.tables("drop", design, args)));
    }
    insta::assert_snapshot!("drop", told.join("\n\n"));
}

#[tokio::test]
async fn what_contradicts_the_design_is_told_and_nothing_is_done() {
    let (place, design) = (Place::new("other"), "systems/todo/design/todo.toml");
    let names = place.json("plan", design, &[]);
    let name = |at: usize| names["tables"][at]["table"].as_str().expect("a name").to_owned();
    let store = place.store().await;
    let other = TableSpec::new(name(0), KeySchema::strings("id", "at"))
        .with_index("mine", KeySchema::strings("a", "b"))
        .with_ttl("until");
    store.ensure_tables(&[other]).await.expect("the table is made");

    let mut told = vec![format!("$ plan\n{}", place.tables("plan", design, &[]))];
    told.push(format!("$ apply --yes\n{}", place.tables("apply", design, &["--yes"])));
    insta::assert_snapshot!("conflicts", told.join("\n\n"));
    assert_eq!(place.tables("drop", design, &["--yes"]).status, 0);
}

#[tokio::test]
async fn an_index_that_the_design_does_not_have_stays_unless_pruned() {
    let (place, design) = (Place::new("extra"), "systems/kondate/design/kondate.toml");
    assert_eq!(place.tables("apply", design, &["--yes"]).status, 0);
    let status = place.json("status", design, &[]);
    let table = status["tables"][0]["table"].as_str().expect("a name");
    let store = place.store().await;
    let wide = TableSpec::new(table, KeySchema::strings("PK", "SK"))
        .with_index("mine", KeySchema::strings("a", "b"))
        .with_ttl("expiresAt");
    store.ensure_tables(&[wide]).await.expect("the index is made");

    let mut told = Vec::new();
    for (verb, args) in [("plan", &[][..]), ("status", &[]), ("plan", &["--prune"]), ("apply", &["--prune", "--yes"])] {
        told.push(format!("$ {verb} {}\n{}", args.join(" "), place.tables(verb, design, args)));
    }
    insta::assert_snapshot!("prune", told.join("\n\n"));
    assert_eq!(place.tables("plan", design, &["--exit-code"]).status, 0);
    assert_eq!(place.tables("drop", design, &["--yes"]).status, 0);
}

#[tokio::test]
async fn several_that_make_the_same_tables_at_once_all_succeed() {
    let place = Place::new("together");
    let stores = [place.store().await, place.store().await, place.store().await];
    let key = || KeySchema::strings("PK", "SK");
    let narrow = TableSpec::new("together", key()).with_ttl("expiresAt");
    let wide = narrow
        .clone()
        .with_index("GSI1", KeySchema::strings("a", "b"))
        .with_index("GSI2", KeySchema::strings("c", "d"));
    for spec in [narrow, wide] {
        let specs = [spec];
        let (one, two, three) = tokio::join!(
            stores[0].ensure_tables(&specs),
            stores[1].ensure_tables(&specs),
            stores[2].ensure_tables(&specs)
        );
        [one, two, three].into_iter().for_each(|made| made.expect("all want the same"));
    }
    for store in &stores {
        store.query(Query::index("together", "GSI2", "x")).await.expect("it is there");
    }
}

#[tokio::test]
async fn a_table_without_a_stream_tells_how_to_get_one() {
    let (place, design) = (Place::new("still"), "systems/kondate/design/kondate.toml");
    assert_eq!(place.tables("apply", design, &["--yes"]).status, 0);
    let error =
        place.store().await.changes("MainTable", StartPosition::Oldest, 10).await.expect_err("it has no stream");
    let told =
        "the table `MainTable` has no stream: write `stream = true` for it in the design and run `nagaya tables apply`";
    assert_eq!((error.code(), error.to_string().as_str()), ("invalid", told));
}

#[test]
fn missing_credentials_are_one_sentence_with_the_remedy() {
    let args = ["tables", "plan", "systems/todo/design/todo.toml", "--store", "dynamodb"];
    let run = nagaya_in(&args, "", &[("AWS_EC2_METADATA_DISABLED", "true"), ("HOME", "/nonexistent")]);
    assert_eq!(run.status, 2, "{run}");
    for part in
        ["there are no AWS credentials", "set AWS_ACCESS_KEY_ID", "set AWS_REGION", "set only DYNAMODB_ENDPOINT"]
    {
        assert!(run.stderr.contains(part), "{run}");
    }
    assert_eq!(run.stderr.lines().count(), 1, "no log lines of the SDK: {run}");
}

#[test]
fn what_is_missing_is_told() {
    let (place, design) = (Place::new("unasked"), "systems/todo/design/todo.toml");
    insta::assert_snapshot!("unasked", place.tables("apply", design, &[]));
    let args = ["tables", "plan", design, "--store", "dynamodb"];
    let unreachable = [("DYNAMODB_ENDPOINT", "http://127.0.0.1:9")];
    let run = nagaya_in(&args, "", &unreachable);
    assert_eq!(run.status, 2, "{run}");
    assert_eq!(nagaya(&["tables", "apply", design]).status, 2);
}

#[test]
fn the_base_is_told_by_the_environment_or_the_design() {
    let (place, design) = (Place::new("base"), "systems/aiagent/design/single.toml");
    let args = ["tables", "plan", design, "--store", "dynamodb", "--json"];
    let first = |variables: &[(&str, &str)]| {
        let run = nagaya_in(&args, "", &[variables, &[("DYNAMODB_ENDPOINT", place.endpoint.as_str())]].concat());
        let plan: Value = serde_json::from_str(&run.stdout).expect("--json prints JSON");
        plan["tables"][0]["table"].as_str().expect("a name").to_owned()
    };
    assert!(first(&[]).starts_with("aiagent-"), "{}", first(&[]));
    assert!(first(&[("DYNAMODB_TABLE_NAME", "elsewhere")]).starts_with("elsewhere-"));
}
