//! Output and exit codes of the command.

mod common;

use std::{fs, process::Command};

use common::{nagaya, nagaya_with, root};
use insta::assert_snapshot;
use serde_json::Value;

const SINGLE: &str = "systems/aiagent/design/single.toml";
const MULTI: &str = "systems/aiagent/design/multi.toml";
const TODO: &str = "systems/todo/design/todo.toml";
const KONDATE: &str = "systems/kondate/design/kondate.toml";
const MANAGEMENT: &str = "systems/management/design/management.toml";

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&nagaya(args).stdout).expect("--json prints JSON")
}

#[test]
fn help_lists_commands_and_options() {
    for command in ["", "check", "explain", "docs", "diff", "schema", "store"] {
        let args: Vec<_> = [command, "--help"].into_iter().filter(|arg| !arg.is_empty()).collect();
        let name = if command.is_empty() { "help".to_owned() } else { format!("help_{command}") };
        assert_snapshot!(name, nagaya(&args).stdout);
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    let dir = std::env::temp_dir().join(format!("nagaya-cli-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory can be made");
    let latin = dir.join("latin1.toml");
    fs::write(&latin, b"name = \"caf\xe9\"").expect("a file can be written");
    for args in [
        vec!["check"],
        vec!["check", "no-such-file.toml"],
        vec!["check", "systems"],
        vec!["check", latin.to_str().expect("the path is text")],
        vec!["explain", SINGLE],
        vec!["explain", SINGLE, "a", "b", "c"],
        vec!["explain", SINGLE, "--access", "users", "--with", "tenantId"],
        vec!["explain", SINGLE, "--access", "users", "--with", "colour=red"],
        vec!["fly"],
    ] {
        let run = nagaya(&args);
        assert_eq!(run.status, 2, "{args:?}: {run}");
        assert_eq!(run.stdout, "", "{args:?}");
        assert!(!run.stderr.is_empty(), "{args:?}");
    }
    assert_snapshot!(nagaya(&["check", "no-such-file.toml"]).stderr);
    assert_snapshot!(nagaya(&["check", "systems"]).stderr);
    assert_snapshot!(nagaya(&["explain", SINGLE, "--access", "users", "--with", "colour=red"]).stderr);
    fs::remove_dir_all(&dir).expect("the directory can be removed");
}

/// What `serve` says about arguments that it refuses, in a new directory with these files.
fn refused_by_serve(files: &[(&str, &str)], args: &[&str]) -> (String, Vec<String>) {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        fs::write(dir.path().join(name), text).expect("a file can be written");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
    let run = command.current_dir(dir.path()).args(["serve", "--port", "0"]).args(args).output().expect("it runs");
    assert_eq!(run.status.code(), Some(2), "{args:?}");
    let entries = fs::read_dir(dir.path()).expect("it can be read");
    let mut left: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    left.sort();
    (String::from_utf8(run.stderr).expect("text"), left)
}

#[test]
fn serve_logs_that_it_has_started_only_if_it_has() {
    let (shown, left) = refused_by_serve(&[], &["missing.toml"]);
    assert!(shown.contains("missing.toml") && !shown.contains("started"), "{shown}");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_wrong_public_url_creates_no_keys() {
    let (shown, left) = refused_by_serve(&[], &["todo", "--public-url", "x"]);
    assert!(shown.contains("`x` is not the URL of a server"), "{shown}");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn serve_names_the_files_that_it_cannot_use() {
    let (shown, _) = refused_by_serve(&[("shop.toml", "")], &["todo", "--data", "shop.toml"]);
    assert!(shown.contains("shop.toml is a file, not a directory"), "{shown}");
    let todo = fs::read_to_string(root().join(TODO)).expect("the design can be read");
    let (shown, _) = refused_by_serve(&[("a.toml", &todo), ("b.toml", &todo)], &["a.toml", "b.toml"]);
    assert!(shown.contains("a.toml and b.toml both have the name `todo`"), "{shown}");
}

#[test]
fn a_design_can_come_from_the_standard_input() {
    let text = fs::read_to_string(root().join(TODO)).expect("the design can be read");
    let run = nagaya_with(&["check", "-"], &text);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    let run = nagaya_with(&["check", "-"], "");
    assert_snapshot!(run);
}

#[test]
fn warnings_fail_only_when_asked_to() {
    let text = fs::read_to_string(root().join(SINGLE)).expect("the design can be read");
    let unexplained: String = text.lines().filter(|line| !line.starts_with("# NG0304")).collect::<Vec<_>>().join("\n");
    assert_eq!(nagaya_with(&["check", "-"], &unexplained).status, 0);
    assert_eq!(nagaya_with(&["check", "-", "--deny-warnings"], &unexplained).status, 1);
}

#[test]
fn check_prints_json_for_programs() {
    let found = json(&[
        "check",
        "--json",
        SINGLE,
        "crates/nagaya-design/tests/bad/NG0101-entity-of-no-tenant-walled-by-key.toml",
    ]);
    assert_eq!(found["ok"], false);
    assert_eq!(found["files"][0]["ok"], true);
    assert_snapshot!(format!("{:#}", found["files"][1]));
}

#[test]
fn a_key_is_explained() {
    let cases: [(&str, &[&str]); 10] = [
        ("user", &[SINGLE, "TENANT#t1", "USER#u1"]),
        ("audit", &[SINGLE, "TENANT#t1", "AUDIT#2024-01-01T00:00:00Z#550e8400-e29b-41d4-a716-446655440000"]),
        ("user_by_index", &[SINGLE, "GSI1PK=USER", "GSI1SK=2026-01-31T09:30:00Z"]),
        ("tenants_of_a_user", &[MULTI, "USER#u1", "TENANT#t1"]),
        ("active_todo", &[TODO, "FAMILY#f-123#ACTIVE", "01KG9S5Q60T4N2Y8ZC3M7VXR1E"]),
        ("cook_log", &[KONDATE, "USER#u_01", "COOKLOG#2026-02-09#log_01"]),
        ("popular", &[KONDATE, "CATALOG#RECIPE", "SORT#POPULAR#0000012345#01KG9S5Q60T4N2Y8ZC3M7VXR1E"]),
        (
            "role_assignment",
            &[MANAGEMENT, "tenant_123", "ra_user_550e8400-e29b-41d4-a716-446655440000_tenant-management_管理者"],
        ),
        ("former_key", &[MANAGEMENT, "tenant_123", "role_assignment_123e4567-e89b-12d3-a456-426614174000"]),
        ("escaped", &[SINGLE, "TENANT#t1%23USER%23x", "USER#50%25"]),
    ];
    for (name, args) in cases {
        let run = nagaya(&[&["explain"], args].concat());
        assert_eq!(run.status, 0, "{run}");
        assert_snapshot!(format!("explain_{name}"), run.stdout);
    }
}

#[test]
fn a_partition_alone_shows_its_entities() {
    let found = json(&["explain", TODO, "TODO#01KG9S5Q60T4N2Y8ZC3M7VXR1E", "--json"]);
    let entities: Vec<_> = found.as_array().expect("a list").iter().map(|each| each["entity"].clone()).collect();
    assert_eq!(entities, ["event", "head", "snapshot"]);
}

#[test]
fn a_key_that_matches_no_entity_is_reported() {
    assert_snapshot!(nagaya(&["explain", SINGLE, "TENANT#t1", "WIDGET#w1"]));
    // A value with an unescaped delimiter does not match any key of this design.
    assert_eq!(nagaya(&["explain", SINGLE, "TENANT#t1", "USER#a#b"]).status, 1);
}

/// Proves A9.
#[test]
fn an_access_pattern_is_explained() {
    let cases: [(&str, &[&str]); 8] = [
        ("audit_between", &[SINGLE, "audit_between"]),
        (
            "audit_between_with",
            &[
                SINGLE,
                "audit_between",
                "--with",
                "tenantId=t1",
                "--with",
                "from=2024-01-01T00:00:00Z",
                "--with",
                "to=2024-02-01T00:00:00Z",
                "--engine",
                "dynamodb",
            ],
        ),
        ("tenants_of_user", &[MULTI, "tenants_of_user"]),
        ("todos_active", &[TODO, "todos_active"]),
        ("users_active", &[MANAGEMENT, "users_active"]),
        ("users_with_role", &[MANAGEMENT, "users_with_role", "--with", "tenantId=t1", "--engine", "dynamodb"]),
        ("tenant_count_of_service", &[MANAGEMENT, "tenant_count_of_service", "--engine", "dynamodb"]),
        ("cooklogs", &[KONDATE, "cooklogs", "--with", "userId=u_01", "--with", "date=2026-02"]),
    ];
    for (name, args) in cases {
        let run = nagaya(&[&["explain", args[0], "--access"], &args[1..]].concat());
        assert_eq!(run.status, 0, "{run}");
        assert_snapshot!(format!("access_{name}"), run.stdout);
    }
    let unknown = nagaya(&["explain", SINGLE, "--access", "audits_between"]);
    assert_eq!(unknown.status, 2);
    let reversed = ["tenantId=t1", "from=2024-02-01T00:00:00Z", "to=2024-01-01T00:00:00Z"];
    let with: Vec<_> = reversed.iter().flat_map(|each| ["--with", each]).collect();
    assert_snapshot!(nagaya(&[&["explain", SINGLE, "--access", "audit_between"], with.as_slice()].concat()));
}

#[test]
fn the_base_name_comes_from_the_environment() {
    let output = Command::new(env!("CARGO_BIN_EXE_nagaya"))
        .args(["explain", MULTI, "TENANT#t1", "USER#u1"])
        .current_dir(root())
        .env("DYNAMODB_TABLE_NAME", "aiagent-dev")
        .output()
        .expect("the command runs");
    let text = String::from_utf8(output.stdout).expect("stdout is text");
    assert!(text.starts_with("user in aiagent-dev-users (key)"), "{text}");
}

/// Proves N1.
#[test]
fn every_design_is_documented() {
    for (name, design) in
        [("single", SINGLE), ("multi", MULTI), ("todo", TODO), ("kondate", KONDATE), ("management", MANAGEMENT)]
    {
        let run = nagaya(&["docs", design]);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""));
        assert_snapshot!(format!("docs_{name}"), run.stdout);
    }
}

#[test]
fn the_html_page_has_no_external_resources() {
    let page = nagaya(&["docs", "--html", TODO]).stdout;
    assert!(page.starts_with("<!doctype html>"));
    for outside in ["http://", "https://", "<script", "@import", "url("] {
        let page = page.replace("https://example.com", "");
        assert!(!page.contains(outside), "the page holds {outside}");
    }
    for part in
        ["EventsTable", "<svg", "id=\"event\"", "href=\"#event\"", "begins_with(SK, 'TODO#')", "SK BETWEEN EVENT#"]
    {
        assert!(page.contains(part), "the page lacks {part}");
    }
}

#[test]
fn markup_in_a_design_stays_text() {
    let text = fs::read_to_string(root().join(TODO)).expect("the design can be read");
    let text = text.replacen("description = \"", "description = \"<script>alert(1)</script><img src=x onerror=y> ", 3);
    let page = nagaya_with(&["docs", "--html", "-"], &text).stdout;
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script") && !page.contains("<img"));
}

#[test]
fn a_diff_separates_breaking_changes() {
    let old = fs::read_to_string(root().join(MANAGEMENT)).expect("the design can be read");
    let dir = std::env::temp_dir().join(format!("nagaya-diff-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory can be made");
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::write(&path, text).expect("a file can be written");
        path.to_string_lossy().into_owned()
    };
    let optional = old.replacen(
        "displayName  = { type",
        "nickname     = { type = \"string\", optional = true }\ndisplayName  = { type",
        1,
    );
    let added = nagaya(&["diff", MANAGEMENT, &write("added.toml", &optional)]);
    assert_eq!(added.status, 0, "{added}");
    assert_snapshot!(added.stdout);

    let broken = old.replacen(
        "maxUsers     = { type = \"integer\", min = 1, max = 10000",
        "maxUsers     = { type = \"integer\", min = 1, max = 500",
        1,
    );
    let narrowed = nagaya(&["diff", MANAGEMENT, &write("narrowed.toml", &broken)]);
    assert_eq!(narrowed.status, 1, "{narrowed}");
    assert_snapshot!(narrowed.stdout);
    let message = narrowed.stderr.replace(dir.to_str().expect("the path is text"), "…");
    assert_snapshot!(message);

    let bumped = broken.replacen("version     = \"1.0\"", "version     = \"2.0\"", 1);
    assert_eq!(nagaya(&["diff", MANAGEMENT, &write("bumped.toml", &bumped)]).status, 0);
    assert_eq!(json(&["diff", "--json", MANAGEMENT, MANAGEMENT])["changes"], Value::Array(Vec::new()));
    fs::remove_dir_all(&dir).expect("the directory can be removed");
}

#[test]
fn the_split_into_twelve_tables_is_a_breaking_change() {
    let run = nagaya(&["diff", SINGLE, MULTI]);
    assert_eq!(run.status, 0, "the split has a major version of its own");
    assert_snapshot!("diff_single_multi", run.stdout);
}

#[test]
fn output_to_a_closed_pipe_is_not_an_error() {
    let shell = format!("{} docs {MANAGEMENT} | head -n 1", env!("CARGO_BIN_EXE_nagaya"));
    let output = Command::new("sh").args(["-c", &shell]).current_dir(root()).output().expect("a shell runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "# management\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
