//! Roles: who may do what, and who is an operator.

use nagaya_design::{Design, Permission, Verb, check};

/// A design with two entities and these roles.
fn with(roles: &str) -> Design {
    let source = format!(
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
    );
    check(&source, &[]).design.expect("a design without errors")
}

fn names(roles: &[&str]) -> Vec<String> {
    roles.iter().map(|&role| role.to_owned()).collect()
}

/// What a caller with these roles may do: `article.read, contract.read`.
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
fn an_operator_may_do_everything_unless_the_role_lists_permissions() {
    let design = with("role.staff.operator = true\nrole.auditor = { operator = true, may = [\"*.read\"] }");
    assert_eq!(permitted(&design, &["staff"]), ALL);
    assert_eq!(permitted(&design, &["auditor"]), "article.read, contract.read");
    for (roles, expected) in [(["staff"], true), (["auditor"], true), (["operator"], false)] {
        assert_eq!(design.is_operator(&names(&roles)), expected, "{roles:?}");
    }
}

#[test]
fn without_roles_every_caller_may_do_everything_and_operator_is_the_role_of_operators() {
    let design = with("");
    assert_eq!(permitted(&design, &[]), ALL);
    assert_eq!(permitted(&design, &["anything"]), ALL);
    assert!(design.is_operator(&names(&["member", "operator"])));
    assert!(!design.is_operator(&names(&["admin"])) && !design.is_operator(&[]));
}

#[test]
fn a_token_names_roles_in_the_claim_roles_unless_another_is_given() {
    assert_eq!(with("").tenant.roles, "roles");
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
