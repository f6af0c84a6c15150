//! Invitations: a person becomes a member of a tenant by accepting, not by being named as a user.
//!
//! A tenant's admin creates the user, who is `invited`, and a token with the purpose `invitation` and the hash of a secret.
//! The invited person gets the ids and the secret with the invitation, and accepts with a token of their own.

use std::sync::Arc;

use nagaya_server::{Answer, Call, Problem, request_body};
use nagaya_tenancy::Expected;
use serde_json::{Map, json};
use sha2::{Digest as _, Sha256};

use crate::{extension::AppState, tenant_status::is_enabled};

request_body! {
    /// The body of an acceptance: what the invitation says besides its id.
    pub(crate) struct Acceptance of "token" {
        tenant_id: String = "tenantId",
        secret: String = "secret" as "tokenHash",
    }
}

/// Makes the caller a member of the tenant that has invited them: 200 with their user record.
///
/// Whatever is wrong, the answer is 404: it tells nobody which tenants, users or invitations exist.
pub(crate) async fn accept(_: Arc<AppState>, call: Arc<Call>) -> Result<Answer, Problem> {
    let acceptance: Acceptance = call.parse_body()?;
    let id = [call.path_parameter("tokenId").ok_or_else(Problem::not_found)?];
    let user = [&*call.caller.user];
    // The invitation names the tenant. The handle reads nothing but what concerns the invitation.
    let tenant = call.on_behalf_of(&acceptance.tenant_id).map_err(|_| Problem::not_found())?;

    // There are such an invitation and such a user, and the tenant is enabled.
    let found = tenant.get_many(&[("token", &id), ("user", &user), ("tenant", &[])]).await?;
    let [Some(invitation), Some(_), tenant_item] = found.as_slice() else { return Err(Problem::not_found()) };
    if !is_enabled(tenant_item.as_ref()) {
        return Err(Problem::not_found());
    }
    // It is an invitation of the caller, who knows its secret.
    if invitation.text("purpose") != Some("invitation") || invitation.text("userId") != Some(user[0]) {
        return Err(Problem::not_found());
    }
    if !tenant.verify_secret("token", &id, "tokenHash", |hash| is_hash_of(hash, &acceptance.secret)).await? {
        return Err(Problem::not_found());
    }

    // The invitation is used up in the same write, so that it is accepted once.
    let accepted = Map::from_iter([("status".to_owned(), json!("active"))]);
    let set = tenant.change_set().update("user", &user, accepted, Expected::Any).delete("token", &id, Expected::Any);
    let member = set.commit().await?.into_iter().next().flatten().ok_or_else(Problem::internal)?;
    Ok(Answer::record(member))
}

/// Whether a text is the SHA-256 hash of a secret in hexadecimal digits.
fn is_hash_of(hash: &str, secret: &str) -> bool {
    let digest = Sha256::digest(secret).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    // The hash of a guess tells nothing about the secret, so the time of the comparison does not either.
    hash.eq_ignore_ascii_case(&digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_its_sha256_hash_in_hexadecimal_digits() {
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(is_hash_of(hash, "abc") && is_hash_of(&hash.to_uppercase(), "abc"));
        assert!(!is_hash_of(hash, "abd") && !is_hash_of("", "") && !is_hash_of("abc", "abc"));
    }
}
