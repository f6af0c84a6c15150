//! Commands that run as child processes.

use std::{
    collections::HashMap,
    ffi::OsString,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use serde_json::Value as Json;

/// A child process. It is killed when this is dropped.
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl Process {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        Process { child, stdin, stdout, stderr }
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its standard output.
    pub fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        line
    }

    /// The next line of its standard output that is a JSON object. A process that is ready writes one.
    #[track_caller]
    pub fn wait_until_ready(&mut self) -> Json {
        loop {
            let line = self.read_line();
            match serde_json::from_str::<Json>(&line) {
                Ok(object) if object.is_object() => return object,
                _ if line.is_empty() => panic!("the process ended before it was ready: {}", self.rest_of_stderr()),
                _ => {}
            }
        }
    }

    /// The next line of its standard error; `None` at its end.
    pub fn stderr_line(&mut self) -> Option<String> {
        self.stderr.by_ref().lines().next().map(|line| line.expect("text"))
    }

    /// The rest of its standard error, once it has ended.
    pub fn rest_of_stderr(&mut self) -> String {
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).expect("text");
        text
    }

    /// Waits until its standard error has this text.
    #[track_caller]
    pub fn wait_for_stderr(&mut self, text: &str) {
        let mut all = String::new();
        while self.stderr.read_line(&mut all).expect("text") > 0 {
            if all.contains(text) {
                return;
            }
        }
        panic!("it did not write `{text}`, but: {all}");
    }

    /// Ends its standard input.
    pub fn close_stdin(&mut self) {
        drop(self.stdin.take());
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs or has ended");
    }

    /// Waits until it has ended; its exit code, unless a signal ended it.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }

    /// Sends SIGTERM and waits until it has ended; its exit code.
    pub fn stop(mut self) -> Option<i32> {
        self.terminate();
        self.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that runs `nagaya serve`.
pub struct ServeProcess {
    /// The process.
    pub process: Process,
    /// The JSON that it printed when it was ready.
    pub info: Json,
    /// What runs `nagaya`, and where.
    program: OsString,
    directory: Option<PathBuf>,
    tokens: Mutex<HashMap<String, String>>,
}

impl ServeProcess {
    /// Starts `nagaya serve` on a free port, by a command that takes its arguments, and waits until it is ready.
    #[track_caller]
    pub fn start(mut command: Command, args: &[&str]) -> Self {
        let program = command.get_program().to_owned();
        let directory = command.get_current_dir().map(Path::to_owned);
        let mut process = Process::start(command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).args(args));
        let info = process.wait_until_ready();
        ServeProcess { process, info, program, directory, tokens: Mutex::default() }
    }

    /// The URL of the server.
    pub fn url(&self) -> &str {
        self.info["url"].as_str().expect("a URL")
    }

    /// The URL of its metrics.
    pub fn admin_url(&self) -> &str {
        self.info["admin"].as_str().expect("a URL")
    }

    /// What it printed about a system.
    pub fn system(&self, name: &str) -> &Json {
        let systems = self.info["systems"].as_array().expect("a list");
        systems.iter().find(|system| system["name"] == name).expect("it is served")
    }

    /// A token for a system, by the command that it named. A server in memory names none.
    #[track_caller]
    pub fn token(&self, system: &str) -> String {
        let mut tokens = self.tokens.lock().expect("no panic");
        tokens.entry(system.to_owned()).or_insert_with(|| self.new_token(system)).clone()
    }

    /// Sends this token to a system from now on, where the program that was started is not `nagaya` itself.
    pub fn use_token(&self, system: &str, token: &str) {
        self.tokens.lock().expect("no panic").insert(system.to_owned(), token.trim().to_owned());
    }

    #[track_caller]
    fn new_token(&self, system: &str) -> String {
        let words = self.system(system)["tokenCommand"].as_array().expect("a server with a data directory");
        let mut command = Command::new(&self.program);
        command.args(words.iter().skip(1).map(|word| word.as_str().expect("a word")));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let output = command.output().expect("the command runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    /// Sends a request to a system, with a token of its own; the status and the body.
    #[track_caller]
    pub fn send(&self, system: &str, method: &str, path: &str, body: Option<&Json>) -> (u16, Json) {
        self.send_with(&self.token(system), system, method, path, body)
    }

    /// Sends a request to a system with another token.
    pub fn send_with(&self, token: &str, system: &str, method: &str, path: &str, body: Option<&Json>) -> (u16, Json) {
        let api = self.system(system)["api"].as_str().expect("a URL");
        send_request(method, &format!("{api}{path}"), Some(token), body)
    }
}

/// Sends a request; the status and the body, which is text when it is no JSON.
pub fn send_request(method: &str, url: &str, token: Option<&str>, body: Option<&Json>) -> (u16, Json) {
    // The id makes the log of events the same in each run.
    let mut request = ureq::http::Request::builder().method(method).uri(url).header("x-request-id", "request-1");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let request = request.body(body.map(Json::to_string).unwrap_or_default()).expect("a request");
    let config = ureq::Agent::config_builder().http_status_as_error(false).build();
    let mut response = ureq::Agent::new_with_config(config).run(request).expect("a response");
    let text = response.body_mut().read_to_string().expect("a body");
    (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Json::String(text)))
}

/// Tries for a minute until it succeeds.
///
/// # Panics
///
/// With the last error, when it does not.
#[track_caller]
pub fn eventually(mut attempt: impl FnMut() -> Result<(), String>) {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(()) => return,
            Err(error) if start.elapsed() > Duration::from_secs(60) => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
