//! Lists of a caller's own items across tenants.

use nagaya_design::Wall;

use super::{List, Page};
use crate::{Error, ErrorKind, Nagaya, Principal, session::Session};

impl Nagaya {
    /// A page of the caller's own items in all tenants: those whose `field` holds the user id of the principal. For a sign-in, before
    /// the token names a tenant.
    ///
    /// The access pattern has to be behind a system wall, and its partition has to be this field alone. The value comes from the
    /// principal; a list that gives it is refused. Nobody reads anybody else's items, so it is no action of an operator, and the
    /// operator log has no entry about it.
    ///
    /// Items hold a user id without its issuer, here as in `owner` of an entity: principals have to come from one issuer, as those of
    /// a server do.
    pub async fn list_own(&self, principal: &Principal, field: &str, list: &List) -> Result<Page, Error> {
        let state = self.state();
        let design = &state.design;
        let access =
            design.access_pattern(&list.access).ok_or_else(|| ErrorKind::NoAccessPattern(list.access.clone()))?;
        let (_, key) = design.key_of_access(access);
        if design.wall_of(access) != Wall::System || !key.partition.fields().eq([field]) {
            return Err(ErrorKind::Walled(access.name.clone()).into());
        }
        if list.parameters.iter().any(|(name, _)| name == field) {
            return Err(Error::problem(field, "comes from the token; leave it out"));
        }
        // A visitor has no token, and owns nothing.
        if principal.user.is_empty() {
            return Ok(Page { records: Vec::new(), next: None, count: None });
        }
        let session = Session::unaudited_operator(self.state(), principal.clone());
        let list = list.clone().with(field, &*principal.user);
        let page = session.list(&list).await?;
        // The query asked for the user's items only. If the store returns another one, something wrote around the walls.
        let compiled = state.compiled(&design.entities[access.entity].name)?;
        match page.records.iter().find(|record| record.text(field) != Some(&principal.user)) {
            None => Ok(page),
            Some(foreign) => Err(state.breach(compiled, foreign.item())),
        }
    }
}
