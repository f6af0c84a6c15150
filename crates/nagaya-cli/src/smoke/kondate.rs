//! The path through kondate: from a profile to a revoked share link.

mod own;
mod public;

use anyhow::{Context as _, ensure};
use nagaya_store::Key;
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;

use super::{
    Site,
    client::{
        Client,
        Who::{Cook, Guest, Visitor},
    },
    walk::Walk,
};

/// Goes the path, and clears away what it has made however far it came.
pub(super) fn go(walk: &mut Walk, site: &Site, runtime: &Runtime) -> anyhow::Result<()> {
    let client = &site.client;
    // Plans are replaced and notifications marked as read: nobody's own may be among them.
    walk.step("the users have nothing of their own", || own::nothing(client))?;
    let mut made = Vec::new();
    let gone = path(walk, site, runtime, &mut made);
    let cleared = walk.step("what was made is deleted", || own::clear(client, &made));
    gone.and(cleared)
}

/// What has to be deleted, and by whom.
type Made = Vec<(super::client::Who, String)>;

fn path(walk: &mut Walk, site: &Site, runtime: &Runtime, made: &mut Made) -> anyhow::Result<()> {
    let client = &site.client;
    walk.step("a profile is made", || {
        let body = json!({ "displayName": "通りすがりの料理人" });
        client.ask(Cook, "POST", "/profile", Some(body), 201)?;
        made.push((Cook, "/profile".to_owned()));
        client.get(Cook, "/profile")
    })?;
    let recipe = walk.step("a recipe is made", || {
        let ingredients = json!([
            { "name": "じゃがいも", "amount": 3, "unit": "個" },
            { "name": "牛肉", "amount": 200, "unit": "g" },
        ]);
        let body = json!({ "title": "肉じゃが", "servings": 2, "tags": ["煮物"], "ingredients": ingredients });
        let recipe = client.ask(Cook, "POST", "/recipes", Some(body), 201)?;
        made.push((Cook, format!("/recipes/{}", text(&recipe, "recipeId")?)));
        Ok(recipe)
    })?;
    let (user, id) = (text(&recipe, "userId")?.to_owned(), text(&recipe, "recipeId")?.to_owned());
    read_back(walk, site, runtime, &user, &recipe)?;
    walk.step("the recipe is read, listed and changed", || {
        client.until(Cook, &format!("/recipes/{id}"), |found| found["title"] == "肉じゃが")?;
        let listed = client.get(Cook, "/recipes?limit=1")?;
        ensure!(listed[0]["recipeId"] == id.as_str(), "the newest recipe is {}", listed[0]);
        let patch = json!({ "cookMinutes": 40 });
        let changed = client.ask(Cook, "PATCH", &format!("/recipes/{id}"), Some(patch), 200)?;
        ensure!(changed["cookMinutes"] == 40, "the recipe is {changed}");
        Ok(())
    })?;
    let own = format!("/recipes/{id}");
    walk.step("it is not seen without a token", || client.ask(Visitor, "GET", &own, None, 401))?;
    if_two(walk, client, "others do not see it", || client.ask(Guest, "GET", &own, None, 404).map(drop))?;
    planning(walk, site, &id, made)?;
    kitchen(walk, site, made)?;
    public::catalog(walk, client, &id, made)?;
    public::sharing(walk, client, &id, made)?;
    public::paying(walk, client, made)
}

/// Goes a step that takes two people, if there are two.
fn if_two(
    walk: &mut Walk,
    client: &Client,
    name: &'static str,
    go: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if client.is_one() {
        walk.leave_out(name, "it takes two users, and one token was given");
        return Ok(());
    }
    walk.step(name, go)
}

/// The recipe as the table has it, under the key that the design says.
fn read_back(walk: &mut Walk, site: &Site, runtime: &Runtime, user: &str, recipe: &Json) -> anyhow::Result<()> {
    const NAME: &str = "the recipe is read back from the table by its key";
    let Some((store, table)) = &site.table else {
        walk.leave_out(NAME, "the directory is the server's; with DynamoDB, set DATA_STORE_DRIVER=dynamodb");
        return Ok(());
    };
    walk.step(NAME, || {
        let sort = format!("RECIPE#{}", text(recipe, "recipeId")?);
        let key = Key::new(format!("USER#{user}"), sort.as_str());
        let item = runtime.block_on(store.get(table, &key))?;
        let item = item.with_context(|| format!("{table} has no item USER#{user} / {sort}"))?;
        let title = item.get("title").and_then(nagaya_store::Value::as_str);
        ensure!(title == recipe["title"].as_str(), "USER#{user} / {sort} in {table} is called {title:?}");
        Ok(())
    })
}

/// Sets, plans and what has to be bought for them.
fn planning(walk: &mut Walk, site: &Site, recipe: &str, made: &mut Made) -> anyhow::Result<()> {
    let client = &site.client;
    walk.step("a set is made, applied to the next plan, and promoted", || {
        let body =
            json!({ "title": "平日の夕食", "items": [{ "recipeId": recipe, "title": "肉じゃが", "servings": 4 }] });
        let set = client.ask(Cook, "POST", "/sets", Some(body), 201)?;
        let set = text(&set, "setId")?;
        made.push((Cook, format!("/sets/{set}")));
        made.extend(["/plans/NEXT", "/plans/CURRENT"].map(|plan| (Cook, plan.to_owned())));
        client.ask(Cook, "POST", "/plans/NEXT/apply", Some(json!({ "setId": set })), 200)?;
        let plan = client.ask(Cook, "POST", "/plans/promote", None, 200)?;
        ensure!(plan["slot"] == "CURRENT" && plan["setId"] == set, "the plan is {plan}");
        Ok(())
    })?;
    walk.step("a shopping list is made of the plan, and completed", || {
        let body = json!({ "slot": "CURRENT" });
        let list = client.ask(Cook, "POST", "/shopping-items/from-plan", Some(body), 201)?;
        let ids: Vec<_> = list.as_array().into_iter().flatten().filter_map(|item| item["itemId"].as_str()).collect();
        made.extend(ids.iter().map(|id| (Cook, format!("/shopping-items/{id}"))));
        ensure!(ids.len() == 2 && list.to_string().contains("じゃがいも"), "the list is {list}");
        let done = client.ask(Cook, "POST", "/shopping-items/complete", Some(json!({ "itemIds": ids })), 200)?;
        ensure!(done[0]["completed"] == true, "the list is {done}");
        Ok(())
    })
}

/// Fridge, categories, log and archive.
fn kitchen(walk: &mut Walk, site: &Site, made: &mut Made) -> anyhow::Result<()> {
    let client = &site.client;
    walk.step("something is put in the fridge, deleted and restored", || {
        let body = json!({ "name": "豆腐", "amount": 1, "unit": "丁" });
        let item = client.ask(Cook, "POST", "/fridge-items", Some(body), 201)?;
        let id = text(&item, "itemId")?;
        client.ask(Cook, "DELETE", &format!("/fridge-items/{id}"), None, 204)?;
        let deleted = client.get(Cook, "/fridge-deleted-items")?;
        let at = text(&deleted[0], "deletedAt")?;
        made.push((Cook, format!("/fridge-deleted-items/{at}/{id}")));
        let back = client.ask(Cook, "POST", &format!("/fridge-deleted-items/{at}/{id}/restore"), None, 200)?;
        made.push((Cook, format!("/fridge-items/{id}")));
        ensure!(back["name"] == "豆腐", "what was restored is {back}");
        Ok(())
    })?;
    walk.step("a category is made and listed", || {
        let body = json!({ "scope": "book", "name": "主菜" });
        let category = client.ask(Cook, "POST", "/categories", Some(body), 201)?;
        made.push((Cook, format!("/categories/book/{}", text(&category, "categoryId")?)));
        client.get(Cook, "/categories?scope=book")
    })?;
    walk.step("a log is written and found in the archive", || {
        let body = json!({ "date": "2026-02-09", "title": "肉じゃが", "rating": 5 });
        let log = client.ask(Cook, "POST", "/cooklogs", Some(body), 201)?;
        made.push((Cook, format!("/cooklogs/2026-02-09/{}", text(&log, "logId")?)));
        let months = client.get(Cook, "/archive")?;
        ensure!(months.to_string().contains("2026-02"), "the months are {months}");
        let days = client.get(Cook, "/archive/2026-02")?;
        ensure!(days[0]["date"] == "2026-02-09", "the days are {days}");
        Ok(())
    })?;
    walk.step("settings and a device for messages are kept", || {
        client.ask(Cook, "POST", "/notification-settings", Some(json!({})), 201)?;
        made.push((Cook, "/notification-settings".to_owned()));
        let body = json!({ "platform": "web", "token": "smoke-device" });
        let (status, answer) = client.send(Cook, "POST", "/push-tokens", Some(body), &[])?;
        ensure!(matches!(status, 200 | 201), "POST /push-tokens answered {status}: {answer}");
        made.push((Cook, format!("/push-tokens/web/{}", text(&answer["data"], "tokenHash")?)));
        Ok(())
    })
}

fn text<'j>(value: &'j Json, name: &str) -> anyhow::Result<&'j str> {
    value[name].as_str().with_context(|| format!("`{name}` is missing in {value}"))
}
