//! Runs the tutorial "Your first API" command by command against a running server.
//!
//! Manual steps are comments in the page: `<!-- run: … -->`, `<!-- stop -->`, `<!-- start -->`.
#![cfg(unix)]

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorials/first-api.md");

/// A piece of the page.
enum Step {
    /// A command.
    Type(String),
    /// The expected output of the command before.
    Expect(String),
    /// A fragment of a design.
    Fragment(String),
    /// A manual step, from a comment.
    Do(String),
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->")) {
            steps.push(Step::Do(comment.to_owned()));
        }
        let Some(kind) = line.strip_prefix("```") else { continue };
        let block: String = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        steps.push(match kind {
            "sh" => Step::Type(block),
            "toml,fragment" => Step::Fragment(block),
            _ => Step::Expect(block),
        });
    }
    steps
}

/// A text without ids, timestamps and cursors.
fn normalized(text: &str) -> String {
    let mut before = "";
    let mut pieces = Vec::new();
    for piece in text.trim().split('"') {
        let capital = |each: u8| each.is_ascii_uppercase() || each.is_ascii_digit();
        pieces.push(match piece.len() {
            26 if piece.bytes().all(capital) => "<id>",
            20 if piece.ends_with('Z') && piece.contains("T") => "<instant>",
            _ if before == "nextCursor" => "<cursor>",
            _ => piece,
        });
        if piece != ":" {
            before = piece;
        }
    }
    pieces.join("\"")
}

/// The state of a reader: a directory, shell variables, a server.
struct Reader<'d> {
    directory: &'d Path,
    port: u16,
    /// Shell variables that have been set.
    variables: String,
    server: Option<Child>,
    /// How many bytes of the server's log have been read.
    read_bytes: usize,
}

impl Reader<'_> {
    fn shell(&self, command: &str) -> Command {
        let here = command.replace("127.0.0.1:8080", &format!("127.0.0.1:{}", self.port));
        let bin = Path::new(env!("CARGO_BIN_EXE_nagaya")).parent().expect("the command is in a directory");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &format!("{}\n{here}", self.variables)])
            .current_dir(self.directory)
            .env("PATH", path)
            .env("NAGAYA_LISTEN", format!("127.0.0.1:{}", self.port))
            .env("NAGAYA_LOG", "off")
            .env_remove("NAGAYA_DATA")
            .stdin(Stdio::null());
        shell
    }

    fn run(&self, command: &str) -> String {
        let output = self.shell(&command.replace("curl ", "curl -s ")).output().expect("bash runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text")).concat();
        text.replace(&format!("127.0.0.1:{}", self.port), "127.0.0.1:8080")
    }

    fn start(&mut self) {
        let log = fs::File::create(self.directory.join("server.log")).expect("a file");
        let mut command = self.shell("exec nagaya serve desk.toml --watch");
        self.server = Some(command.stdout(Stdio::null()).stderr(log).spawn().expect("the server starts"));
        self.read_bytes = 0;
        self.wait_for_log("curl -H ");
    }

    /// Waits until the server logs this text.
    fn wait_for_log(&mut self, expected: &str) {
        let begun = Instant::now();
        loop {
            let log = fs::read_to_string(self.directory.join("server.log")).expect("a file");
            let log = log.replace(&format!("127.0.0.1:{}", self.port), "127.0.0.1:8080");
            if let Some(at) = log[self.read_bytes..].find(expected) {
                self.read_bytes += at + expected.len();
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "not logged: {expected}\n{}", &log[self.read_bytes..]);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let asked = Command::new("kill").args(["-INT", &server.id().to_string()]).status();
            assert!(asked.is_ok_and(|asked| asked.success()) && server.wait().is_ok_and(|ended| ended.success()));
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

#[test]
fn every_command_of_the_first_tutorial_works() {
    // curl has `--json` since 7.82.
    if !Command::new("curl").args(["--json", "", "--version"]).output().is_ok_and(|curl| curl.status.success()) {
        eprintln!("skipped: it needs curl");
        return;
    }
    let page = fs::read_to_string(PAGE).expect("the page");
    let directory = tempfile::tempdir().expect("a directory");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    let mut reader =
        Reader { directory: directory.path(), port, variables: String::new(), server: None, read_bytes: 0 };
    let mut printed = None;
    let mut checked = 0;
    let mut item = (String::new(), String::new());
    for step in steps(&page) {
        match step {
            Step::Type(command) if command.starts_with("cargo install") => {}
            Step::Type(command) if command.contains("nagaya serve") => reader.start(),
            Step::Type(command) => {
                let command = command.replace(&item.0, &item.1);
                let is_variable = |line: &&str| {
                    line.split_once('=').is_some_and(|(name, _)| name.chars().all(|each| each.is_ascii_uppercase()))
                };
                let variables: Vec<&str> = command.lines().filter(is_variable).collect();
                printed = Some(reader.run(&command)).filter(|printed| !printed.is_empty());
                reader.variables += &(variables.join("\n") + "\n");
                reader.variables = reader.variables.replace("127.0.0.1:8080", &format!("127.0.0.1:{port}"));
            }
            Step::Expect(expected) => {
                checked += 1;
                match printed.take() {
                    Some(printed) => {
                        assert_eq!(normalized(&printed), normalized(&expected));
                        // The reader's id differs from the one in the page.
                        let id = |text: &str| Some(text.split("\"itemId\":\"").nth(1)?.split('"').next()?.to_owned());
                        if item.0.is_empty()
                            && let (Some(theirs), Some(ours)) = (id(&expected), id(&printed))
                        {
                            item = (theirs, ours);
                        }
                    }
                    // The banner contains a token; the page shows its beginning.
                    None if expected.contains("A token for") => {
                        let log = fs::read_to_string(directory.path().join("server.log")).expect("a file");
                        let log = log.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:8080");
                        assert!(log.starts_with(expected.split("eyJ").next().expect("a start")), "{log}");
                    }
                    None => reader.wait_for_log(&expected),
                }
            }
            Step::Fragment(fragment) => fs::write(directory.path().join("fragment"), fragment).expect("a file"),
            Step::Do(what) => match what.strip_prefix("run: ") {
                Some(command) => drop(reader.run(command)),
                None if what == "stop" => reader.stop(),
                None => reader.start(),
            },
        }
    }
    assert!(checked > 15, "only {checked} outputs");
}
