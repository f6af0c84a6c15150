//! Roles, and the token claims that carry them.

use super::{CALLERS, Differences, text};
use crate::{
    design::Design,
    role::{Permission, Role, Verb},
};

const LOST: &str = "callers with it may do less than before";

impl Differences {
    /// The claims besides the tenant's own.
    pub(super) fn claims(&mut self, old: &Design, new: &Design) {
        let (before, after) = (&old.tenant, &new.tenant);
        let unknown = Some("tokens of the old design carry no roles");
        self.compare_value("tenant", "the claim of the roles", &before.roles, &after.roles, unknown);
        let breaks = match (&before.member_of, &after.member_of) {
            (None, _) => "tokens of the old design carry no memberships and are refused",
            _ => "the memberships in old tokens are not checked",
        };
        let what = "the claim of the memberships";
        self.compare_value("tenant", what, text(&before.member_of), text(&after.member_of), Some(breaks));
        let lost = Some("operators with old tokens lose their rights");
        let what = "the claim of the operators' roles";
        self.compare_value("tenant", what, &before.operator, &after.operator, lost);
    }

    pub(super) fn roles(&mut self, old: &Design, new: &Design) {
        // Without roles every caller may do everything; the first role takes that from callers without a role.
        if old.roles.is_empty() && !new.roles.is_empty() {
            self.add("role", "callers without a role may no longer do anything", Some(CALLERS));
        }
        for (path, before, after) in self.named("role", &old.roles, &new.roles, |role| &role.name, LOST) {
            self.description(&path, &before.description, &after.description);
            let (was, is) = (before.operator, after.operator);
            self.flag(&path, "acting for the system", was, is, was.then_some(LOST));
            let (had, has) = (permissions(before), permissions(after));
            for removed in had.iter().filter(|each| !has.contains(each)) {
                // A wider permission may have replaced it.
                let is_lost = old.entities.iter().any(|entity| {
                    let loses = |verb: &Verb| removed.reach(&entity.name, *verb) > after.reach(&entity.name, *verb);
                    Verb::ALL.iter().any(loses)
                });
                self.add(&path, format!("the permission `{removed}` is gone"), is_lost.then_some(LOST));
            }
            for added in has.iter().filter(|each| !had.contains(each)) {
                self.add(&path, format!("the permission `{added}` is new"), None);
            }
        }
    }
}

/// What a role permits; an operator's role without `may` permits everything.
fn permissions(role: &Role) -> Vec<Permission> {
    if role.is_unlimited() { vec![Permission::EVERYTHING] } else { role.may.clone() }
}
