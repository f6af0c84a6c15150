//! A server in a process of its own, and requests to it.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

/// A server that ends with its test.
pub(crate) struct Serving {
    pub(crate) child: Child,
    /// What it says is served.
    pub(crate) told: Value,
}

impl Serving {
    pub(crate) fn start(args: &[&str], env: &[(&str, &str)]) -> Self {
        Serving::start_as(Command::new(env!("CARGO_BIN_EXE_nagaya")), args, env)
    }

    /// Starts it by a command that takes its arguments.
    pub(crate) fn start_as(mut command: Command, args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .args(args)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it has an output");
        BufReader::new(stdout).read_line(&mut line).expect("it tells what it serves");
        match serde_json::from_str(&line) {
            Ok(told) => Serving { child, told },
            Err(_) => {
                let mut said = String::new();
                child.stderr.take().expect("it has errors").read_to_string(&mut said).expect("text");
                panic!("it does not serve: {said}")
            }
        }
    }

    pub(crate) fn system(&self, name: &str) -> &Value {
        let systems = self.told["systems"].as_array().expect("a list");
        systems.iter().find(|system| system["name"] == name).expect("it is served")
    }

    /// Asks as the user of the token that was printed.
    pub(crate) fn ask(&self, system: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let system = self.system(system);
        let (api, token) = (system["api"].as_str().expect("a URL"), system["token"].as_str().expect("a token"));
        send(method, &format!("{api}{path}"), Some(token), body)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn send(method: &str, url: &str, token: Option<&str>, body: Option<&Value>) -> (u16, Value) {
    let mut request = ureq::http::Request::builder().method(method).uri(url);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let request = request.body(body.map(Value::to_string).unwrap_or_default()).expect("a request");
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let mut answer = ureq::Agent::new_with_config(config).run(request).expect("an answer");
    let text = answer.body_mut().read_to_string().expect("a body");
    (answer.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
