//! Built-in systems and designs of a user behind one server.

use std::{fs, process::Command, time::Duration};

use nagaya_testing::{Process, ServeProcess, eventually, send_request};
use serde_json::{Value, json};

use super::{common::nagaya, serve, text};

/// Proves N4.
#[test]
fn one_command_serves_every_system_with_documentation_and_a_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serving = serve(&["--data", text(&data)], &[]);
    for (name, prefix, list) in [
        ("aiagent", "/aiagent/v1", "/agents"),
        ("aiagent-multi", "/aiagent-multi/v1", "/agents"),
        ("todo", "/todo", "/todos"),
        ("kondate", "/kondate/v1", "/recipes"),
        ("management", "/management/v1", "/files"),
    ] {
        let system = serving.system(name);
        assert!(system["api"].as_str().is_some_and(|api| api.ends_with(prefix)), "{system}");
        let (status, body) = serving.send(name, "GET", list, None);
        assert_eq!((status, &body), (200, &json!({ "data": [] })), "{name}");
        assert_eq!(
            send_request("GET", &format!("{}{list}", system["api"].as_str().expect("a URL")), None, None).0,
            401
        );
        let (status, page) = send_request("GET", system["docs"].as_str().expect("a URL"), None, None);
        assert!(status == 200 && page.as_str().is_some_and(|page| page.contains("<html")), "{name}");
        let (status, document) = send_request("GET", system["openapi"].as_str().expect("a URL"), None, None);
        assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")), "{name}");
    }
    let url = serving.url().to_owned();
    assert_eq!(send_request("GET", &format!("{url}/readyz"), None, None).0, 200);
    // A token is valid for its own system only.
    let token = serving.token("aiagent");
    assert_eq!(send_request("GET", &format!("{url}/kondate/v1/recipes"), Some(&token), None).0, 401);
    assert_eq!(serving.process.stop(), Some(0));
}

/// Buys a recipe; the status and the body.
fn purchase(serving: &ServeProcess, token: &str, recipe: &Value) -> (u16, Value) {
    let api = serving.system("kondate")["api"].as_str().expect("a URL");
    let body = json!({ "targetType": "RECIPE", "targetId": recipe }).to_string();
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let request = ureq::Agent::new_with_config(config)
        .post(format!("{api}/purchases"))
        .header("authorization", format!("Bearer {token}"))
        .header("idempotency-key", recipe.as_str().expect("an id"))
        .header("content-type", "application/json");
    let mut response = request.send(&body).expect("a response");
    let text = response.body_mut().read_to_string().expect("a body");
    (response.status().as_u16(), serde_json::from_str(&text).expect("JSON"))
}

/// Payments that cost nothing are for development. In production every payment is declined.
#[test]
fn payments_are_declined_in_production_and_free_in_development() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, issuer) = (directory.path().join("data"), directory.path().join("issuer"));
    let seeded = nagaya(&["seed", "kondate", "--tenants", "4", "--data", text(&data)]);
    assert_eq!(seeded.status, 0, "{seeded}");
    let card = json!({ "token": "tok_jcb" });
    let issuer = serve(&["kondate", "--data", text(&issuer)], &[]);

    let serving = serve(&["kondate", "--data", text(&data)], &[]);
    let offers = serving.send("kondate", "GET", "/catalog/recipes?limit=100", None).1;
    let offers = offers["data"].as_array().expect("a list").iter();
    let purchases = serving.send("kondate", "GET", "/purchases?limit=100", None).1;
    let purchases = purchases["data"].as_array().expect("a list");
    let is_bought = |recipe: &Value| purchases.iter().any(|each| each["targetId"] == *recipe);
    let is_offer = |each: &&Value| each["price"].as_u64() > Some(0) && each["creatorId"] != "demo";
    let offers: Vec<_> = offers.filter(is_offer).filter(|each| !is_bought(&each["recipeId"])).collect();
    assert_eq!(serving.send("kondate", "POST", "/payment-methods", Some(&card)).0, 201);
    let (status, bought) = purchase(&serving, &serving.token("kondate"), &offers[0]["recipeId"]);
    assert_eq!((status, &bought["data"]["status"]), (201, &json!("paid")), "{bought}");
    assert_eq!(serving.process.stop(), Some(0));

    let production = ["kondate", "--data", text(&data), "--issuer", issuer.url(), "--audience", "kondate"];
    let serving = serve(&production, &[]);
    serving.use_token("kondate", &issuer.token("kondate"));
    let (status, declined) = serving.send("kondate", "POST", "/payment-methods", Some(&json!({ "token": "tok_visa" })));
    let reason = "Payments are not set up on this server.";
    assert_eq!((status, &declined["detail"]), (402, &json!(reason)), "{declined}");
    // The card is one of the provider of development, and pays nothing here.
    let (status, declined) = purchase(&serving, &issuer.token("kondate"), &offers[1]["recipeId"]);
    assert_eq!((status, &declined["code"]), (409, &json!("other_provider")), "{declined}");
    assert_eq!(serving.send("kondate", "GET", "/subscription/plans", None).1["data"], json!([]));
}

/// Nobody could pay for a plan.
#[test]
fn subscription_plans_are_refused_in_production() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("plans.json");
    fs::write(&file, r#"[{ "name": "gold", "price": 1200, "periodDays": 90 }]"#).expect("a file");
    let issuer = ["--issuer", "https://id.example.com", "--audience", "kondate", "--data", text(directory.path())];
    for command in ["serve", "doctor"] {
        let run = nagaya(
            &[&[command, "kondate", "--listen", "127.0.0.1:0", "--subscription-plans", text(&file)], &issuer[..]]
                .concat(),
        );
        assert_ne!(run.status, 0, "{run}");
        assert!(run.to_string().contains("declines all payments in production"), "{run}");
    }
}

/// A server on any free port: it is not in the way of others if it starts nevertheless.
const SERVE_KONDATE: [&str; 6] = ["serve", "kondate", "--store", "memory", "--listen", "127.0.0.1:0"];

/// Proves the part of K13 that the operator sets the plans, by a flag or its variable.
#[test]
fn subscription_plans_are_read_from_a_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("plans.json");
    fs::write(&file, r#"[{ "name": "gold", "price": 1200, "periodDays": 90 }]"#).expect("a file");
    let gold = json!([{ "name": "gold", "price": 1200, "currency": "JPY", "periodDays": 90, "trial": false }]);
    let data = directory.path().join("data");
    let plans = |args: &[&str], env: &[(&str, &str)]| {
        let serving = serve(&[&["kondate", "--data", text(&data)], args].concat(), env);
        let (status, body) = serving.send("kondate", "GET", "/subscription/plans", None);
        assert_eq!(status, 200, "{body}");
        assert_eq!(serving.process.stop(), Some(0));
        body["data"].clone()
    };
    assert_eq!(plans(&["--subscription-plans", text(&file)], &[]), gold);
    assert_eq!(plans(&[], &[("NAGAYA_SUBSCRIPTION_PLANS", text(&file))]), gold);
    // In development there are some to try.
    assert_eq!(plans(&[], &[])[0]["name"], "standard");

    let refused = |content: &str, expected: &str| {
        fs::write(&file, content).expect("a file");
        let run = nagaya(&[&SERVE_KONDATE[..], &["--subscription-plans", text(&file)]].concat());
        assert_eq!(run.status, 2, "{run}");
        assert!(run.stderr.contains(text(&file)) && run.stderr.contains(expected), "{run}");
    };
    refused("{}", "not a list of plans");
    refused(r#"[{ "name": "gold", "price": 1200, "periodDays": 0 }]"#, "plan `gold`: `periodDays`");
    fs::remove_file(&file).expect("it is there");
    let run = nagaya(&[&SERVE_KONDATE[..], &["--subscription-plans", text(&file)]].concat());
    assert!(run.status != 0 && run.stderr.contains("cannot read the subscription plans"), "{run}");
}

/// A proxy on the same machine may forward requests of others as if they came from here.
#[test]
fn a_server_with_a_public_url_has_no_sign_in() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serving = serve(&["todo", "--data", text(&data)], &[]);
    let address = serving.url().strip_prefix("http://").expect("a local URL").to_owned();
    let sign_in = format!("http://{address}/docs/sign-in");
    assert_eq!(send_request("GET", &sign_in, None, None).0, 200);
    assert_eq!(serving.process.stop(), Some(0));

    let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
    command.args(["serve", "todo", "--json", "--listen", &address, "--public-url", "https://api.example.com"]);
    let mut process = Process::start(command.args(["--data", text(&data)]));
    process.wait_until_ready();
    assert_eq!(send_request("GET", &sign_in, None, None).0, 404);
    assert_eq!(process.stop(), Some(0));
}

/// Acknowledged data is there after a restart, for its own tenant only.
#[test]
fn a_single_system_is_served_at_the_root_and_keeps_its_data() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let at = ["todo", "--data", text(&data)];
    let made = {
        let serving = serve(&at, &[]);
        let (status, body) = serving.send("todo", "POST", "/todos", Some(&json!({ "title": "milk" })));
        assert_eq!(status, 201, "{body}");
        // A second server on the same data names the process that holds it.
        let second = nagaya(&["serve", "todo", "--listen", "127.0.0.1:0", "--data", text(&data)]);
        assert_ne!(second.status, 0);
        assert!(second.stderr.contains(&serving.process.id().to_string()), "{second}");
        assert_eq!(serving.process.stop(), Some(0));
        body["data"].clone()
    };
    let serving = serve(&at, &[]);
    let path = format!("/todos/{}", made["todoId"].as_str().expect("an id"));
    // If the server stopped before the projection was updated, the next one updates it.
    let after = format!("{path}?after={}", made["lastEventId"].as_str().expect("an event"));
    assert_eq!(serving.send("todo", "GET", &after, None), (200, json!({ "data": made })));

    // `nagaya token` prints only a token; the token of another tenant lists nothing.
    let ask = |tenant: &str| {
        let run = nagaya(&["token", "--system", "todo", "--tenant", tenant, "--user", "u", "--data", text(&data)]);
        assert_eq!((run.status, run.stdout.lines().count()), (0, 1), "{run}");
        let url = format!("{}{path}", serving.url());
        send_request("GET", &url, Some(run.stdout.trim()), None)
    };
    assert_eq!(ask("demo").0, 200);
    let (status, theirs) = ask("demo2");
    assert_eq!((status, &theirs["code"]), (404, &json!("not_found")));
}

const NOTES: &str = r##"
name    = "notes"
version = "1.0"

[tenant]
field = "teamId"

[table.main]
key = ["PK", "SK"]

[entity.note]
table = "main"
key   = { PK = "TEAM#{teamId}", SK = "NOTE#{noteId}" }

[entity.note.fields]
teamId = { type = "string", min = 1, max = 64 }
noteId = { type = "ulid", default = "new" }
text   = { type = "string", max = 4000 }

[access.notes]
entity = "note"
"##;

#[test]
fn a_custom_design_is_served_and_reloaded_when_it_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let design = directory.path().join("notes.toml");
    fs::write(&design, NOTES).expect("a file");
    let data = directory.path().join("data");
    let serving = serve(&[text(&design), "--data", text(&data), "--watch"], &[]);
    let post = |body: Value| serving.send("notes", "POST", "/notes", Some(&body));
    assert_eq!(post(json!({ "text": "a" })).0, 201);
    assert_eq!(post(json!({ "text": "a", "pinned": true })).0, 422);

    // A new optional field is not a breaking change.
    let more = format!("{NOTES}\n[entity.note.fields.pinned]\ntype = \"boolean\"\ndefault = false\n");
    let more = more.replace("[access.notes]\nentity = \"note\"\n\n[entity", "[entity")
        + "\n[access.notes]\nentity = \"note\"\n";
    fs::write(&design, &more).expect("a file");
    eventually(|| match post(json!({ "text": "b", "pinned": true })) {
        (201, _) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let (_, listed) = serving.send("notes", "GET", "/notes", None);
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(2), "what was there still is: {listed}");

    // A breaking change and an invalid design are refused: the API stays unchanged.
    for wrong in [more.replace("NOTE#", "N#"), "name = ".to_owned()] {
        fs::write(&design, wrong).expect("a file");
        std::thread::sleep(Duration::from_millis(1_000));
        assert_eq!(serving.send("notes", "GET", "/notes", None).1["data"].as_array().map(Vec::len), Some(2));
    }
    fs::write(&design, more.replace("max = 4000", "max = 4001")).expect("a file");
    eventually(|| match post(json!({ "text": "x".repeat(4_001) })) {
        (201, _) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

#[test]
fn seeded_data_is_searchable_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["seed", "kondate", "--tenants", "2", "--until", "2026-11-12", "--data", text(dir.path())];
    let seeded = nagaya(&args);
    assert_eq!(seeded.status, 0, "{seeded}");

    let serving = serve(&["kondate", "--data", text(dir.path())], &[]);
    let titles = |path: &str| -> Vec<String> {
        let (status, found) = serving.send("kondate", "GET", path, None);
        assert_eq!(status, 200, "{path}: {found}");
        let found = found["data"].as_array().expect("a list").clone();
        found.iter().map(|each| each["title"].as_str().expect("a title").to_owned()).collect()
    };
    // カレー, URL-encoded.
    let curries = titles("/recipes?q=%E3%82%AB%E3%83%AC%E3%83%BC&limit=2");
    assert!(curries.len() == 2 && curries.iter().all(|title| title.contains("カレー")), "{curries:?}");
    // No set has 献立 in its title, and many have 夕食.
    assert!(titles("/sets?q=%E5%A4%95%E9%A3%9F").len() > 3);
    let published = titles("/catalog/recipes?limit=100");
    assert_eq!(published.len(), 20);
    let (_, popular) = serving.send("kondate", "GET", "/catalog/recipes/popular?limit=100", None);
    let counts: Vec<_> = popular["data"].as_array().expect("a list").iter().map(|each| &each["savedCount"]).collect();
    assert!(counts.len() == 20 && *counts[0] == json!(1) && *counts[19] == json!(0), "{counts:?}");

    // Seeded data is like that of the product: users can continue with it.
    let plan = |slot: &str| serving.send("kondate", "GET", &format!("/plans/{slot}"), None).1["data"].clone();
    let cooked =
        plan("CURRENT")["items"].as_array().expect("a list").iter().filter(|item| item["cooked"] == true).count();
    assert_eq!(cooked, 6, "Monday to Wednesday");
    let logs =
        || serving.send("kondate", "GET", "/cooklogs?date=2026-11&limit=100", None).1["data"].as_array().map(Vec::len);
    let (before, next) = (logs().expect("a list"), plan("NEXT"));
    let (status, promoted) = serving.send("kondate", "POST", "/plans/promote", None);
    assert_eq!((status, &promoted["data"]["items"]), (200, &next["items"]), "{promoted}");
    assert_eq!(logs(), Some(before + cooked));
    let offer = serving.send("kondate", "GET", "/catalog/recipes?limit=1", None).1["data"][0].clone();
    let own = offer["creatorId"] == "demo";
    let path = format!("/recipes/{}/publish", offer["recipeId"].as_str().expect("an id"));
    assert_eq!(serving.send("kondate", "POST", &path, Some(&json!({}))).0, if own { 200 } else { 404 });
    let (status, asked) = serving.send("kondate", "POST", "/subscription/refresh", None);
    assert_eq!((status, &asked["data"]["provider"]), (200, &json!("local")), "{asked}");
}
