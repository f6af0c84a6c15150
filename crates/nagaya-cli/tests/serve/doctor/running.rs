//! What `nagaya doctor` finds about a server that runs: simulated ones, which are not as they should be.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
};

use super::doctor;

const OURS: &str = "nagaya_build_info{version=\"1\"} 1\nnagaya_trusted_audience{system=\"todo\",issuer=\"local\",audience=\"todo\"} 1\n";

/// A server that answers `/metrics` and `/readyz` with this, and nothing else; its address.
fn server(metrics: &str, readyz: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let metrics = metrics.to_owned();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = BufReader::new(stream.try_clone().expect("a handle")).lines().map_while(Result::ok);
            let first = head.next().unwrap_or_default();
            head.find(String::is_empty);
            let (status, body) = match first.split(' ').nth(1) {
                Some("/metrics") => (200, metrics.as_str()),
                Some("/readyz") => (readyz, ""),
                _ => (404, ""),
            };
            let length = body.len();
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// What is found about a server with these answers at its admin listener, and others at its public address.
fn found(metrics: &str, readyz: u16, public: &str) -> Vec<(String, String)> {
    let (admin, public) = (server(metrics, readyz), format!("http://{}", server(public, 200)));
    let (is_fine, found) = doctor(&["todo", "--store", "memory", "--admin-listen", &admin, "--public-url", &public]);
    assert!(!is_fine, "other settings are those of development");
    let found = found.into_iter().filter(|(check, ..)| check == "Running server");
    found.map(|(_, state, what)| (state, what)).collect()
}

#[track_caller]
fn check(found: &[(String, String)], state: &str, words: &str) {
    let [(found_state, what)] = found else { panic!("{found:?}") };
    assert!(found_state == state && what.contains(words), "{found:?}");
}

#[test]
fn a_server_that_is_not_as_it_should_be_is_a_problem() {
    check(&found(OURS, 200, "something else"), "ok", "it is ready");
    check(&found(OURS, 503, "something else"), "problem", "is not ready");
    let breached = format!("{OURS}nagaya_wall_breaches_total{{system=\"todo\"}} 1\n");
    check(&found(&breached, 200, "something else"), "problem", "from behind another wall");
    check(&found(&format!("{OURS}nagaya_wall_breaches_total{{system=\"todo\"}} 0\n"), 200, ""), "ok", "");
    check(&found(OURS, 200, OURS), "problem", "shows the metrics to everybody");
    let earlier = "nagaya_build_info{version=\"1\"} 1\n";
    check(&found(earlier, 200, ""), "unknown", "does not say whose tokens it accepts");
}
