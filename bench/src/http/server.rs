//! The processes that are measured.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::client::Connection;

/// A running Ballast with one tenant.
pub(super) struct Ballast {
    pub(super) address: SocketAddr,
    key: String,
    process: Child,
    /// Removed when it is dropped.
    _place: tempfile::TempDir,
}

/// A poll of it.
pub(super) struct Poll {
    pub(super) id: String,
    item: String,
    key: String,
}

/// A process that answers and does nothing.
pub(super) struct Bare {
    pub(super) address: SocketAddr,
    _process: Child,
}

/// The binary beside this one.
fn binary() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.with_file_name("ballast");
    if !path.exists() {
        bail!("{} is not there: cargo build --release", path.display());
    }
    Ok(path)
}

impl Ballast {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let place = tempfile::tempdir()?;
        let (data, token) = (place.path().join("data"), place.path().join("token"));
        let mut process = Command::new(binary()?)
            .args(["up", "--json", "--listen", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(&data)
            .arg("--admin-token-file")
            .arg(&token)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("start ballast")?;
        let ready = first_line(&mut process).await?;
        let ready: serde_json::Value = serde_json::from_str(&ready).context("read its greeting")?;
        let url = ready["router"]
            .as_str()
            .with_context(|| format!("it does not say where it is: {ready}"))?
            .to_owned();
        let address = url
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .parse()?;
        let run = async |args: &[&str]| {
            let done = Command::new(binary()?)
                .args(["--url", &url])
                .arg("--token-file")
                .arg(&token)
                .args(args)
                .output()
                .await?;
            if !done.status.success() {
                bail!("{}", String::from_utf8_lossy(&done.stderr));
            }
            Ok(String::from_utf8(done.stdout)?.trim().to_owned())
        };
        run(&["tenant", "create", "acme"]).await?;
        let key = run(&["key", "create", "acme"]).await?;
        Ok(Self {
            address,
            key,
            process,
            _place: place,
        })
    }

    pub(super) async fn poll(&self, title: &str) -> anyhow::Result<Poll> {
        let body = format!(
            r#"{{"title":"{title}","items":["one","two"],"expirationTime":"2099-01-01T00:00:00Z"}}"#
        );
        let key = &self.key;
        let length = body.len();
        let request = format!(
            "POST /polls HTTP/1.1\r\nhost: b\r\nx-api-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let mut connection = Connection::open(self.address).await?;
        let answer = connection.ask(request.as_bytes()).await?;
        let poll: serde_json::Value = serde_json::from_slice(&answer)?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Poll {
            id: text(&poll["pollID"]),
            item: text(&poll["items"][0]["itemID"]),
            key: self.key.clone(),
        })
    }

    /// A request that resolves the key.
    pub(super) fn resolve(&self) -> Vec<u8> {
        let key = &self.key;
        format!("GET /resolve HTTP/1.1\r\nhost: b\r\nx-api-key: {key}\r\n\r\n").into_bytes()
    }

    /// The head of a request that streams votes.
    pub(super) fn votes_head(&self) -> Vec<u8> {
        let key = &self.key;
        format!(
            "POST /votes HTTP/1.1\r\nhost: b\r\nx-api-key: {key}\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        .into_bytes()
    }

    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.process.start_kill()?;
        self.process.wait().await?;
        Ok(())
    }
}

impl Poll {
    /// A request that votes.
    pub(super) fn vote(&self, voter: &str) -> Vec<u8> {
        let Self { id, item, key } = self;
        let body = format!(r#"{{"voterID":"{voter}"}}"#);
        let length = body.len();
        format!(
            "PATCH /polls/{id}/votes/{item} HTTP/1.1\r\nhost: b\r\nx-api-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Lines that vote, one voter each.
    pub(super) fn lines(&self, first: u64, votes: u64) -> Vec<u8> {
        let Self { id, item, .. } = self;
        let mut lines = String::new();
        for n in first..first + votes {
            let line = format!(
                "{{\"pollID\":\"{id}\",\"itemID\":\"{item}\",\"voterID\":\"voter-{n:09}\"}}\n"
            );
            lines.push_str(&line);
        }
        lines.into_bytes()
    }

    /// A request that watches.
    pub(super) fn watch(&self) -> Vec<u8> {
        let Self { id, key, .. } = self;
        format!("GET /polls/{id}/votes/live HTTP/1.1\r\nhost: b\r\nx-api-key: {key}\r\n\r\n")
            .into_bytes()
    }
}

impl Bare {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--bare")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let address = first_line(&mut process).await?.trim().parse()?;
        Ok(Self {
            address,
            _process: process,
        })
    }

    /// The same request to another path.
    pub(super) fn request(&self, path: &str, request: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(request);
        let mut parts = text.splitn(3, ' ');
        let (method, _, rest) = (parts.next(), parts.next(), parts.next());
        format!(
            "{} {path} {}",
            method.unwrap_or("GET"),
            rest.unwrap_or_default()
        )
        .into_bytes()
    }
}

async fn first_line(process: &mut Child) -> anyhow::Result<String> {
    let stdout = process.stdout.take().context("it has no stdout")?;
    let mut reader = BufReader::new(stdout);
    let mut line = String::new();
    reader.read_line(&mut line).await?;
    // What it says later is nobody's concern, but the pipe must not fill up.
    tokio::spawn(async move {
        let mut rest = String::new();
        while reader.read_line(&mut rest).await.is_ok_and(|read| read > 0) {
            rest.clear();
        }
    });
    Ok(line)
}
