//! `nagaya doctor`: the checklist for production.

mod files;
mod identity;
mod running;
mod store;

use std::fs;

use nagaya_testing::ServeProcess;
use serde_json::Value as Json;

use super::{
    common::{Run, nagaya, nagaya_in, root},
    serve, text,
};

/// The findings with these arguments: whether the command is satisfied, and the state of each check.
fn doctor(args: &[&str]) -> (bool, Vec<(String, String, String)>) {
    doctor_in(args, &[])
}

/// The same with variables in its environment.
fn doctor_in(args: &[&str], variables: &[(&str, &str)]) -> (bool, Vec<(String, String, String)>) {
    findings(&nagaya_in(&[&["doctor", "--json"], args].concat(), "", variables))
}

fn findings(run: &Run) -> (bool, Vec<(String, String, String)>) {
    let found: Json = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"));
    let text = |finding: &Json, name: &str| finding[name].as_str().expect("text").to_owned();
    let findings = found["findings"].as_array().expect("a list").iter();
    let findings = findings.map(|each| (text(each, "check"), text(each, "state"), text(each, "found"))).collect();
    (run.status == 0, findings)
}

fn having<'f>(findings: &'f [(String, String, String)], state: &str) -> Vec<(&'f str, &'f str)> {
    findings.iter().filter(|(_, each, _)| each == state).map(|(check, _, found)| (&**check, &**found)).collect()
}

/// Settings of development are problems, and each has its remedy.
#[test]
fn a_server_for_development_is_not_fit_for_production() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let run = nagaya(&["doctor", "todo", "--port", "1", "--data", text(&data)]);
    assert_eq!(run.status, 1, "{run}");
    assert!(!data.exists(), "it creates nothing");
    let shown = run.stdout.replace(text(directory.path()), "DIR");
    let shown: Vec<_> = shown.lines().filter(|line| !line.contains("MiB")).collect();
    insta::assert_snapshot!(shown.join("\n"));

    let (is_fine, found) = doctor(&["aiagent", "kondate", "--store", "memory", "--tenant-rate", "0", "--listen", ":1"]);
    assert!(!is_fine);
    let problems: Vec<_> = having(&found, "problem").into_iter().map(|(check, _)| check).collect();
    assert_eq!(problems, ["Production mode", "TLS", "Issuer and audiences", "Tables"]);
    assert!(having(&found, "warning").iter().any(|(check, _)| *check == "Limits"), "{found:?}");
    let (_, found) = doctor(&["no-such-system"]);
    assert!(having(&found, "problem").iter().any(|(check, _)| *check == "Designs"), "{found:?}");
}

/// What one tenant may use at the same time is less than what there is.
#[test]
fn a_tenant_that_can_take_everything_is_a_warning() {
    let limits = |flags: &str| {
        let args: Vec<_> = ["doctor", "todo", "--store", "memory"].into_iter().chain(flags.split(' ')).collect();
        let run = nagaya(&args);
        let mut lines = run.stdout.lines().skip_while(|line| !line.contains(" Limits: ")).peekable();
        let mut shown = Vec::new();
        while let Some(line) = lines.next_if(|line| line.contains(" Limits: ") || line.starts_with("         →")) {
            shown.push(line.to_owned());
        }
        shown.join("\n")
    };
    let just_below = "--tenant-concurrent 9 --max-requests 10 --tenant-bytes-in-flight 99 --max-bytes-in-flight 100 \
                      --tenant-streams 4 --max-streams 5";
    assert_eq!(limits(just_below), "ok       Limits: 200 requests per second and tenant");
    let as_much = "--tenant-concurrent 10 --max-requests 10 --tenant-bytes-in-flight 101 --max-bytes-in-flight 100 \
                   --tenant-streams 5 --max-streams 5 --tenant-rate 0";
    insta::assert_snapshot!(limits(as_much));
    assert!(limits("--max-bytes-in-flight 33554432").starts_with("warning  Limits: "), "the default of a tenant");
}

/// A server with the settings of the checklist, beside a development server as its issuer.
#[test]
fn a_server_with_the_settings_of_the_checklist_has_no_problem() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, key) = (directory.path().join("data"), directory.path().join("store.key"));
    fs::write(&key, "0f".repeat(32)).expect("a file");
    restrict(&key);
    let issuer = serve(&["todo", "--store", "memory"], &[]);
    let issuer_url = issuer.url().to_owned();
    let settings = [
        "todo",
        "--data",
        text(&data),
        "--issuer",
        &issuer_url,
        "--audience",
        "todo",
        "--behind-proxy",
        "--trusted-proxies",
        "1",
        "--encryption-key-file",
        text(&key),
    ];
    let server = serve(&settings, &[]);
    let port = server.url().rsplit(':').next().expect("a port");
    let running =
        [&settings[..], &["--port", port, "--admin-listen", server.admin_url().trim_start_matches("http://")]];
    let running = running.concat();
    let (is_fine, found) = doctor(&running);
    assert!(is_fine, "{found:#?}");
    assert_eq!(having(&found, "warning"), [], "{found:#?}");
    assert_eq!(having(&found, "unknown"), [], "{found:#?}");

    // A file that others can read, and a key beside the data that it encrypts.
    let copied = data.join("store.key");
    fs::copy(&key, &copied).expect("a file");
    #[cfg(unix)]
    fs::set_permissions(&copied, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("it is ours");
    let mut worse = running.clone();
    *worse.last_mut().expect("an address") = "127.0.0.1:9";
    let at = worse.iter().position(|each| *each == text(&key)).expect("it is given");
    worse[at] = text(&copied);
    let (is_fine, found) = doctor(&worse);
    assert!(!is_fine);
    let problems = having(&found, "problem");
    assert!(problems.iter().any(|(check, found)| *check == "Files" && found.contains("store.key")), "{problems:?}");
    assert!(problems.iter().any(|(check, _)| *check == "Encryption at rest"), "{problems:?}");
    assert!(having(&found, "unknown").iter().any(|(check, _)| *check == "Running server"), "{found:?}");

    // An issuer that is gone.
    drop(issuer);
    let (is_fine, found) = doctor(&running);
    assert!(
        !is_fine && having(&found, "problem").iter().any(|(check, _)| *check == "Issuer and audiences"),
        "{found:?}"
    );
}

/// A server that was started with other settings than those that are verified.
#[test]
fn a_running_server_with_other_settings_than_the_given_ones_is_a_problem() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let issuer = serve(&["todo", "--store", "memory"], &[]);
    let production =
        ["todo", "--data", text(&data), "--issuer", issuer.url(), "--behind-proxy", "--trusted-proxies", "1"];
    let problems = |server: &ServeProcess, audience: &str| {
        let port = server.url().rsplit(':').next().expect("a port");
        let admin = server.admin_url().trim_start_matches("http://");
        let running = ["--audience", audience, "--port", port, "--admin-listen", admin];
        let (is_fine, found) = doctor(&[&production[..], &running].concat());
        let found: Vec<_> = having(&found, "problem").iter().map(|(check, what)| format!("{check}: {what}")).collect();
        assert_eq!(is_fine, found.is_empty());
        found
    };
    let server = serve(&["todo", "--data", text(&data)], &[]);
    let found = problems(&server, "todo");
    assert!(
        found.len() == 1 && found[0].starts_with("Production mode: the server that runs is for development"),
        "{found:?}"
    );
    assert_eq!(server.process.stop(), Some(0));

    let server = serve(&[&production[..], &["--audience", "todo"]].concat(), &[]);
    assert_eq!(problems(&server, "todo"), [""; 0]);
    let found = problems(&server, "other");
    assert!(
        found.len() == 1 && found[0].starts_with("Issuer and audiences: the server that runs accepts"),
        "{found:?}"
    );
}

/// Beside a server with TLS, whose certificate this machine trusts or not.
#[test]
fn a_server_with_tls_is_asked_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let fixture = |name: &str| root().join("crates/nagaya-server/tests/limits/tls").join(name);
    let (certificate, authority, key) = (fixture("server.pem"), fixture("ca.pem"), directory.path().join("tls.key"));
    fs::copy(fixture("server.key.pem"), &key).expect("a copy");
    restrict(&key);
    let settings = ["todo", "--data", text(&data), "--tls-cert", text(&certificate), "--tls-key", text(&key)];
    let server = serve(&settings, &[]);
    let address = |url: &str| url.rsplit('/').next().expect("an address").to_owned();
    let (public, admin) = (address(server.url()), address(server.admin_url()));
    let running = [&settings[..], &["--listen", &public, "--admin-listen", &admin]].concat();
    let state_of = |variables: &[(&str, &str)]| {
        let (_, found) = doctor_in(&running, variables);
        let running: Vec<_> = found.into_iter().filter(|(check, ..)| check == "Running server").collect();
        assert_eq!(running.len(), 1, "{running:?}");
        running[0].clone()
    };
    let (_, state, found) = state_of(&[("SSL_CERT_FILE", text(&authority))]);
    assert_eq!(state, "ok", "{found}");
    // A machine that does not trust it cannot say what clients see.
    let (_, state, found) = state_of(&[("SSL_CERT_FILE", text(&key))]);
    assert_eq!(state, "warning", "{found}");
}

/// The name of the certificate leads elsewhere from this machine, or nowhere.
#[test]
fn a_certificate_is_verified_by_its_name_or_that_of_the_public_url() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let fixture = |name: &str| root().join("crates/nagaya-server/tests/limits/tls").join(name);
    let (certificate, authority, key) =
        (fixture("named.pem"), fixture("named-ca.pem"), directory.path().join("tls.key"));
    fs::copy(fixture("named.key.pem"), &key).expect("a copy");
    restrict(&key);
    let settings = ["todo", "--data", text(&data), "--tls-cert", text(&certificate), "--tls-key", text(&key)];
    let server = serve(&settings, &[]);
    let address = |url: &str| url.rsplit('/').next().expect("an address").to_owned();
    let (public, admin) = (address(server.url()), address(server.admin_url()));
    let check = |more: &[&str], state: &str, words: &str| {
        let running = [&settings[..], &["--listen", &public, "--admin-listen", &admin], more].concat();
        let (_, found) = doctor_in(&running, &[("SSL_CERT_FILE", text(&authority))]);
        let found: Vec<_> = found.into_iter().filter(|(check, ..)| check == "Running server").collect();
        let [(_, found_state, what)] = &found[..] else { panic!("{found:?}") };
        assert!(found_state == state && what.contains(words), "{more:?}: {found:?}");
    };
    check(&[], "ok", "it is ready");
    check(&["--public-url", "https://todo.example.com/api"], "ok", "it is ready");
    check(&["--public-url", "https://todo.example.org"], "warning", "https://todo.example.org");
    check(&["--tls-client-ca", text(&authority)], "unknown", "wants a certificate of each client");
}

fn restrict(path: &std::path::Path) {
    set_mode(path, 0o600);
}

fn set_mode(path: &std::path::Path, mode: u32) {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("it is ours");
    #[cfg(not(unix))]
    let _ = (path, mode);
}
