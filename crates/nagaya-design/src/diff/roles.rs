//! Who may do what, and how tokens say who somebody is.

use super::{CALLERS, Differences};
use crate::{
    design::Design,
    role::{Permission, Role, Verb},
};

const LOST: &str = "who has it may do less than before";

impl Differences {
    /// The claims beside the tenant's own.
    pub(super) fn claims(&mut self, old: &Design, new: &Design) {
        let (before, after) = (&old.tenant, &new.tenant);
        let unknown = Some("tokens of the old design carry no roles");
        self.changed("tenant", "the claim of the roles", &before.roles, &after.roles, unknown);
        let text = |claim: &Option<String>| claim.clone().unwrap_or_default();
        let unchecked = before.member_of.as_ref().map(|_| "the memberships of old tokens are not looked at");
        let (before, after) = (text(&before.member_of), text(&after.member_of));
        self.changed("tenant", "the claim of the memberships", &before, &after, unchecked);
    }

    pub(super) fn roles(&mut self, old: &Design, new: &Design) {
        // Without roles everybody may do everything; with the first one, only who has one.
        if old.roles.is_empty() && !new.roles.is_empty() {
            self.add("role", "nobody may do anything without a role any more", Some(CALLERS));
        }
        for (path, before, after) in self.named("role", &old.roles, &new.roles, |role| &role.name, LOST) {
            self.described(&path, &before.description, &after.description);
            let (was, is) = (before.operator, after.operator);
            self.flag(&path, "acting for the system", was, is, was.then_some(LOST));
            let (had, has) = (permissions(before), permissions(after));
            for gone in had.iter().filter(|each| !has.contains(each)) {
                // Something wider may have taken its place.
                let lost = old.entities.iter().any(|entity| {
                    let loses = |verb: &Verb| gone.covers(&entity.name, *verb) && !after.permits(&entity.name, *verb);
                    Verb::ALL.iter().any(loses)
                });
                self.add(&path, format!("the permission `{gone}` is gone"), lost.then_some(LOST));
            }
            for come in has.iter().filter(|each| !had.contains(each)) {
                self.add(&path, format!("the permission `{come}` is new"), None);
            }
        }
    }
}

/// What a role permits, said or not.
fn permissions(role: &Role) -> Vec<Permission> {
    if role.is_unlimited() { vec![Permission { entity: None, verb: None }] } else { role.may.clone() }
}
