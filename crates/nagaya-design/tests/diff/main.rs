//! Differences between two designs: a change of every key of the language is reported, and as breaking where it breaks.
//!
//! The cases are data: `documented.txt` and `others.txt` are lists of patches of `base.toml`.

use std::collections::BTreeSet;

use nagaya_design::{Design, allows_breaking, check, diff, json_schema};

/// A design that uses every key of the language.
const BASE: &str = include_str!("base.toml");

/// The documented rules: 12.1.2 of the management system's document.
const DOCUMENTED: &str = include_str!("documented.txt");

/// Changes of all the other keys.
const OTHERS: &str = include_str!("others.txt");

/// Keys whose change is not reported as a difference.
const SILENT: [(&str, &str); 1] = [("design.version", "it says whether breaking changes are allowed")];

/// A change of the base design and the expected difference.
struct Case<'t> {
    /// The changed key of the language: table and key as in the JSON Schema.
    key: &'t str,
    /// Where the difference is reported.
    path: &'t str,
    breaks: bool,
    /// The design after the change.
    after: String,
}

/// Reads a list of changes, each written like a patch: `-` is removed, `+` is added, ` ` is context, `..` separates hunks.
fn cases(text: &str) -> Vec<Case<'_>> {
    let case = |block| {
        let (head, patch): (&str, &str) = str::split_once(block, '\n').expect("a head and a patch");
        let [verdict, key, "at", path] = head.split(' ').collect::<Vec<_>>()[..] else { panic!("{head}") };
        let mut after = format!("\n{BASE}");
        for hunk in patch.split("\n..\n") {
            let side = |mark: char| -> String {
                let lines = hunk.lines().filter_map(|line| line.strip_prefix([' ', mark]));
                lines.map(|line| format!("\n{line}")).collect::<String>() + "\n"
            };
            let (old, new) = (side('-'), side('+'));
            assert_eq!(after.matches(&old).count(), 1, "{head}: {old}");
            after = after.replace(&old, &new);
        }
        Case { key, path, breaks: verdict == "breaks", after }
    };
    text.trim().split("\n\n").map(case).collect()
}

fn accepted(what: &str, source: &str) -> Design {
    let checked = check(source, &[]);
    checked.design.unwrap_or_else(|| panic!("{what}: {:#?}", checked.diagnostics))
}

/// The cases whose difference is not the expected one.
fn mismatches(cases: &[Case<'_>]) -> Vec<String> {
    let base = accepted("the base design", BASE);
    let mut wrong = Vec::new();
    for case in cases {
        let checked = check(&case.after, &[]);
        let Some(after) = checked.design else {
            let errors: Vec<_> = checked.diagnostics.iter().map(|each| &each.message).collect();
            wrong.push(format!("{} at {} is rejected: {errors:#?}", case.key, case.path));
            continue;
        };
        let found = diff(&base, &after);
        let reported = found.iter().any(|each| each.path == case.path && each.breaking_reason.is_some() == case.breaks);
        if !reported || found.iter().any(|each| each.breaking_reason.is_some()) != case.breaks {
            let verdict = if case.breaks { "breaks" } else { "keeps" };
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            wrong.push(format!("{verdict} {} at {}, but found {found:#?}", case.key, case.path));
        }
    }
    wrong
}

/// Proves C17.
#[test]
fn breaking_changes_are_reported_as_documented() {
    let wrong = mismatches(&cases(DOCUMENTED));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_other_change_is_reported_as_breaking_or_not() {
    let wrong = mismatches(&cases(OTHERS));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_key_of_the_language_has_a_case() {
    let schema = json_schema();
    let mut tables = vec![("design", &schema)];
    tables.extend(schema["definitions"].as_object().expect("a map").iter().map(|(name, table)| (name.as_str(), table)));
    let all: BTreeSet<String> = tables
        .into_iter()
        .flat_map(|(name, table)| {
            let keys = table["properties"].as_object().expect("a map").keys();
            keys.map(move |key| format!("{name}.{key}"))
        })
        .collect();
    let keys = cases(DOCUMENTED).into_iter().chain(cases(OTHERS)).map(|case| case.key.to_owned());
    let changed: BTreeSet<String> = keys.chain(SILENT.map(|(key, _)| key.to_owned())).collect();
    assert_eq!(all.difference(&changed).collect::<Vec<_>>(), [] as [&String; 0], "these keys have no case");
    assert_eq!(changed.difference(&all).collect::<Vec<_>>(), [] as [&String; 0], "the language has no such keys");
}

#[test]
fn the_version_is_no_difference_and_decides_whether_breaking_changes_are_allowed() {
    let base = accepted("the base design", BASE);
    for (version, allowed) in [("1.1", false), ("2.0", true), ("0.9", false)] {
        let next = BASE.replace("version     = \"1.0\"", &format!("version = \"{version}\""));
        let next = accepted(version, &next);
        assert_eq!((diff(&base, &next), allows_breaking(&base, &next)), (vec![], allowed), "{version}");
    }
}

#[test]
fn a_new_claim_refuses_old_tokens_and_the_first_role_excludes_callers_without_roles() {
    let claims = "roles  = \"groups\"\nmember_of = \"memberOf\"\noperator = \"staffRoles\"\n";
    let from = BASE.find("[role.admin]").expect("the roles");
    let to = BASE.find("[http]").expect("what follows them");
    let plain = format!("{}{}", &BASE[..from], &BASE[to..]);
    let bare = accepted("without claims", &plain.replace(claims, "roles = \"groups\"\n"));
    let claimed = accepted("with claims", &plain);
    let texts = |old: &Design, new: &Design| diff(old, new).iter().map(ToString::to_string).collect::<Vec<_>>();
    let refused = "tenant: the claim of the memberships is now `memberOf` (tokens of the old design carry no memberships and are \
                   refused)";
    let lost = "tenant: the claim of the operators' roles changed from `operatorRoles` to `staffRoles` (operators with old tokens \
                lose their rights)";
    assert_eq!(texts(&bare, &claimed), [refused, lost]);
    let guarded = accepted("with roles", BASE);
    let locked = "role: callers without a role may no longer do anything (callers of the old design fail)";
    assert_eq!(texts(&claimed, &guarded), [locked, "role.admin: added", "role.helper: added", "role.staff: added"]);
}

#[test]
fn allowing_visitors_breaks_nothing_but_excluding_them_does() {
    let closed = accepted("the base design", BASE);
    let open = accepted("with visitors", &BASE.replace("prefix = \"/v1\"\n", "prefix = \"/v1\"\nvisitors = true\n"));
    let texts = |old: &Design, new: &Design| diff(old, new).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&closed, &open), ["http: reading without a token is now on"]);
    let shut = "http: reading without a token is now off (callers without a token are refused)";
    assert_eq!(texts(&open, &closed), [shut]);
}
