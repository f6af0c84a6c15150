//! The path through kondate: from a profile to a revoked share link.

use anyhow::{Context as _, ensure};
use nagaya_store::Key;
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;

use super::{
    Site,
    client::Who::{Cook, Guest, Visitor},
    walk::Walk,
};

/// Goes the path, and clears away what it has made however far it came.
pub(super) fn go(walk: &mut Walk, site: &Site, runtime: &Runtime) -> anyhow::Result<()> {
    let mut made = Vec::new();
    let gone = path(walk, site, runtime, &mut made);
    let cleared = walk.step("everything that was made is deleted", || {
        for (who, path) in made.iter().rev() {
            let (status, answer) = site.client.send(*who, "DELETE", path, None, &[])?;
            ensure!(matches!(status, 204 | 404), "DELETE {path} answered {status}: {answer}");
        }
        Ok(())
    });
    gone.and(cleared)
}

/// What has to be deleted, and by whom.
type Made = Vec<(super::client::Who, String)>;

fn path(walk: &mut Walk, site: &Site, runtime: &Runtime, made: &mut Made) -> anyhow::Result<()> {
    let client = &site.client;
    walk.step("a profile is made", || {
        let body = json!({ "displayName": "通りすがりの料理人" });
        let (status, answer) = client.send(Cook, "POST", "/profile", Some(body), &[])?;
        // The user of a token that was given may have one.
        ensure!(matches!(status, 201 | 409), "POST /profile answered {status}: {answer}");
        if status == 201 {
            made.push((Cook, "/profile".to_owned()));
        }
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
    walk.step("others do not see it", || {
        client.ask(Visitor, "GET", &format!("/recipes/{id}"), None, 401)?;
        let other = if client.is_one() { 200 } else { 404 };
        client.ask(Guest, "GET", &format!("/recipes/{id}"), None, other)
    })?;
    planning(walk, site, &id, made)?;
    kitchen(walk, site, made)?;
    catalog(walk, site, &id, made)?;
    sharing(walk, site, &id, made)?;
    paying(walk, site, made)
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
        let (status, answer) = client.send(Cook, "POST", "/notification-settings", Some(json!({})), &[])?;
        ensure!(matches!(status, 201 | 409), "POST /notification-settings answered {status}: {answer}");
        if status == 201 {
            made.push((Cook, "/notification-settings".to_owned()));
        }
        let body = json!({ "platform": "web", "token": "smoke-device" });
        let (status, answer) = client.send(Cook, "POST", "/push-tokens", Some(body), &[])?;
        ensure!(matches!(status, 200 | 201), "POST /push-tokens answered {status}: {answer}");
        made.push((Cook, format!("/push-tokens/web/{}", text(&answer["data"], "tokenHash")?)));
        Ok(())
    })
}

/// What everybody sees.
fn catalog(walk: &mut Walk, site: &Site, recipe: &str, made: &mut Made) -> anyhow::Result<()> {
    let client = &site.client;
    let detail = format!("/catalog/recipes/{recipe}");
    walk.step("the recipe is published, and read without a token", || {
        client.ask(Cook, "POST", &format!("/recipes/{recipe}/publish"), Some(json!({})), 200)?;
        let newest = client.until(Visitor, "/catalog/recipes", |list| has(list, recipe))?;
        let creator = newest.as_array().into_iter().flatten().find(|each| each["recipeId"] == recipe);
        let creator = text(creator.unwrap_or(&Json::Null), "creatorId")?.to_owned();
        client.until(Visitor, &format!("/catalog/creators/{creator}/recipes"), |list| has(list, recipe))?;
        client.get(Visitor, &detail)
    })?;
    walk.step("it is found by search", || {
        client.until(Visitor, "/catalog/recipes?q=肉じゃが&limit=100", |list| has(list, recipe))?;
        client.until(Cook, "/recipes?q=じゃがいも", |list| has(list, recipe))
    })?;
    walk.step("it is saved twice and counted once", || {
        let save = format!("{detail}/save");
        made.push((Guest, save.clone()));
        client.ask(Guest, "PUT", &save, None, 200)?;
        client.ask(Guest, "PUT", &save, None, 200)?;
        let counted = |count: u64| {
            let popular = move |list: &Json| {
                list.as_array()
                    .is_some_and(|all| all.iter().any(|e| e["recipeId"] == recipe && e["savedCount"] == count))
            };
            client.until(Visitor, "/catalog/recipes/popular?limit=1000", popular)
        };
        counted(1)?;
        client.ask(Guest, "DELETE", &save, None, 204)?;
        counted(0).map(drop)
    })
}

/// Links that somebody without a token follows.
fn sharing(walk: &mut Walk, site: &Site, recipe: &str, made: &mut Made) -> anyhow::Result<()> {
    let client = &site.client;
    walk.step("a link is shared, followed without a token, and revoked", || {
        let body = json!({ "targetType": "RECIPE", "targetId": recipe });
        let share = client.ask(Cook, "POST", "/shares", Some(body), 201)?;
        let link = format!("/shares/{}", text(&share, "shareId")?);
        made.push((Cook, link.clone()));
        let shown = client.get(Visitor, &link)?;
        ensure!(shown["target"]["title"] == "肉じゃが", "the link shows {shown}");
        client.ask(Cook, "DELETE", &link, None, 204)?;
        client.ask(Visitor, "GET", &link, None, 404)
    })?;
    walk.step("the recipe is withdrawn", || {
        client.ask(Cook, "POST", &format!("/recipes/{recipe}/withdraw"), None, 204)?;
        client.until(Visitor, "/catalog/recipes", |list| !has(list, recipe))
    })?;
    Ok(())
}

/// Payments and what is told about them.
fn paying(walk: &mut Walk, site: &Site, made: &mut Made) -> anyhow::Result<()> {
    let client = &site.client;
    walk.step("a way to pay is added, and a card number refused", || {
        let number = json!({ "token": "4242 4242 4242 4242" });
        client.ask(Cook, "POST", "/payment-methods", Some(number), 422)?;
        let method = client.ask(Cook, "POST", "/payment-methods", Some(json!({ "token": "tok_visa" })), 201)?;
        made.push((Cook, format!("/payment-methods/{}", text(&method, "paymentMethodId")?)));
        ensure!(!method.to_string().contains("tok_visa"), "the token is given back: {method}");
        Ok(())
    })?;
    walk.step("purchases, subscription and notifications are read", || {
        client.get(Cook, "/purchases")?;
        let (status, answer) = client.send(Cook, "GET", "/subscription", None, &[])?;
        ensure!(matches!(status, 200 | 404), "GET /subscription answered {status}: {answer}");
        client.get(Cook, "/notifications")?;
        client.ask(Cook, "POST", "/notifications/read", None, 200)
    })?;
    Ok(())
}

fn text<'j>(value: &'j Json, name: &str) -> anyhow::Result<&'j str> {
    value[name].as_str().with_context(|| format!("`{name}` is missing in {value}"))
}

/// Whether a list has a recipe.
fn has(list: &Json, recipe: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|each| each["recipeId"] == recipe))
}
