//! The claims of a verified token.

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
}

impl Claims {
    /// The claims that a design names.
    pub fn from_design(design: &Design) -> Self {
        let tenant = &design.tenant;
        Claims { tenant: tenant.claim.clone(), roles: tenant.roles.clone(), member_of: tenant.member_of.clone() }
    }

    /// The caller that verified claims name.
    pub(super) fn caller(&self, claims: &Map<String, Json>, expires: i64) -> Result<Caller, Problem> {
        let user = text(claims, "sub")?.ok_or_else(|| missing_claim("sub"))?;
        let tenant = text(claims, &self.tenant)?;
        let roles = match find(claims, &self.roles) {
            None => Vec::new(),
            // The format of the claim `scope`.
            Some(Json::String(roles)) => roles.split_whitespace().map(str::to_owned).collect(),
            Some(roles) => texts(roles).ok_or_else(|| missing_claim(&self.roles))?,
        };
        if let (Some(name), Some(tenant)) = (&self.member_of, tenant.as_deref())
            && let Some(tenants) = find(claims, name)
        {
            let tenants = texts(tenants).ok_or_else(|| missing_claim(name))?;
            if !tenants.iter().any(|each| each == tenant) {
                let detail = "The user of the token does not belong to its tenant.";
                return Err(Problem::from_code(ProblemCode::NOT_A_MEMBER, detail));
            }
        }
        Ok(Caller { user: user.into(), tenant: tenant.map(Into::into), roles: roles.into(), expires })
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

/// The second at which the token expires; an error outside its validity. Clocks may differ by `skew` seconds.
pub(super) fn check_time(claims: &Map<String, Json>, now: i64, skew: i64) -> Result<i64, Problem> {
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
    Ok(expires)
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
