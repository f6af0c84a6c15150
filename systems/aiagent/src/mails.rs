//! Mails: each belongs to the user whose mailbox it is in.

use nagaya_server::{Call, Problem};
use nagaya_tenancy::{Error, ErrorKind};
use serde_json::Value as Json;

/// Gives a new mail the owner of its mailbox. Refuses one in a mailbox that the caller does not see: creating it would tell
/// whether the mailbox already has the mail.
pub(crate) async fn set_owner(call: &mut Call) -> Result<(), Problem> {
    // A body without a valid mailbox is refused with its other errors.
    let Some(account) = call.body.get("accountId").and_then(Json::as_str) else { return Ok(()) };
    let found = call.tenant()?.get_many(&[("email_account", &[account])]).await?.into_iter().next().flatten();
    let owner = found.as_ref().and_then(|account| account.text("userId")).map(Json::from);
    let unknown = || ErrorKind::NoReference { field: "accountId".to_owned(), entity: "email_account".to_owned() };
    call.body.insert("userId".to_owned(), owner.ok_or_else(|| Problem::from(Error::from(unknown())))?);
    Ok(())
}
