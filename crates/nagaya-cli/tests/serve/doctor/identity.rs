//! What `nagaya doctor` finds about the keys of an issuer.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
};

use serde_json::{Value as Json, json};

use super::doctor;
use crate::text;

/// An issuer that publishes this key.
fn issuer(key: &Json) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let discovery = json!({ "issuer": url, "jwks_uri": format!("{url}/keys") }).to_string();
    let keys = json!({ "keys": [key] }).to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = BufReader::new(stream.try_clone().expect("a handle")).lines().map_while(Result::ok);
            let first = head.next().unwrap_or_default();
            head.find(String::is_empty);
            let body = if first.contains(" /keys ") { &keys } else { &discovery };
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn an_issuer_without_a_key_that_can_verify_tokens_is_a_problem() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let found = |key: &Json| {
        let (_, found) = doctor(&["todo", "--data", text(&data), "--issuer", &issuer(key), "--audience", "todo"]);
        let found = found.into_iter().find(|(check, ..)| check == "Issuer and audiences");
        found.map(|(_, state, what)| (state, what)).expect("the section is there")
    };
    // The example of RFC 7515, A.3.
    let (x, y) = ("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0");
    let (state, what) = found(&json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y }));
    assert_eq!(state, "ok", "{what}");
    for unusable in [
        json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "use": "enc" }),
        json!({ "kty": "oct", "k": "AAAA" }),
        json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" }),
    ] {
        let (state, what) = found(&unusable);
        assert!(state == "problem" && what.contains("publishes no key that can verify tokens"), "{unusable}: {what}");
    }
}
