//! What others see or what costs money: catalog, links, payments.

use serde_json::{Value as Json, json};

use super::{Cook, Created, Guest, SmokeClient, SmokeError, SmokeReport, Visitor, ensure, step_with_two_users, text};

/// The public catalog.
pub(super) fn check_catalog(
    report: &mut SmokeReport,
    client: &SmokeClient,
    recipe: &str,
    created: &mut Created,
) -> Result<(), SmokeError> {
    let detail = format!("/catalog/recipes/{recipe}");
    let creator = report.step("the recipe is published, and read without a token", || {
        client.request(Cook, "POST", &format!("/recipes/{recipe}/publish"), Some(json!({})), 200)?;
        let newest = client.get_until(Visitor, "/catalog/recipes", |list| has(list, recipe))?;
        let creator = newest.as_array().into_iter().flatten().find(|each| each["recipeId"] == recipe);
        let creator = text(creator.unwrap_or(&Json::Null), "creatorId")?.to_owned();
        client.get_until(Visitor, &format!("/catalog/creators/{creator}/recipes"), |list| has(list, recipe))?;
        client.get(Visitor, &detail)?;
        Ok(creator)
    })?;
    report.step("it is found by search", || {
        client.get_until(Visitor, "/catalog/recipes?q=肉じゃが&limit=100", |list| has(list, recipe))?;
        client.get_until(Cook, "/recipes?q=じゃがいも", |list| has(list, recipe))
    })?;
    report.step("it is saved twice and counted once", || {
        let save = format!("{detail}/save");
        created.push((Guest, save.clone()));
        client.request(Guest, "PUT", &save, None, 200)?;
        client.request(Guest, "PUT", &save, None, 200)?;
        let page = format!("/creator-recipes?creatorId={creator}");
        let counted = |count: u64| {
            let shown = |each: &Json| each["recipeId"] == recipe && each["savedCount"] == count;
            client.get_until(Visitor, &page, |list| list.as_array().is_some_and(|all| all.iter().any(shown)))
        };
        counted(1)?;
        client.request(Guest, "DELETE", &save, None, 204)?;
        counted(0)
    })?;
    step_with_two_users(report, client, "it is bought; a repeated request with the same key charges once", || {
        let body = json!({ "targetType": "RECIPE", "targetId": recipe });
        let key = format!("smoke-{recipe}");
        let buy = || -> Result<Json, SmokeError> {
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

/// Links that open without a token.
pub(super) fn check_sharing(
    report: &mut SmokeReport,
    client: &SmokeClient,
    recipe: &str,
    created: &mut Created,
) -> Result<(), SmokeError> {
    report.step("a link is shared, followed without a token, and revoked", || {
        let body = json!({ "targetType": "RECIPE", "targetId": recipe });
        let share = client.request(Cook, "POST", "/shares", Some(body), 201)?;
        let link = format!("/shares/{}", text(&share, "shareId")?);
        created.push((Cook, link.clone()));
        let shown = client.get(Visitor, &link)?;
        ensure!(shown["target"]["title"] == "肉じゃが", "the link shows {shown}");
        client.request(Cook, "DELETE", &link, None, 204)?;
        client.request(Visitor, "GET", &link, None, 404)
    })?;
    report.step("the recipe is withdrawn", || {
        client.request(Cook, "POST", &format!("/recipes/{recipe}/withdraw"), None, 204)?;
        client.get_until(Visitor, "/catalog/recipes", |list| !has(list, recipe))
    })?;
    Ok(())
}

/// Payments and the notifications about them.
pub(super) fn check_payments(
    report: &mut SmokeReport,
    client: &SmokeClient,
    created: &mut Created,
) -> Result<(), SmokeError> {
    report.step("a payment method is added, and a card number is refused", || {
        let number = json!({ "token": "4242 4242 4242 4242" });
        client.request(Cook, "POST", "/payment-methods", Some(number), 422)?;
        let (status, answer) =
            client.send(Cook, "POST", "/payment-methods", Some(json!({ "token": "tok_visa" })), &[])?;
        // It exists if the subscription of an earlier test is paid with it.
        ensure!(matches!(status, 200 | 201), "POST /payment-methods answered {status}: {answer}");
        created.push((Cook, format!("/payment-methods/{}", text(&answer["data"], "paymentMethodId")?)));
        ensure!(!answer.to_string().contains("tok_visa"), "the token is given back: {answer}");
        Ok(())
    })?;
    report.step("a subscription is started, and canceled", || {
        let plan = first_plan(client)?;
        let body = json!({ "plan": plan });
        let (status, answer) = client.send(Cook, "POST", "/subscription", Some(body), &[])?;
        match status {
            201 => {}
            // That of an earlier test runs until the end of its period.
            409 => drop(client.request(Cook, "POST", "/subscription/resume", None, 200)?),
            _ => return Err(format!("POST /subscription answered {status}: {answer}").into()),
        }
        let running = client.get(Cook, "/subscription")?;
        ensure!(running["plan"] == plan && running["cancelAtPeriodEnd"] == false, "it is {running}");
        let canceled = client.request(Cook, "POST", "/subscription/cancel", None, 200)?;
        ensure!(canceled["cancelAtPeriodEnd"] == true, "the subscription is {canceled}");
        Ok(())
    })?;
    report.step("notifications about it are listed and marked as read", || {
        let told = client.get(Cook, "/notifications")?;
        ensure!(told.to_string().contains("subscription_ending"), "the notifications are {told}");
        let read = client.request(Cook, "POST", "/notifications/read", None, 200)?;
        ensure!(read["read"].as_u64() > Some(0), "what was read is {read}");
        Ok(())
    })
}

/// The first plan that the server offers.
pub(super) fn first_plan(client: &SmokeClient) -> Result<Json, SmokeError> {
    let plans = client.get(Visitor, "/subscription/plans")?;
    ensure!(plans[0]["name"].is_string(), "no plans are offered: {plans}");
    Ok(plans[0]["name"].clone())
}

/// Whether a list has a recipe.
fn has(list: &Json, recipe: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|each| each["recipeId"] == recipe))
}
