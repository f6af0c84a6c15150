//! The local issuer: its files, names and endpoints.

use std::{
    fs,
    path::Path,
    sync::{Arc, Barrier},
    time::Duration,
};

use nagaya_server::{Claims, Grant, Issuer, LocalIssuer, Verifier, issuer_routes};
use nagaya_store::Clock;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;

use crate::common::{TestClock, claims, claims_with_members, outcome};

fn open(data: &Path) -> LocalIssuer {
    LocalIssuer::open(data).expect("the issuer can be opened")
}

fn token(issuer: &LocalIssuer, claims: &Claims) -> String {
    let grant = Grant {
        audience: "todo",
        claims,
        user: "u1",
        tenant: Some("t1"),
        roles: &["admin".to_owned()],
        member_of: &["t1".to_owned()],
        ttl: Duration::from_secs(3600),
    };
    issuer.issue(&grant).expect("a token can be made")
}

fn verifier(issuer: LocalIssuer) -> Verifier {
    verifier_of(&Arc::new(issuer))
}

fn verifier_of(issuer: &Arc<LocalIssuer>) -> Verifier {
    Verifier::new(claims(), Clock::system()).trust(&Issuer::local(issuer), "todo").expect("one issuer")
}

fn decode(token: &str) -> Json {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
    let claims = token.split('.').nth(1).expect("it has three parts");
    serde_json::from_slice(&BASE64.decode(claims).expect("base64")).expect("JSON")
}

/// Proves T15.
#[tokio::test]
async fn a_local_token_is_valid_and_has_the_granted_claims() {
    let issuer = LocalIssuer::in_memory().expect("keys can be made");
    let token = token(&issuer, &claims_with_members());
    let mut claims = decode(&token);
    let claims = claims.as_object_mut().expect("claims");
    let lasts = claims["exp"].as_i64().zip(claims["iat"].as_i64()).map(|(end, begin)| end - begin);
    assert_eq!(lasts, Some(3600));
    claims.remove("exp");
    claims.remove("iat");
    let id = claims.remove("jti").expect("an id");
    assert_eq!(id.as_str().map(str::len), Some(22), "16 random bytes");
    let expected = json!({
        "aud": "todo",
        "iss": "http://127.0.0.1:8080",
        "memberOf": ["t1"],
        "roles": ["admin"],
        "sub": "u1",
        "tenantId": "t1",
    });
    assert_eq!(Json::Object(claims.clone()), expected);
    assert_eq!(outcome(&verifier(issuer), &token).await, "u1@t1 admin");
}

#[tokio::test]
async fn one_claim_can_be_both_tenant_and_user() {
    let names = Claims { tenant: "sub".to_owned(), member_of: None, ..claims() };
    let issuer = Arc::new(LocalIssuer::in_memory().expect("keys can be made"));
    let token = token(&issuer, &names);
    let verifier = Verifier::new(names, Clock::system()).trust(&Issuer::local(&issuer), "todo").expect("one issuer");
    assert_eq!(outcome(&verifier, &token).await, "t1@t1 admin");
}

#[tokio::test]
async fn registered_claims_keep_their_meaning_for_any_claim_names() {
    let member_of = Some("aud".to_owned());
    let names = Claims { tenant: "iss".to_owned(), roles: "exp".to_owned(), member_of, ..claims() };
    let issuer = LocalIssuer::in_memory().expect("keys can be made");
    let claims = decode(&token(&issuer, &names));
    assert_eq!(claims["iss"], "http://127.0.0.1:8080");
    assert_eq!(claims["aud"], "todo");
    assert!(claims["exp"].is_i64());
}

#[test]
fn a_token_always_lists_its_tenant_where_the_design_wants_it() {
    let (issuer, names) = (LocalIssuer::in_memory().expect("keys can be made"), claims_with_members());
    let grant = Grant {
        audience: "todo",
        claims: &names,
        user: "u1",
        tenant: Some("t1"),
        roles: &[],
        member_of: &[],
        ttl: Duration::from_secs(1),
    };
    let claims = |grant: &Grant<'_>| decode(&issuer.issue(grant).expect("a token can be made"));
    assert_eq!(claims(&grant)["memberOf"], json!(["t1"]));
    let member_of = ["t0", "t1"].map(str::to_owned);
    assert_eq!(claims(&Grant { member_of: &member_of, ..grant.clone() })["memberOf"], json!(member_of));
    assert_eq!(claims(&Grant { tenant: None, ..grant.clone() }).get("memberOf"), None);
    assert_ne!(claims(&grant)["jti"], claims(&grant)["jti"]);
}

#[test]
fn operator_roles_are_written_into_their_claim() {
    let issuer = LocalIssuer::in_memory().expect("keys can be made");
    let usual = claims();
    let names = Claims { operator: "staff".to_owned(), ..claims() };
    let roles = ["admin".to_owned(), "operator".to_owned()];
    let grant = Grant {
        audience: "todo",
        claims: &names,
        user: "u1",
        tenant: None,
        roles: &roles,
        member_of: &[],
        ttl: Duration::from_secs(1),
    };
    let claims = decode(&issuer.issue(&grant).expect("a token can be made"));
    assert_eq!((&claims["roles"], &claims["staff"]), (&json!(["admin"]), &json!(["operator"])));
    let claims = decode(&issuer.issue(&Grant { claims: &usual, ..grant }).expect("a token can be made"));
    assert_eq!((&claims["roles"], &claims["operatorRoles"]), (&json!(["admin"]), &json!(["operator"])));
}

#[test]
fn a_token_needs_a_user() {
    let (issuer, names) = (LocalIssuer::in_memory().expect("keys can be made"), claims());
    let grant = Grant {
        audience: "todo",
        claims: &names,
        user: "",
        tenant: None,
        roles: &[],
        member_of: &[],
        ttl: Duration::from_secs(1),
    };
    assert!(issuer.issue(&grant).is_err());
    assert!(issuer.issue(&Grant { user: "u1", tenant: Some(""), ..grant.clone() }).is_err());
    assert!(issuer.issue(&Grant { user: "u1", ttl: Duration::MAX, ..grant }).is_ok());
}

#[tokio::test]
async fn tokens_stay_valid_after_a_restart_and_a_new_url() {
    let data = tempfile::tempdir().expect("a directory");
    let before = token(&open(data.path()), &claims());
    let issuer = open(data.path());
    issuer.set_url("https://api.example.com/").expect("a fine URL");
    assert_eq!(issuer.url(), "https://api.example.com");
    let after = token(&issuer, &claims());
    assert_eq!(decode(&after)["iss"], "https://api.example.com");
    drop(issuer);

    let issuer = open(data.path());
    assert_eq!(issuer.url(), "https://api.example.com");
    issuer.set_url("http://127.0.0.1:8080").expect("a fine URL");
    assert_eq!(issuer.url(), "http://127.0.0.1:8080");
    let verifier = verifier(issuer);
    assert_eq!(outcome(&verifier, &before).await, "u1@t1 admin");
    assert_eq!(outcome(&verifier, &after).await, "u1@t1 admin");
    // Tokens of another directory belong to another issuer, even with the same name.
    let other = LocalIssuer::in_memory().expect("keys can be made");
    let expected = "401 bad_token: The token is signed by a key that its issuer does not publish. If it is from `nagaya token`, it \
                    may be from the local issuer of another directory: run the command with the `--data` directory of this \
                    server.";
    assert_eq!(outcome(&verifier, &token(&other, &claims())).await, expected);
}

#[tokio::test]
async fn the_last_hundred_urls_are_known() {
    let issuer = Arc::new(LocalIssuer::in_memory().expect("keys can be made"));
    let set_urls = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            // One that it has had does not count again.
            for url in [format!("https://{number}.example.com"), "https://api.example.com".to_owned()] {
                issuer.set_url(&url).expect("a fine URL");
            }
        }
    };
    let first = token(&issuer, &claims());
    set_urls(0..98);
    assert_eq!(outcome(&verifier_of(&issuer), &first).await, "u1@t1 admin", "there are a hundred with the first one");
    set_urls(98..99);
    let refused = verifier_of(&issuer).caller(&first).await.expect_err("its URL is not known any more");
    assert_eq!(refused.code(), "bad_token");
    assert_eq!(outcome(&verifier_of(&issuer), &token(&issuer, &claims())).await, "u1@t1 admin");
}

#[test]
fn a_url_that_it_has_already_is_not_written_again() {
    let data = tempfile::tempdir().expect("a directory");
    let issuer = open(data.path());
    issuer.set_url("https://api.example.com").expect("a fine URL");
    let path = data.path().join("issuer/issuer.json");
    fs::remove_file(&path).expect("it can be removed");
    issuer.set_url("https://api.example.com/").expect("a fine URL");
    assert!(!path.exists());
    issuer.set_url("https://other.example.com").expect("a fine URL");
    assert!(path.exists());
}

#[test]
fn an_invalid_server_url_is_refused() {
    let issuer = LocalIssuer::in_memory().expect("keys can be made");
    for url in ["", "api.example.com", "ftp://api.example.com", "https://", "https://a b", "https://a?b", "https://a#b"]
    {
        assert!(issuer.set_url(url).is_err(), "{url}");
    }
    assert_eq!(issuer.url(), "http://127.0.0.1:8080");
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_key_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let data = tempfile::tempdir().expect("a directory");
    let issuer = open(data.path());
    issuer.set_url("https://api.example.com").expect("a fine URL");
    issuer.rotate().expect("keys can be made");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let directory = data.path().join("issuer");
    assert_eq!(mode(&directory), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().expect("a name").to_string_lossy().into_owned());
    }
    names.sort();
    assert_eq!(names, ["issuer.json", "keys.json", "lock"]);
    // The permissions of a restored copy are corrected.
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("it is ours");
    drop(open(data.path()));
    assert_eq!(mode(&directory), 0o700);
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_directory_is_not_followed() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let elsewhere = tempfile::tempdir().expect("a directory");
    drop(open(elsewhere.path()));
    let target = elsewhere.path().join("issuer");
    fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).expect("it is ours");
    for target in [&target, &elsewhere.path().join("nothing")] {
        let data = tempfile::tempdir().expect("a directory");
        let link = data.path().join("issuer");
        symlink(target, &link).expect("a link");
        let refused = LocalIssuer::open(data.path()).expect_err("a link").to_string();
        assert!(refused.starts_with(&format!("{} is a link", link.display())), "{refused}");
    }
    let mode = fs::metadata(&target).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o755, "what the link leads to is as it was");
}

#[test]
fn published_documents_and_debug_output_have_no_private_keys() {
    let data = tempfile::tempdir().expect("a directory");
    let issuer = open(data.path());
    issuer.rotate().expect("keys can be made");
    let text = fs::read_to_string(data.path().join("issuer/keys.json")).expect("it can be read");
    let kept: Json = serde_json::from_str(&text).expect("JSON");
    let secrets: Vec<_> = kept["keys"].as_array().expect("keys").iter().map(|key| key["d"].as_str()).collect();
    assert_eq!(secrets.len(), 2);
    let issuer = Arc::new(issuer);
    let shown = format!("{} {} {issuer:?} {:?}", issuer.jwks(), issuer.discovery(), Issuer::local(&issuer));
    for secret in secrets {
        assert!(!shown.contains(secret.expect("a private key")));
    }
    assert!(!shown.contains(r#""d""#));
}

#[test]
fn processes_that_start_concurrently_create_one_key() {
    for _ in 0..20 {
        let data = tempfile::tempdir().expect("a directory");
        let begin = Barrier::new(8);
        let sets: Vec<Json> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        begin.wait();
                        open(&data.path().join("new")).jwks()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
        });
        assert_eq!(sets[0]["keys"].as_array().map(Vec::len), Some(1));
        assert!(sets.iter().all(|set| *set == sets[0]));
    }
}

#[test]
fn concurrent_changes_are_all_kept() {
    let data = tempfile::tempdir().expect("a directory");
    let issuers: Vec<_> = (0..4).map(|_| open(data.path())).collect();
    std::thread::scope(|scope| {
        for (at, issuer) in issuers.iter().enumerate() {
            scope.spawn(move || {
                issuer.rotate().expect("keys can be made");
                issuer.set_url(&format!("https://{at}.example.com")).expect("a fine URL");
            });
        }
    });
    let kept = fs::read_to_string(data.path().join("issuer/issuer.json")).expect("it can be read");
    let kept: Json = serde_json::from_str(&kept).expect("JSON");
    assert_eq!(kept["urls"].as_array().map(Vec::len), Some(5));
    assert_eq!(open(data.path()).jwks()["keys"].as_array().map(Vec::len), Some(5));
}

#[tokio::test]
async fn a_server_accepts_a_key_that_another_process_created() {
    let data = tempfile::tempdir().expect("a directory");
    let server = verifier(open(data.path()));
    assert_eq!(outcome(&server, &token(&open(data.path()), &claims())).await, "u1@t1 admin");
    let command = open(data.path());
    command.rotate().expect("keys can be made");
    assert_eq!(outcome(&server, &token(&command, &claims())).await, "u1@t1 admin");
}

#[tokio::test]
async fn a_server_drops_keys_that_another_process_removed() {
    let (data, hand) = (tempfile::tempdir().expect("a directory"), TestClock::new());
    let issuer = Arc::new(open(data.path()).with_clock(hand.clock()));
    let server = Verifier::new(claims(), hand.clock()).trust(&Issuer::local(&issuer), "todo").expect("one issuer");
    let token = token(&issuer, &claims());
    assert_eq!(outcome(&server, &token).await, "u1@t1 admin");
    let command = open(data.path());
    command.rotate().expect("keys can be made");
    command.remove_older_keys().expect("keys can be forgotten");
    hand.pass(20);
    let expected = "401 bad_token: The token is signed by a key that its issuer does not publish. If it is from `nagaya token`, it \
                    may be from the local issuer of another directory: run the command with the `--data` directory of this \
                    server.";
    assert_eq!(outcome(&server, &token).await, expected);
}

#[test]
fn a_damaged_file_is_named_and_not_changed() {
    let (keys, urls) = ("start with a new key;", "start without it; tokens that name an earlier URL");
    for (name, text, removal) in [
        ("keys.json", "", keys),
        ("keys.json", "{}", keys),
        ("keys.json", r#"{"keys":[]}"#, keys),
        ("issuer.json", "", urls),
        ("issuer.json", "{}", urls),
    ] {
        let data = tempfile::tempdir().expect("a directory");
        drop(open(data.path()));
        let path = data.path().join("issuer").join(name);
        fs::write(&path, text).expect("it can be written");
        let error = LocalIssuer::open(data.path()).expect_err("it is damaged").to_string();
        assert!(error.starts_with(&format!("{} is damaged: ", path.display())) && error.contains(removal), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("it can be read"), text);
    }
}

/// A new key in the place of keys that cannot be read at the moment would end all tokens.
#[test]
fn a_file_that_cannot_be_read_is_not_replaced() {
    let data = tempfile::tempdir().expect("a directory");
    drop(open(data.path()));
    let path = data.path().join("issuer/keys.json");
    fs::remove_file(&path).expect("it can be removed");
    fs::create_dir(&path).expect("it can be made");
    let error = LocalIssuer::open(data.path()).expect_err("it is a directory").to_string();
    assert!(error.starts_with(&format!("{} cannot be read: ", path.display())), "{error}");
}

#[test]
fn an_unusable_directory_is_named_in_the_error() {
    let data = tempfile::tempdir().expect("a directory");
    let file = data.path().join("file");
    fs::write(&file, "").expect("it can be written");
    let error = LocalIssuer::open(&file).expect_err("it is a file").to_string();
    assert!(error.contains("file/issuer cannot be created: "), "{error}");
}

/// Proves T15.
#[tokio::test]
async fn the_keys_are_found_by_discovery() {
    let data = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it has an address"));
    let issuer = Arc::new(open(data.path()));
    issuer.set_url(&url).expect("a fine URL");
    let router = issuer_routes(Arc::clone(&issuer));
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let elsewhere = Verifier::new(claims(), Clock::system())
        .trust(&Issuer::remote(&url).expect("a fine URL"), "todo")
        .expect("one issuer");
    // A key that another process created is published at once.
    open(data.path()).rotate().expect("keys can be made");
    assert_eq!(outcome(&elsewhere, &token(&open(data.path()), &claims())).await, "u1@t1 admin");
    assert_eq!(outcome(&elsewhere, &token(&issuer, &claims())).await, "u1@t1 admin");

    let place = format!("{url}/.well-known/jwks.json");
    let headers = tokio::task::spawn_blocking(move || ureq::get(&place).call().map(|answer| answer.headers().clone()));
    let headers = headers.await.expect("it does not panic").expect("it answers");
    assert_eq!(headers["cache-control"], "public, max-age=300");
    assert_eq!(headers["content-type"], "application/json");
    server.abort();
}
