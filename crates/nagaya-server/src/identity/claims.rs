//! The claims of a verified token.

use std::sync::Arc;

use nagaya_design::Design;
use serde_json::{Map, Value as Json};

use super::{
    Caller,
    token::{bad_token, missing_claim},
};
use crate::{Problem, ProblemCode};

/// The claims that a design names.
///
/// A name is that of a claim (`custom:familyId`), or the path to a nested one (`realm_access.roles`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The claim with the tenant.
    pub tenant: String,
    /// The claim with the roles.
    pub roles: String,
    /// The claim with all tenants that the user belongs to.
    pub member_of: Option<String>,
    /// The claim with the roles of operators, which count in tokens without a tenant. In `roles` they count for nothing.
    pub operator: String,
    /// The names of the operators' roles: the local issuer writes them into the claim `operator`.
    pub operator_roles: Vec<String>,
}

impl Claims {
    /// The claims that a design names.
    pub fn from_design(design: &Design) -> Self {
        let tenant = &design.tenant;
        Claims {
            tenant: tenant.claim.clone(),
            roles: tenant.roles.clone(),
            member_of: tenant.member_of.clone(),
            operator: tenant.operator.clone(),
            operator_roles: design.operator_roles().into_iter().map(str::to_owned).collect(),
        }
    }

    /// The caller that verified claims of an issuer name.
    pub(super) fn caller(
        &self,
        claims: &Map<String, Json>,
        issuer: &Arc<str>,
        validity: Validity,
    ) -> Result<Caller, Problem> {
        let user = text(claims, "sub")?.ok_or_else(|| missing_claim("sub"))?;
        let roles = roles_in(claims, &self.roles)?;
        let operator_roles = roles_in(claims, &self.operator)?;
        let tenant = match text(claims, &self.tenant)? {
            // Where each user is a tenant, every token names one. That of an operator is for no tenant.
            Some(_) if self.tenant == "sub" && !operator_roles.is_empty() => None,
            tenant => tenant,
        };
        if let (Some(name), Some(tenant)) = (&self.member_of, tenant.as_deref()) {
            let tenants = find(claims, name).and_then(texts).ok_or_else(|| missing_claim(name))?;
            if !tenants.iter().any(|each| each == tenant) {
                let detail = "The user of the token does not belong to its tenant.";
                return Err(Problem::from_code(ProblemCode::NOT_A_MEMBER, detail));
            }
        }
        let Validity { expires, issued } = validity;
        Ok(Caller {
            user: user.into(),
            issuer: Arc::clone(issuer),
            tenant: tenant.map(Into::into),
            roles: roles.into(),
            operator_roles: operator_roles.into(),
            expires,
            issued,
            token_id: claims.get("jti").and_then(Json::as_str).map(Into::into),
        })
    }
}

/// The roles in a claim.
fn roles_in(claims: &Map<String, Json>, name: &str) -> Result<Vec<String>, Problem> {
    match find(claims, name) {
        None => Ok(Vec::new()),
        // The format of the claim `scope`.
        Some(Json::String(roles)) => Ok(roles.split_whitespace().map(str::to_owned).collect()),
        Some(roles) => texts(roles).ok_or_else(|| missing_claim(name)),
    }
}

/// Refuses a token that is for none of these audiences.
///
/// Access tokens of Amazon Cognito have the audience in `client_id`.
pub(super) fn check_audience(claims: &Map<String, Json>, audiences: &[String]) -> Result<(), Problem> {
    let audience = match claims.get("aud") {
        None if claims.get("token_use").and_then(Json::as_str) == Some("access") => claims.get("client_id"),
        audience => audience,
    };
    let audience = audience.and_then(texts).ok_or_else(|| missing_claim("aud"))?;
    if audience.iter().any(|each| audiences.contains(each)) {
        return Ok(());
    }
    Err(bad_token(format!("The token is for another audience than `{}`.", audiences.join("` or `"))))
}

/// When a token was issued, if it says so, and when it expires, in seconds since 1970.
pub(super) struct Validity {
    pub(super) issued: Option<i64>,
    pub(super) expires: i64,
}

/// The validity of a token; an error outside it. Clocks may differ by `skew` seconds. With a maximum age, a token has to say
/// when it was issued.
pub(super) fn check_time(
    claims: &Map<String, Json>,
    now: i64,
    skew: i64,
    max_age: Option<i64>,
) -> Result<Validity, Problem> {
    let expires = claims.get("exp").and_then(seconds).ok_or_else(|| missing_claim("exp"))?;
    if now >= expires.saturating_add(skew) {
        return Err(bad_token("The token has expired."));
    }
    if let Some(begins) = claims.get("nbf") {
        let begins = seconds(begins).ok_or_else(|| missing_claim("nbf"))?;
        if now < begins.saturating_sub(skew) {
            return Err(bad_token("The token is not valid yet."));
        }
    }
    let issued = match claims.get("iat") {
        None if max_age.is_none() => return Ok(Validity { issued: None, expires }),
        issued => issued.and_then(seconds).ok_or_else(|| missing_claim("iat"))?,
    };
    if issued > now.saturating_add(skew) {
        return Err(bad_token("The token was issued in the future, as its claim `iat` says."));
    }
    // A token that has not expired and lives no longer than this is no older either.
    if let Some(max_age) = max_age
        && expires.saturating_sub(issued) > max_age
    {
        return Err(bad_token(format!(
            "The token is valid for longer than is accepted here: from `iat` to `exp` at most {max_age} seconds."
        )));
    }
    Ok(Validity { issued: Some(issued), expires })
}

/// A claim by its name, else by its path.
fn find<'c>(claims: &'c Map<String, Json>, name: &str) -> Option<&'c Json> {
    if let Some(found) = claims.get(name) {
        return Some(found);
    }
    let mut steps = name.split('.');
    let first = claims.get(steps.next()?)?;
    steps.try_fold(first, |found, step| found.get(step))
}

/// A claim that is a non-empty string; `None` if it is absent. A claim of another type is an error, not absent.
fn text(claims: &Map<String, Json>, name: &str) -> Result<Option<String>, Problem> {
    match find(claims, name) {
        None => Ok(None),
        Some(Json::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(_) => Err(missing_claim(name)),
    }
}

/// One string, or a list of strings.
fn texts(value: &Json) -> Option<Vec<String>> {
    match value {
        Json::String(text) => Some(vec![text.clone()]),
        Json::Array(texts) => texts.iter().map(|text| text.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// Seconds since 1970, with decimals or without (RFC 7519, 2).
fn seconds(value: &Json) -> Option<i64> {
    // A float that is too large becomes the largest second.
    value.as_i64().or_else(|| value.as_f64().filter(|seconds| seconds.is_finite()).map(|seconds| seconds as i64))
}
