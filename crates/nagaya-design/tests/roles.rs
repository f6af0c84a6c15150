//! Roles: who may do what, and who acts for the system.

use nagaya_design::{Design, Permission, Verb};

#[path = "common/designs.rs"]
mod designs;
use designs::{accepted, design};

/// A design with two entities and these roles.
fn with(roles: &str) -> Design {
    accepted(&format!(
        r#"
        name    = "newsroom"
        version = "1.0"
        {roles}

        [tenant]
        field = "paperId"

        [table.app]
        key = ["PK", "SK"]

        [entity.article]
        table = "app"
        key   = {{ PK = "PAPER#{{paperId}}", SK = "ARTICLE#{{articleId}}" }}
        fields.paperId   = {{ type = "string", max = 64 }}
        fields.articleId = {{ type = "ulid", default = "new" }}

        [entity.contract]
        table = "app"
        key   = {{ PK = "PAPER#{{paperId}}", SK = "CONTRACT#{{contractId}}" }}
        fields.paperId    = {{ type = "string", max = 64 }}
        fields.contractId = {{ type = "ulid", default = "new" }}
        "#
    ))
}

fn names(roles: &[&str]) -> Vec<String> {
    roles.iter().map(|&role| role.to_owned()).collect()
}

/// What somebody with these roles may do: `article.read, contract.read`.
fn permitted(design: &Design, roles: &[&str]) -> String {
    let roles = names(roles);
    let mut found = Vec::new();
    for entity in &design.entities {
        let verbs = Verb::ALL.into_iter().filter(|verb| design.permits(&roles, &entity.name, *verb));
        found.extend(verbs.map(|verb| format!("{}.{verb}", entity.name)));
    }
    found.join(", ")
}

const ALL: &str = "article.create, article.read, article.update, article.delete, \
                   contract.create, contract.read, contract.update, contract.delete";

#[test]
fn a_role_permits_what_it_says_and_no_more() {
    let check = |may: &str, expected: &str| {
        let design = with(&format!("role.writer.may = [{may}]"));
        assert_eq!(permitted(&design, &["writer"]), expected, "{may}");
        assert!(!design.is_operator(&names(&["writer"])), "{may}");
    };
    check(r#""*""#, ALL);
    check(r#""article.read""#, "article.read");
    check(r#""article.*""#, "article.create, article.read, article.update, article.delete");
    check(r#""*.read""#, "article.read, contract.read");
    check(r#""*.read", "article.update""#, "article.read, article.update, contract.read");
}

#[test]
fn roles_add_up_and_unknown_ones_permit_nothing() {
    let design = with("role.writer.may = [\"article.create\"]\nrole.reader.may = [\"*.read\"]");
    assert_eq!(permitted(&design, &[]), "");
    assert_eq!(permitted(&design, &["admin", "Writer", ""]), "");
    assert_eq!(permitted(&design, &["reader", "writer", "admin"]), "article.create, article.read, contract.read");
}

#[test]
fn an_operator_may_do_everything_unless_something_is_said() {
    let design = with("role.staff.operator = true\nrole.auditor = { operator = true, may = [\"*.read\"] }");
    assert_eq!(permitted(&design, &["staff"]), ALL);
    assert_eq!(permitted(&design, &["auditor"]), "article.read, contract.read");
    for (roles, expected) in [(["staff"], true), (["auditor"], true), (["operator"], false)] {
        assert_eq!(design.is_operator(&names(&roles)), expected, "{roles:?}");
    }
}

#[test]
fn without_roles_everybody_may_do_everything_and_the_role_operator_acts_for_the_system() {
    let design = with("");
    assert_eq!(permitted(&design, &[]), ALL);
    assert_eq!(permitted(&design, &["anything"]), ALL);
    assert!(design.is_operator(&names(&["member", "operator"])));
    assert!(!design.is_operator(&names(&["admin"])) && !design.is_operator(&[]));
}

#[test]
fn a_token_names_roles_in_the_claim_roles_unless_another_is_given() {
    let todo = design("todo/design/todo.toml").tenant;
    assert_eq!((todo.claim.as_str(), todo.roles.as_str()), ("familyId", "roles"));
    assert_eq!(todo.member_of.as_deref(), Some("memberOf"));
    assert_eq!(design("kondate/design/kondate.toml").tenant.member_of, None);
}

#[test]
fn a_permission_is_read_and_written_alike() {
    for text in ["*", "*.read", "*.delete", "article.*", "article.create", "a_1.update"] {
        assert_eq!(Permission::parse(text).expect(text).to_string(), text);
    }
    for text in ["", ".", "*.*", "article", "article.", ".read", "*.list", "article.Read", "a.b.read", " *", "a b.read"]
    {
        assert_eq!(Permission::parse(text), None, "{text}");
    }
}

#[test]
fn the_roles_of_the_systems_keep_people_to_their_work() {
    let check = |path: &str, role: &str, may: &[&str], may_not: &[&str]| {
        let design = design(path);
        let roles = names(&[role]);
        for (texts, expected) in [(may, true), (may_not, false)] {
            for text in texts {
                let permission = Permission::parse(text).expect("a permission");
                let (entity, verb) = (permission.entity.expect("an entity"), permission.verb.expect("a verb"));
                assert!(design.entity(&entity).is_some(), "{path} has no {entity}");
                assert_eq!(design.permits(&roles, &entity, verb), expected, "{path}: {role} and {text}");
            }
        }
    };
    for path in ["aiagent/design/single.toml", "aiagent/design/multi.toml"] {
        check(path, "admin", &["user.delete", "permission_policy.update", "audit.read"], &[]);
        check(
            path,
            "member",
            &["task.create", "email_account.delete", "agent.update", "user.read", "permission_policy.read"],
            &["user.update", "audit.read", "archived_audit.read", "session.read", "token.create", "log.read"],
        );
        check(path, "viewer", &["task.read", "notice.read"], &["task.update", "email_message.read", "token.read"]);
        assert!(design(path).is_operator(&names(&["operator"])) && !design(path).is_operator(&names(&["admin"])));
    }
    let path = "management/design/management.toml";
    check(path, "admin", &["role_assignment.create", "backup_job.delete"], &[]);
    check(path, "user", &["file.delete", "message.create", "channel.read"], &["api_key.read", "user.update"]);
    assert!(design(path).is_operator(&names(&["operator"])));
}
