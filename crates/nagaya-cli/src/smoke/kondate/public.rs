//! The part of the path that others see or that costs money: catalog, links, payments.

use anyhow::{bail, ensure};
use serde_json::{Value as Json, json};

use super::{
    super::{
        client::{
            Client,
            Who::{Cook, Guest, Visitor},
        },
        walk::Walk,
    },
    Made, if_two, text,
};

/// What everybody sees.
pub(super) fn catalog(walk: &mut Walk, client: &Client, recipe: &str, made: &mut Made) -> anyhow::Result<()> {
    let detail = format!("/catalog/recipes/{recipe}");
    let creator = walk.step("the recipe is published, and read without a token", || {
        client.ask(Cook, "POST", &format!("/recipes/{recipe}/publish"), Some(json!({})), 200)?;
        let newest = client.until(Visitor, "/catalog/recipes", |list| has(list, recipe))?;
        let creator = newest.as_array().into_iter().flatten().find(|each| each["recipeId"] == recipe);
        let creator = text(creator.unwrap_or(&Json::Null), "creatorId")?.to_owned();
        client.until(Visitor, &format!("/catalog/creators/{creator}/recipes"), |list| has(list, recipe))?;
        client.get(Visitor, &detail)?;
        Ok(creator)
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
        let page = format!("/creator-recipes?creatorId={creator}");
        let counted = |count: u64| {
            let shown = |each: &Json| each["recipeId"] == recipe && each["savedCount"] == count;
            client.until(Visitor, &page, |list| list.as_array().is_some_and(|all| all.iter().any(shown)))
        };
        counted(1)?;
        client.ask(Guest, "DELETE", &save, None, 204)?;
        counted(0)
    })?;
    if_two(walk, client, "it is bought, under one key once", || {
        let body = json!({ "targetType": "RECIPE", "targetId": recipe });
        let key = format!("smoke-{recipe}");
        let buy = || {
            let (status, answer) =
                client.send(Guest, "POST", "/purchases", Some(body.clone()), &[("idempotency-key", &key)])?;
            ensure!(status == 201, "POST /purchases answered {status}: {answer}");
            Ok(answer["data"].clone())
        };
        let bought = buy()?;
        ensure!(bought["targetId"] == recipe && bought["status"] == "paid", "what was bought is {bought}");
        ensure!(buy()? == bought, "the same key buys something else than {bought}");
        let purchases = client.get(Guest, "/purchases")?;
        ensure!(purchases == json!([bought]), "what was bought is {purchases}");
        Ok(())
    })
}

/// Links that somebody without a token follows.
pub(super) fn sharing(walk: &mut Walk, client: &Client, recipe: &str, made: &mut Made) -> anyhow::Result<()> {
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
pub(super) fn paying(walk: &mut Walk, client: &Client, made: &mut Made) -> anyhow::Result<()> {
    walk.step("a way to pay is added, and a card number refused", || {
        let number = json!({ "token": "4242 4242 4242 4242" });
        client.ask(Cook, "POST", "/payment-methods", Some(number), 422)?;
        let (status, answer) =
            client.send(Cook, "POST", "/payment-methods", Some(json!({ "token": "tok_visa" })), &[])?;
        // It is there if the subscription of a walk before is paid with it.
        ensure!(matches!(status, 200 | 201), "POST /payment-methods answered {status}: {answer}");
        made.push((Cook, format!("/payment-methods/{}", text(&answer["data"], "paymentMethodId")?)));
        ensure!(!answer.to_string().contains("tok_visa"), "the token is given back: {answer}");
        Ok(())
    })?;
    walk.step("a subscription is started, and canceled", || {
        let body = json!({ "plan": "standard" });
        let (status, answer) = client.send(Cook, "POST", "/subscription", Some(body), &[])?;
        match status {
            201 => {}
            // That of a walk before runs until the end of its period.
            409 => drop(client.ask(Cook, "POST", "/subscription/resume", None, 200)?),
            _ => bail!("POST /subscription answered {status}: {answer}"),
        }
        let running = client.get(Cook, "/subscription")?;
        ensure!(running["plan"] == "standard" && running["cancelAtPeriodEnd"] == false, "it is {running}");
        let canceled = client.ask(Cook, "POST", "/subscription/cancel", None, 200)?;
        ensure!(canceled["cancelAtPeriodEnd"] == true, "the subscription is {canceled}");
        Ok(())
    })?;
    walk.step("it is told in notifications, which are read", || {
        let told = client.get(Cook, "/notifications")?;
        ensure!(told.to_string().contains("subscription_ending"), "what is told is {told}");
        let read = client.ask(Cook, "POST", "/notifications/read", None, 200)?;
        ensure!(read["read"].as_u64() > Some(0), "what was read is {read}");
        Ok(())
    })
}

/// Whether a list has a recipe.
fn has(list: &Json, recipe: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|each| each["recipeId"] == recipe))
}
