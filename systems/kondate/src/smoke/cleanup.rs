//! Before and after the test: users without data, and deleting what it has created.

use super::{Cook, Guest, SmokeClient, SmokeError, SmokeUser, ensure, public::first_plan};

/// What a user has one of.
const SINGLETON_PATHS: [&str; 2] = ["/profile", "/notification-settings"];
/// What a user has many of.
const LISTS_TO_CLEAR: [&str; 11] = [
    "/plans",
    "/recipes",
    "/sets",
    "/shopping-items",
    "/fridge-items",
    "/fridge-deleted-items",
    "/cooklogs-between",
    "/saved-recipes",
    "/saved-sets",
    "/shares",
    "/notifications",
];
/// Lists of items that the product creates itself, and their keys.
const DERIVED_LISTS: [(&str, [&str; 2]); 2] =
    [("/fridge-deleted-items", ["deletedAt", "itemId"]), ("/notifications", ["createdAt", "notificationId"])];

/// Refuses users that have data: the test would replace, mark or delete it.
pub(super) fn ensure_empty(client: &SmokeClient) -> Result<(), SmokeError> {
    for user in users(client) {
        for path in LISTS_TO_CLEAR {
            let list = client.get(*user, path)?;
            ensure!(list.as_array().is_some_and(Vec::is_empty), "{}", refusal(path));
        }
        for path in SINGLETON_PATHS {
            let (status, answer) = client.send(*user, "GET", path, None, &[])?;
            ensure!(status != 200, "{}", refusal(path));
            ensure!(status == 404, "GET {path} answered {status}: {answer}");
        }
        // A subscription cannot be deleted: that of an earlier test is there, canceled.
        match client.send(*user, "GET", "/subscription", None, &[])? {
            (404, _) => {}
            (200, answer) => {
                let subscription = &answer["data"];
                let ends = subscription["cancelAtPeriodEnd"] == true || subscription["status"] == "canceled";
                ensure!(ends && subscription["plan"] == first_plan(client)?, "{}", refusal("/subscription"));
            }
            (status, answer) => return Err(format!("GET /subscription answered {status}: {answer}").into()),
        }
    }
    Ok(())
}

fn refusal(path: &str) -> String {
    format!("the user of the token has data ({path}): use a user made for this; nothing was changed")
}

/// Deletes what was created, last first, and what was derived from it. Purchases and the subscription are never deleted.
pub(super) fn clear(client: &SmokeClient, created: &super::Created) -> Result<(), SmokeError> {
    for (user, path) in created.iter().rev() {
        let (status, answer) = client.send(*user, "DELETE", path, None, &[])?;
        // The card stays for as long as the subscription that is paid with it.
        let in_use = status == 409 && path.starts_with("/payment-methods/");
        ensure!(matches!(status, 204 | 404) || in_use, "DELETE {path} answered {status}: {answer}");
    }
    for user in users(client) {
        for (path, key) in DERIVED_LISTS {
            for item in client.get(*user, path)?.as_array().into_iter().flatten() {
                let [at, id] = key.map(|field| item[field].as_str().unwrap_or_default());
                client.request(*user, "DELETE", &format!("{path}/{at}/{id}"), None, 204)?;
            }
        }
    }
    Ok(())
}

fn users(client: &SmokeClient) -> &'static [SmokeUser] {
    if client.has_one_user() { &[Cook] } else { &[Cook, Guest] }
}
