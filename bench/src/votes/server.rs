//! Servers to compare with: started here, in directories of their own, on free ports, and
//! ended with the benchmark.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

use crate::stopwatch::Stopwatch;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// The user id without rights, for a server that refuses to run as root.
pub(super) const NOBODY: u32 = 65_534;

/// A running server.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

impl Server {
    /// Starts the server and waits until it accepts connections.
    pub(super) async fn start(mut command: Command, port: u16, log: &Path) -> anyhow::Result<Self> {
        let output = File::create(log)?;
        command.stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().context("start the server")?;
        let mut server = Self { child, port };
        let watch = Stopwatch::start();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = server.child.try_wait()? {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                bail!("the server ended with {status}: {}", said.trim());
            }
            if watch.elapsed() > PATIENCE {
                bail!("the server did not start within {PATIENCE:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(server)
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    /// Asks the server to end, because a killed server leaves its children; then kills
    /// it.
    fn drop(&mut self) {
        let mut kill = Command::new("kill");
        let asked = kill.args(["-INT", &self.child.id().to_string()]).status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// A free port.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Finds a program on the path or in one of these directories.
pub(super) fn find(name: &str, more: &[&Path]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(more.iter().map(|one| one.to_path_buf()));
    places
        .find(|place| place.join(name).is_file())
        .map(|place| place.join(name))
}

/// Whether this process is root.
pub(super) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A command that ends when the benchmark ends, in whatever way; as another user with an
/// empty environment, if one is given.
pub(super) fn mortal(program: &Path, user: Option<(u32, &Path)>) -> anyhow::Result<Command> {
    let Some(setpriv) = find("setpriv", &[]) else {
        bail!("there is no setpriv; on Debian: apt-get install util-linux");
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "INT"]);
    if let Some((user, home)) = user {
        command.args([format!("--reuid={user}"), format!("--regid={user}")]);
        command
            .arg("--clear-groups")
            .args(["env", "-i", "LC_ALL=C"]);
        command.arg(format!("HOME={}", home.display()));
        command.arg(format!(
            "PATH={}",
            std::env::var("PATH").unwrap_or_default()
        ));
    }
    command.arg(program);
    Ok(command)
}
