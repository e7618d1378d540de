//! One `ballast` process. Collects its output and never lets it outlive the test.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{InstanceOptions, eventually, token_file, within};

/// A started process.
pub struct Process {
    child: Child,
    stdout: Output,
    stderr: Output,
}

/// How a process exited.
#[derive(Debug)]
pub struct ProcessExit {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Everything it wrote to stdout.
    pub stdout: String,
    /// Everything it wrote to stderr.
    pub stderr: String,
}

struct Output {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Output {
    fn collect(mut pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let sink = text.clone();
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut chunk) {
                let part = String::from_utf8_lossy(&chunk[..read]);
                sink.lock().unwrap().push_str(&part);
            }
        });
        Self {
            text,
            reader: Some(reader),
        }
    }

    fn so_far(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// The complete output; call it when the process has ended.
    fn whole(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.so_far()
    }
}

impl Process {
    /// Starts `ballast up` with its files in `home`.
    pub fn up(home: &Path, options: &InstanceOptions, listen: &str) -> Self {
        let mut command = match options.descriptors_max {
            None => ballast(),
            Some(most) => ballast_with_descriptors(most),
        };
        command.args(["up", "--json", "--listen", listen]);
        command.arg("--data-dir").arg(home.join("data"));
        command.arg("--admin-token-file").arg(token_file(home));
        if let Some(text) = &options.config {
            let file = home.join("ballast.toml");
            if !file.exists() {
                std::fs::write(&file, text).unwrap();
            }
            command.arg("--config").arg(file);
        }
        command.args(&options.args);
        command.envs(options.env.iter().cloned());
        Self::spawn(command.current_dir(home))
    }

    /// Starts any command.
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdout: Output::collect(child.stdout.take().unwrap()),
            stderr: Output::collect(child.stderr.take().unwrap()),
            child,
        }
    }

    /// Waits for the ready line, or for the exit.
    pub async fn ready(mut self) -> Result<Self, Box<ProcessExit>> {
        let running = eventually("the ready line", async || {
            if self.stdout().contains('\n') {
                return Some(true);
            }
            self.child.try_wait().unwrap().map(|_| false)
        })
        .await;
        if running {
            Ok(self)
        } else {
            Err(Box::new(self.wait_for_end().await))
        }
    }

    /// Waits for the exit.
    pub async fn wait_for_end(&mut self) -> ProcessExit {
        let child = &mut self.child;
        let status = eventually("the end of the process", async || child.try_wait().unwrap()).await;
        ProcessExit {
            code: status.code(),
            stdout: self.stdout.whole(),
            stderr: self.stderr.whole(),
        }
    }

    /// Waits for the exit of a process that works for minutes before it exits.
    pub async fn died(&mut self) {
        const EXITS_WITHIN: Duration = Duration::from_secs(900);
        let child = &mut self.child;
        within(EXITS_WITHIN, "the process exits", async || {
            child.try_wait().unwrap()
        })
        .await;
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        self.send(name, self.pid().to_string());
    }

    /// Sends a signal to its process group, as a terminal does.
    pub fn signal_group(&self, name: &str) {
        self.send(name, format!("-{}", self.pid()));
    }

    fn send(&self, name: &str, to: String) {
        let mut kill = Command::new("kill");
        let sent = kill.args([&format!("-{name}"), "--", &to]).status();
        assert!(sent.unwrap().success(), "no process {to} to signal");
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill9(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it wrote to stdout so far.
    pub fn stdout(&self) -> String {
        self.stdout.so_far()
    }

    /// What it wrote to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.so_far()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// The path of the binary: `BALLAST_BIN`, or what cargo built last. `scripts/run-tests` sets it
/// where tests of several builds run at the same time.
pub fn ballast_path() -> OsString {
    std::env::var_os("BALLAST_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_ballast").into())
}

/// The binary, without the environment variables that it reads.
pub fn ballast() -> Command {
    without_settings(Command::new(ballast_path()))
}

/// The same, with a limit of open files and connections.
fn ballast_with_descriptors(most: u32) -> Command {
    let mut shell = Command::new("sh");
    let script = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
    shell.arg("-c").arg(script).arg(ballast_path());
    without_settings(shell)
}

fn without_settings(mut command: Command) -> Command {
    command.env_remove("RUST_LOG");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BALLAST_") {
            command.env_remove(name);
        }
    }
    command
}
