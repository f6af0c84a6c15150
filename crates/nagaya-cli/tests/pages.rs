//! Runs the commands of the README and the tutorials one by one as a reader does, and compares what they print.
//!
//! A line of a `sh` block is a command, and so is a line of a `text` block that begins with `$ `. The block or the lines
//! after it are its output, or what the server prints next. `…` in an output stands for any text. What a reader does by
//! hand is a comment in the page: `<!-- run: … -->`, `<!-- stop -->`, `<!-- start -->`. A block of TOML becomes a file:
//! `fragment` if it is a `toml,fragment`, `desk.toml` if it is a whole design.
#![cfg(unix)]

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// A piece of the page.
#[derive(Debug)]
enum Step {
    /// A command.
    Type(String),
    /// The expected output of the command before, or of the server.
    Expect(String),
    /// A file, and its content.
    Write(&'static str, String),
    /// Stop the server.
    Stop,
    /// Start the server again.
    Start,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        match line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->")) {
            Some("stop") => steps.push(Step::Stop),
            Some("start") => steps.push(Step::Start),
            Some(comment) => steps.extend(comment.strip_prefix("run: ").map(|command| Step::Type(command.to_owned()))),
            None => {}
        }
        let kind = line.trim_start_matches('`');
        let fence = &line[..line.len() - kind.len()];
        if fence.len() < 3 {
            continue;
        }
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
        match kind {
            "sh" => steps.extend(block.iter().map(|line| Step::Type((*line).to_owned()))),
            "toml" => steps.push(Step::Write("desk.toml", block.join("\n") + "\n")),
            "toml,fragment" => steps.push(Step::Write("fragment", block.join("\n") + "\n")),
            "text" | "json" => {
                let is_same = |line: &&str, next: &&str| !line.starts_with("$ ") && !next.starts_with("$ ");
                for part in block.chunk_by(is_same) {
                    let part = part.join("\n");
                    match part.strip_prefix("$ ") {
                        Some(command) => steps.push(Step::Type(command.to_owned())),
                        None => steps.push(Step::Expect(part)),
                    }
                }
            }
            _ => {}
        }
    }
    steps
}

/// A file of the repository.
fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).expect("a file")
}

fn is_id(text: &str) -> bool {
    text.len() == 26 && text.bytes().all(|each| each.is_ascii_uppercase() || each.is_ascii_digit())
}

/// A text without ids, timestamps, cursors and spaces at the ends of lines.
fn normalized(text: &str) -> String {
    let pieces: Vec<&str> = text.trim().split('"').collect();
    let normal = pieces.iter().enumerate().map(|(at, piece)| match piece.len() {
        _ if is_id(piece) => "<id>",
        20 if piece.ends_with('Z') && piece.contains('T') => "<instant>",
        _ if at > 1 && pieces[at - 2] == "nextCursor" => "<cursor>",
        _ => piece,
    });
    let text = normal.collect::<Vec<_>>().join("\"");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Where an expected text ends in a text, at the earliest.
fn end_of(expected: &str, text: &str) -> Option<usize> {
    expected.split('…').try_fold(0, |from, piece| Some(from + text[from..].find(piece)? + piece.len()))
}

/// Whether an output is the expected one.
fn is_expected(expected: &str, printed: &str) -> bool {
    let (first, last) = (expected.split('…').next(), expected.rsplit('…').next());
    let ends_fit = printed.starts_with(first.unwrap_or_default()) && printed.ends_with(last.unwrap_or_default());
    ends_fit && end_of(expected, printed).is_some() && (expected.contains('…') || expected == printed)
}

/// A terminal, and the file from which its screen can be read.
fn open_terminal() -> (fs::File, fs::File) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("a terminal that can be used");
    let path = ptsname(&screen, Vec::new()).expect("a name").into_string().expect("a path");
    let terminal = fs::OpenOptions::new().read(true).write(true).open(path).expect("a terminal that can be opened");
    (screen.into(), terminal)
}

/// What a command did.
struct Printed {
    command: String,
    text: String,
    has_succeeded: bool,
}

/// The state of a reader: a directory, shell variables, a server.
struct Reader {
    directory: TempDir,
    port: u16,
    has_curl: bool,
    /// Shell variables that have been set.
    variables: String,
    server: Option<Child>,
    serve_command: String,
    /// How many bytes of the server's log have been read.
    read_bytes: usize,
    /// What the last command printed, until it is compared.
    printed: Option<Printed>,
    /// Ids and tokens of the page, and those that this reader got instead.
    replaced: Vec<(String, String)>,
    compared: usize,
}

impl Reader {
    fn new() -> Self {
        // curl has `--json` since 7.82.
        let curl = Command::new("curl").args(["--json", "", "--version"]).output();
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        Reader {
            directory: tempfile::tempdir().expect("a directory"),
            port,
            has_curl: curl.is_ok_and(|curl| curl.status.success()),
            variables: String::new(),
            server: None,
            serve_command: String::new(),
            read_bytes: 0,
            printed: None,
            replaced: Vec::new(),
            compared: 0,
        }
    }

    /// Goes through a page.
    fn read(page: &str) -> Self {
        let mut this = Self::new();
        this.follow(&file(page));
        this
    }

    fn follow(&mut self, page: &str) {
        for step in steps(page) {
            match step {
                Step::Type(command) => self.enter(&command),
                Step::Expect(expected) => self.compare(&expected),
                Step::Write(name, text) => fs::write(self.directory.path().join(name), text).expect("a file"),
                Step::Stop => self.stop(),
                Step::Start => self.start(),
            }
        }
        self.finish_command();
    }

    fn shell(&self, command: &str) -> Command {
        let here = command.replace("127.0.0.1:8080", &format!("127.0.0.1:{}", self.port));
        let bin = Path::new(env!("CARGO_BIN_EXE_nagaya")).parent().expect("the command is in a directory");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &format!("{}exec 2>&1; {here}", self.variables)])
            .current_dir(self.directory.path())
            .env("PATH", path)
            .env("NAGAYA_LISTEN", format!("127.0.0.1:{}", self.port))
            .env("NAGAYA_LOG", "off")
            .env_remove("NAGAYA_DATA")
            .stdin(Stdio::null());
        shell
    }

    fn run(&self, command: &str) -> Printed {
        let output = self.shell(command).output().expect("bash runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let text = text.replace(&format!("127.0.0.1:{}", self.port), "127.0.0.1:8080");
        Printed { command: command.to_owned(), text, has_succeeded: output.status.success() }
    }

    /// Runs a line that the reader types.
    fn enter(&mut self, line: &str) {
        self.finish_command();
        let mut command = line.replace("cargo run --release -- ", "nagaya ");
        for (theirs, ours) in &self.replaced {
            command = command.replace(theirs, ours);
        }
        let is_name = |name: &str| name.chars().all(|each| each.is_ascii_uppercase());
        if command.starts_with("cargo ") {
            // Installs the command, or runs this test.
        } else if command.starts_with("nagaya serve") {
            self.serve_command = command;
            self.start();
        } else if let Some((name, _)) = command.split_once('=').filter(|(name, _)| is_name(name)) {
            let printed = self.run(&format!("{command}\nprintf %s \"${name}\""));
            assert!(printed.has_succeeded && !printed.text.is_empty(), "{command}: {}", printed.text);
            let value = printed.text.replace("127.0.0.1:8080", &format!("127.0.0.1:{}", self.port));
            self.variables += &format!("{name}='{value}'\n");
        } else {
            self.printed = Some(self.run(&command.replace("curl ", "curl -sS ")));
        }
    }

    /// A command whose output the page does not show has to succeed.
    fn finish_command(&mut self) {
        if let Some(Printed { command, text, has_succeeded }) = self.printed.take() {
            assert!(has_succeeded || self.is_skipped(&command), "{command}: {text}");
        }
    }

    fn is_skipped(&self, command: &str) -> bool {
        command.starts_with("curl ") && !self.has_curl
    }

    fn compare(&mut self, expected: &str) {
        if self.printed.as_ref().is_some_and(|printed| printed.text.is_empty()) {
            self.finish_command();
        }
        match self.printed.take() {
            Some(printed) if self.is_skipped(&printed.command) => eprintln!("skipped, it needs curl: {expected}"),
            Some(Printed { command, text, has_succeeded }) => {
                let (ours, theirs) = (normalized(&text), normalized(expected));
                if !is_expected(&theirs, &ours) {
                    assert_eq!(ours, theirs, "{command}");
                }
                let has_errors = expected.lines().any(|line| line.starts_with("error"));
                assert_eq!(has_succeeded, !has_errors, "the exit code of {command}");
                let ids = |text: &str| text.split('"').filter(|piece| is_id(piece)).map(str::to_owned).collect();
                let (theirs, ours): (Vec<_>, Vec<_>) = (ids(expected), ids(&text));
                self.replaced.extend(theirs.into_iter().zip(ours));
            }
            None => self.wait_for_log(expected),
        }
        self.compared += 1;
    }

    fn start(&mut self) {
        let mut log = fs::File::create(self.directory.path().join("server.log")).expect("a file");
        // Tokens are shown on terminals alone.
        let (mut screen, terminal) = open_terminal();
        let mut command = self.shell(&format!("exec {}", self.serve_command));
        self.server = Some(command.stdout(terminal).spawn().expect("the server starts"));
        // Reading fails when the server has ended.
        std::thread::spawn(move || std::io::copy(&mut screen, &mut log));
        self.read_bytes = 0;
        self.wait_for_log("A token for … tenant `…`, valid for 24 hours:\n\neyJ…\n\n  curl -H ");
        self.read_bytes = 0;
    }

    fn log(&self) -> String {
        let log = fs::read_to_string(self.directory.path().join("server.log")).expect("a file");
        let log = log.replace("\r\n", "\n").replace(&format!("127.0.0.1:{}", self.port), "127.0.0.1:8080");
        log.replace(&format!("127.0.0.1:{}", self.port + 1), "127.0.0.1:8081")
    }

    /// Waits until the server prints this text.
    fn wait_for_log(&mut self, expected: &str) {
        let begun = Instant::now();
        let log = loop {
            let log = self.log();
            if let Some(end) = end_of(expected, &log[self.read_bytes..]) {
                self.read_bytes += end;
                break log;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "not printed: {expected}\n{}", &log[self.read_bytes..]);
            std::thread::sleep(Duration::from_millis(50));
        };
        let token = |text: &str| text.lines().find(|line| line.starts_with("eyJ")).map(str::to_owned);
        self.replaced.extend(token(expected).zip(token(&log)));
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let asked = Command::new("kill").args(["-INT", &server.id().to_string()]).status();
            assert!(asked.is_ok_and(|asked| asked.success()) && server.wait().is_ok_and(|ended| ended.success()));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

#[test]
fn every_command_of_the_readme_works() {
    assert_eq!(Reader::read("README.md").compared, 5);
}

#[test]
fn every_command_of_the_first_tutorial_works() {
    assert_eq!(Reader::read("docs/tutorials/first-api.md").compared, 23);
}

#[test]
fn the_design_tutorial_leads_to_the_designs_beside_it() {
    let reader = Reader::read("docs/tutorials/first-design.md");
    assert_eq!(reader.compared, 17);
    for name in ["desk.toml", "desk-1.toml"] {
        let written = fs::read_to_string(reader.directory.path().join(name)).expect("a design");
        assert_eq!(written, file(&format!("docs/tutorials/{name}")), "{name}");
    }
}

/// What collects the logs of a terminal, as container runtimes do, keeps everything that is printed there.
#[test]
fn no_token_is_printed_between_json_logs() {
    let (mut screen, terminal) = open_terminal();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
    command.args(["serve", "todo", "--store", "memory", "--listen", "127.0.0.1:0", "--log-format", "json"]);
    command.env_remove("NAGAYA_LOG").stdin(Stdio::null()).stdout(Stdio::null()).stderr(terminal);
    let mut server = command.spawn().expect("the server starts");
    drop(command);
    let (mut shown, mut piece) = (String::new(), [0; 4096]);
    // The last line of the banner, and a line of the log.
    while !(shown.contains("TOKEN=$(") || shown.contains("curl -H")) || !shown.contains("\"level\"") {
        let read = std::io::Read::read(&mut screen, &mut piece).expect("the server runs");
        shown.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    server.kill().and_then(|()| server.wait()).expect("it is stopped");
    assert!(!shown.contains("eyJ"), "{shown}");
}
