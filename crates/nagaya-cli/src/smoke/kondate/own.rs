//! What the users of a walk have before it, and what it leaves.

use anyhow::{bail, ensure};

use super::super::client::{
    Client,
    Who::{self, Cook, Guest},
};

/// What a user has one of.
const SINGLE: [&str; 2] = ["/profile", "/notification-settings"];
/// What a user has many of.
const MANY: [&str; 11] = [
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
/// What comes of other things, and has to be looked for.
const BESIDES: [(&str, [&str; 2]); 2] =
    [("/fridge-deleted-items", ["deletedAt", "itemId"]), ("/notifications", ["createdAt", "notificationId"])];

/// Refuses users that have something: the walk would replace, mark or delete it.
pub(super) fn nothing(client: &Client) -> anyhow::Result<()> {
    for who in people(client) {
        for path in MANY {
            let list = client.get(*who, path)?;
            ensure!(list.as_array().is_some_and(Vec::is_empty), "{}", refusal(path));
        }
        for path in SINGLE {
            let (status, answer) = client.send(*who, "GET", path, None, &[])?;
            ensure!(status != 200, "{}", refusal(path));
            ensure!(status == 404, "GET {path} answered {status}: {answer}");
        }
        // A subscription cannot be deleted: that of a walk before is there, and ends.
        match client.send(*who, "GET", "/subscription", None, &[])? {
            (404, _) => {}
            (200, answer) => {
                let subscription = &answer["data"];
                let ends = subscription["cancelAtPeriodEnd"] == true || subscription["status"] == "canceled";
                ensure!(ends && subscription["plan"] == "standard", "{}", refusal("/subscription"));
            }
            (status, answer) => bail!("GET /subscription answered {status}: {answer}"),
        }
    }
    Ok(())
}

fn refusal(path: &str) -> String {
    format!("the user of the token has data of its own ({path}): use one made for this; nothing was touched")
}

/// Deletes what was made, last first, and what came of it. Purchases and the subscription stay: they are never deleted.
pub(super) fn clear(client: &Client, made: &super::Made) -> anyhow::Result<()> {
    for (who, path) in made.iter().rev() {
        let (status, answer) = client.send(*who, "DELETE", path, None, &[])?;
        // The card stays for as long as the subscription that is paid with it.
        let in_use = status == 409 && path.starts_with("/payment-methods/");
        ensure!(matches!(status, 204 | 404) || in_use, "DELETE {path} answered {status}: {answer}");
    }
    for who in people(client) {
        for (path, key) in BESIDES {
            for item in client.get(*who, path)?.as_array().into_iter().flatten() {
                let [at, id] = key.map(|field| item[field].as_str().unwrap_or_default());
                client.ask(*who, "DELETE", &format!("{path}/{at}/{id}"), None, 204)?;
            }
        }
    }
    Ok(())
}

fn people(client: &Client) -> &'static [Who] {
    if client.is_one() { &[Cook] } else { &[Cook, Guest] }
}
