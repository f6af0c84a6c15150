//! The smoke test: every part of the API once, from a profile to a revoked share link.

mod cleanup;
mod public;

use nagaya_server::smoke::{
    SmokeClient, SmokeError, SmokeReport,
    SmokeUser::{self, Anonymous as Visitor, First as Cook, Second as Guest},
};
use nagaya_store::Key;
use serde_json::{Value as Json, json};

/// Ends a step with an error unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+).into());
        }
    };
}
use ensure;

/// Checks the API, and deletes what it has created however far it came.
pub(crate) fn run(client: &SmokeClient, report: &mut SmokeReport) -> Result<(), SmokeError> {
    // Plans are replaced and notifications marked as read: real data must not be among them.
    report.step("the users have no data", || cleanup::ensure_empty(client))?;
    let mut created = Vec::new();
    let result = check(report, client, &mut created);
    let cleared = report.step("the created items are deleted", || cleanup::clear(client, &created));
    result.and(cleared)
}

/// What has to be deleted, and by whom.
type Created = Vec<(SmokeUser, String)>;

fn check(report: &mut SmokeReport, client: &SmokeClient, created: &mut Created) -> Result<(), SmokeError> {
    report.step("a profile is created", || {
        let body = json!({ "displayName": "通りすがりの料理人" });
        client.request(Cook, "POST", "/profile", Some(body), 201)?;
        created.push((Cook, "/profile".to_owned()));
        client.get(Cook, "/profile")
    })?;
    let recipe = report.step("a recipe is created", || {
        let ingredients = json!([
            { "name": "じゃがいも", "amount": 3, "unit": "個" },
            { "name": "牛肉", "amount": 200, "unit": "g" },
        ]);
        let body = json!({ "title": "肉じゃが", "servings": 2, "tags": ["煮物"], "ingredients": ingredients });
        let recipe = client.request(Cook, "POST", "/recipes", Some(body), 201)?;
        created.push((Cook, format!("/recipes/{}", text(&recipe, "recipeId")?)));
        Ok(recipe)
    })?;
    let (user, id) = (text(&recipe, "userId")?.to_owned(), text(&recipe, "recipeId")?.to_owned());
    read_back(report, client, &user, &recipe)?;
    report.step("the recipe is read, listed and changed", || {
        client.get_until(Cook, &format!("/recipes/{id}"), |found| found["title"] == "肉じゃが")?;
        let listed = client.get(Cook, "/recipes?limit=1")?;
        ensure!(listed[0]["recipeId"] == id.as_str(), "the newest recipe is {}", listed[0]);
        let patch = json!({ "cookMinutes": 40 });
        let changed = client.request(Cook, "PATCH", &format!("/recipes/{id}"), Some(patch), 200)?;
        ensure!(changed["cookMinutes"] == 40, "the recipe is {changed}");
        Ok(())
    })?;
    let own = format!("/recipes/{id}");
    report.step("it cannot be read without a token", || client.request(Visitor, "GET", &own, None, 401))?;
    step_with_two_users(report, client, "other users cannot read it", || {
        client.request(Guest, "GET", &own, None, 404).map(drop)
    })?;
    check_planning(report, client, &id, created)?;
    check_kitchen(report, client, created)?;
    public::check_catalog(report, client, &id, created)?;
    public::check_sharing(report, client, &id, created)?;
    public::check_payments(report, client, created)
}

/// Runs a step that takes two users, if there are two.
fn step_with_two_users(
    report: &mut SmokeReport,
    client: &SmokeClient,
    name: &'static str,
    run: impl FnOnce() -> Result<(), SmokeError>,
) -> Result<(), SmokeError> {
    if client.has_one_user() {
        report.skip(name, "needs two users, and one token was given");
        return Ok(());
    }
    report.step(name, run)
}

/// Reads the recipe from the table, by the key that the design gives it.
fn read_back(report: &mut SmokeReport, client: &SmokeClient, user: &str, recipe: &Json) -> Result<(), SmokeError> {
    const NAME: &str = "the recipe is read back from the table by its key";
    if !client.reads_store() {
        report.skip(NAME, "the server has the directory open; with DynamoDB, set DATA_STORE_DRIVER=dynamodb");
        return Ok(());
    }
    report.step(NAME, || {
        let sort = format!("RECIPE#{}", text(recipe, "recipeId")?);
        let key = Key::new(format!("USER#{user}"), sort.as_str());
        let item = client.stored_item(&key)?.ok_or_else(|| format!("the table has no item USER#{user} / {sort}"))?;
        let title = item.get("title").and_then(nagaya_store::Value::as_str);
        ensure!(title == recipe["title"].as_str(), "USER#{user} / {sort} in the table is called {title:?}");
        Ok(())
    })
}

/// Sets, plans and the shopping list.
fn check_planning(
    report: &mut SmokeReport,
    client: &SmokeClient,
    recipe: &str,
    created: &mut Created,
) -> Result<(), SmokeError> {
    report.step("a set is created and applied to the next plan, and the plan is promoted", || {
        let body =
            json!({ "title": "平日の夕食", "items": [{ "recipeId": recipe, "title": "肉じゃが", "servings": 4 }] });
        let set = client.request(Cook, "POST", "/sets", Some(body), 201)?;
        let set = text(&set, "setId")?;
        created.push((Cook, format!("/sets/{set}")));
        created.extend(["/plans/NEXT", "/plans/CURRENT"].map(|plan| (Cook, plan.to_owned())));
        client.request(Cook, "POST", "/plans/NEXT/apply", Some(json!({ "setId": set })), 200)?;
        let plan = client.request(Cook, "POST", "/plans/promote", None, 200)?;
        ensure!(plan["slot"] == "CURRENT" && plan["setId"] == set, "the plan is {plan}");
        Ok(())
    })?;
    report.step("the ingredients of the plan are added to the shopping list, bought and put in the fridge", || {
        let body = json!({ "slot": "CURRENT" });
        let answer = client.request(Cook, "POST", "/shopping-items/from-plan", Some(body), 201)?;
        let list = &answer["added"];
        let ids: Vec<_> = list.as_array().into_iter().flatten().filter_map(|item| item["itemId"].as_str()).collect();
        created.extend(ids.iter().map(|id| (Cook, format!("/shopping-items/{id}"))));
        ensure!(ids.len() == 2 && list.to_string().contains("じゃがいも"), "the list is {list}");
        let body = json!({ "itemIds": ids, "toFridge": true });
        let done = client.request(Cook, "POST", "/shopping-items/complete", Some(body), 200)?;
        ensure!(done[0]["completed"] == true, "the list is {done}");
        let stored = done.as_array().into_iter().flatten().filter_map(|item| item["fridgeItemId"].as_str());
        created.extend(stored.map(|id| (Cook, format!("/fridge-items/{id}"))));
        Ok(())
    })
}

/// Fridge, categories, log and archive.
fn check_kitchen(report: &mut SmokeReport, client: &SmokeClient, created: &mut Created) -> Result<(), SmokeError> {
    report.step("something is put in the fridge, deleted and restored", || {
        let body = json!({ "name": "豆腐", "amount": 1, "unit": "丁" });
        let item = client.request(Cook, "POST", "/fridge-items", Some(body), 201)?;
        let id = text(&item, "itemId")?;
        client.request(Cook, "DELETE", &format!("/fridge-items/{id}"), None, 204)?;
        let deleted = client.get(Cook, "/fridge-deleted-items")?;
        let at = text(&deleted[0], "deletedAt")?;
        created.push((Cook, format!("/fridge-deleted-items/{at}/{id}")));
        let back = client.request(Cook, "POST", &format!("/fridge-deleted-items/{at}/{id}/restore"), None, 200)?;
        created.push((Cook, format!("/fridge-items/{id}")));
        ensure!(back["name"] == "豆腐", "what was restored is {back}");
        Ok(())
    })?;
    report.step("a category is created and listed", || {
        let body = json!({ "scope": "book", "name": "主菜" });
        let category = client.request(Cook, "POST", "/categories", Some(body), 201)?;
        created.push((Cook, format!("/categories/book/{}", text(&category, "categoryId")?)));
        client.get(Cook, "/categories?scope=book")
    })?;
    report.step("a log is written and found in the archive", || {
        let body = json!({ "date": "2026-02-09", "title": "肉じゃが", "rating": 5 });
        let log = client.request(Cook, "POST", "/cooklogs", Some(body), 201)?;
        created.push((Cook, format!("/cooklogs/2026-02-09/{}", text(&log, "logId")?)));
        let months = client.get(Cook, "/archive")?;
        ensure!(months.to_string().contains("2026-02"), "the months are {months}");
        let days = client.get(Cook, "/archive/2026-02")?;
        ensure!(days[0]["date"] == "2026-02-09", "the days are {days}");
        Ok(())
    })?;
    report.step("notification settings and a device are stored", || {
        client.request(Cook, "POST", "/notification-settings", Some(json!({})), 201)?;
        created.push((Cook, "/notification-settings".to_owned()));
        let body = json!({ "platform": "web", "token": "smoke-device" });
        let (status, answer) = client.send(Cook, "POST", "/push-tokens", Some(body), &[])?;
        ensure!(matches!(status, 200 | 201), "POST /push-tokens answered {status}: {answer}");
        created.push((Cook, format!("/push-tokens/web/{}", text(&answer["data"], "tokenHash")?)));
        Ok(())
    })
}

fn text<'j>(value: &'j Json, name: &str) -> Result<&'j str, SmokeError> {
    value[name].as_str().ok_or_else(|| format!("`{name}` is missing in {value}").into())
}
