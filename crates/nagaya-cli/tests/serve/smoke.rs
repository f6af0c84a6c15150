//! `nagaya smoke`, alone and beside a server.

use serde_json::{Value, json};

use super::{common::nagaya, serve, text};

/// Proves K18 in memory and on the embedded store.
#[test]
fn the_smoke_test_of_kondate_passes() {
    let alone = nagaya(&["smoke", "kondate", "--json"]);
    assert_eq!(alone.status, 0, "{alone}");
    let result: Value = serde_json::from_str(&alone.stdout).expect("JSON");
    let steps = result["steps"].as_array().expect("steps");
    assert!(steps.len() > 15 && steps.iter().all(|step| step["ok"] == true && step["note"].is_null()), "{result:#}");

    // With other systems it is served below its name, and the server holds its directory.
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let serving = serve(&["--data", text(&data)], &[]);
    let api = serving.system("kondate")["api"].as_str().expect("a URL");
    let url = api.trim_end_matches("/kondate/v1");
    let beside = nagaya(&["smoke", "kondate", "--url", url, "--data", text(&data)]);
    assert_eq!(beside.status, 0, "{beside}");
    assert_eq!(beside.stdout.lines().filter(|line| line.trim_start().starts_with("skipped")).count(), 1, "{beside}");
    assert!(beside.stderr.contains("steps, 1 skipped, all others fine"), "{beside}");
    // It removes everything that it created.
    assert_eq!(serving.send("kondate", "GET", "/catalog/recipes", None), (200, json!({ "data": [] })));

    // The token of another system is refused, and the output names the step that failed.
    let other = serving.token("todo");
    let refused = nagaya(&["smoke", "kondate", "--url", url, "--token", &other]);
    assert_eq!(refused.status, 1, "{refused}");
    assert!(
        refused.stderr.contains("failed at: the users have no data") && refused.stderr.contains("401"),
        "{refused}"
    );
}

/// Proves the part of K18 that leaves real users alone.
#[test]
fn the_smoke_test_refuses_a_user_with_data() {
    let directory = tempfile::tempdir().expect("a directory");
    let serving = serve(&["kondate", "--data", text(directory.path())], &[]);
    let system = serving.system("kondate");
    let url = system["api"].as_str().expect("a URL").trim_end_matches("/v1");
    let token = serving.token("kondate");
    let go = || nagaya(&["smoke", "kondate", "--url", url, "--token", &token]);
    let skipped = |output: &str| output.lines().filter(|line| line.trim_start().starts_with("skipped")).count();

    // A user without data can run it repeatedly; steps for two users are skipped.
    for _ in 0..2 {
        let gone = go();
        assert_eq!(gone.status, 0, "{gone}");
        assert_eq!(skipped(&gone.stdout), 3, "{gone}");
        assert!(gone.stderr.contains("steps, 3 skipped, all others fine"), "{gone}");
        for list in ["/plans", "/recipes", "/fridge-deleted-items", "/notifications"] {
            assert_eq!(serving.send("kondate", "GET", list, None), (200, json!({ "data": [] })), "{list}");
        }
    }

    // A user with data cannot, and keeps the data.
    for (list, body, item) in [
        ("/plans", json!({ "slot": "NEXT", "items": [{ "title": "鍋" }] }), "/plans/NEXT"),
        ("/profile", json!({ "displayName": "澪" }), "/profile"),
        ("/recipes", json!({ "title": "鍋" }), ""),
    ] {
        let (status, made) = serving.send("kondate", "POST", list, Some(&body));
        assert_eq!(status, 201, "{made}");
        let refused = go();
        assert_eq!(refused.status, 1, "{refused}");
        let why = format!("the user of the token has data ({list}): use a user made for this");
        assert!(refused.stderr.contains(&why), "{refused}");
        assert_eq!(refused.stdout.lines().count(), 1, "{refused}");
        let recipe = format!("/recipes/{}", made["data"]["recipeId"].as_str().unwrap_or_default());
        let item = if item.is_empty() { recipe.as_str() } else { item };
        let (status, there) = serving.send("kondate", "GET", item, None);
        assert_eq!((status, &there["data"]), (200, &made["data"]), "{there}");
        assert_eq!(serving.send("kondate", "DELETE", item, None).0, 204);
    }
}

#[test]
fn a_smoke_test_that_cannot_run_reports_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = text(directory.path());
    let unknown = nagaya(&["smoke", "todo"]);
    assert!(unknown.status != 0 && unknown.stderr.contains("available: kondate"), "{unknown}");
    let keyless = nagaya(&["smoke", "kondate", "--url", "http://127.0.0.1:1", "--data", data]);
    assert!(keyless.status != 0 && keyless.stderr.contains("name --data, or give a --token"), "{keyless}");
    let nowhere = nagaya(&["smoke", "kondate", "--url", "http://127.0.0.1:1", "--token", "x"]);
    assert!(nowhere.status != 0 && nowhere.stderr.contains("http://127.0.0.1:1 cannot be reached"), "{nowhere}");
}
