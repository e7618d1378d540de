//! The processes that are measured.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::client::Connection;

/// A running Ballast.
pub(crate) struct Ballast {
    pub(crate) address: SocketAddr,
    url: String,
    process: Child,
    /// Removed when it is dropped.
    place: tempfile::TempDir,
}

/// A tenant of it.
#[derive(Clone)]
pub(crate) struct Tenant {
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
}

/// A poll of it.
pub(crate) struct Poll {
    pub(crate) id: String,
    items: [String; 2],
    key: String,
}

/// A process that answers without doing any work.
pub(crate) struct Bare {
    pub(crate) address: SocketAddr,
    _process: Child,
}

/// The binary in the same directory as this one.
fn binary() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.with_file_name("ballast");
    if !path.exists() {
        bail!("{} is not there: cargo build --release", path.display());
    }
    Ok(path)
}

impl Ballast {
    /// Starts Ballast in a new directory, with minimal configuration.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::start_with(tempfile::tempdir()?, &[]).await
    }

    /// Starts Ballast with more arguments, in this directory.
    pub(crate) async fn start_with(
        place: tempfile::TempDir,
        args: &[&str],
    ) -> anyhow::Result<Self> {
        let (data, token) = (place.path().join("data"), place.path().join("token"));
        let mut process = Command::new(binary()?)
            .args(["up", "--json", "--listen", "127.0.0.1:0"])
            .args(args)
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
        Ok(Self {
            address,
            url,
            process,
            place,
        })
    }

    /// The admin token.
    pub(crate) fn token(&self) -> anyhow::Result<String> {
        let token = std::fs::read_to_string(self.place.path().join("token"))?;
        Ok(token.trim().to_owned())
    }

    /// Runs an operator's command, and returns its output.
    pub(crate) async fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let done = Command::new(binary()?)
            .args(["--url", &self.url])
            .arg("--token-file")
            .arg(self.place.path().join("token"))
            .args(args)
            .output()
            .await?;
        if !done.status.success() {
            bail!("{}", String::from_utf8_lossy(&done.stderr));
        }
        Ok(String::from_utf8(done.stdout)?.trim().to_owned())
    }

    /// Creates a tenant.
    pub(crate) async fn tenant(&self, id: &str) -> anyhow::Result<Tenant> {
        self.run(&["tenant", "create", id]).await?;
        Ok(Tenant {
            address: self.address,
            key: self.run(&["key", "create", id]).await?,
        })
    }

    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.process.start_kill()?;
        self.process.wait().await?;
        Ok(())
    }
}

impl Tenant {
    /// Creates a poll with two items, whose votes may be changed.
    pub(crate) async fn poll(&self, title: &str) -> anyhow::Result<Poll> {
        self.poll_over(title, &mut self.connect().await?).await
    }

    /// Creates a poll over an existing connection.
    pub(crate) async fn poll_over(
        &self,
        title: &str,
        connection: &mut Connection,
    ) -> anyhow::Result<Poll> {
        let body = format!(
            r#"{{"title":"{title}","items":["one","two"],"voteChangeable":true,"expirationTime":"2099-01-01T00:00:00Z"}}"#
        );
        let key = &self.key;
        let length = body.len();
        let request = format!(
            "POST /polls HTTP/1.1\r\nhost: b\r\nx-api-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let answer = connection.ask(request.as_bytes()).await?;
        let poll: serde_json::Value = serde_json::from_slice(&answer)?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Poll {
            id: text(&poll["pollID"]),
            items: [0, 1].map(|place| text(&poll["items"][place]["itemID"])),
            key: self.key.clone(),
        })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(self.address).await
    }

    /// A request that resolves the key.
    pub(crate) fn resolve(&self) -> Vec<u8> {
        let key = &self.key;
        format!("GET /resolve HTTP/1.1\r\nhost: b\r\nx-api-key: {key}\r\n\r\n").into_bytes()
    }

    /// The head of a request that streams votes.
    pub(crate) fn votes_head(&self) -> Vec<u8> {
        let key = &self.key;
        format!(
            "POST /votes HTTP/1.1\r\nhost: b\r\nx-api-key: {key}\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        .into_bytes()
    }
}

impl Poll {
    /// A request that votes for the first item.
    pub(crate) fn vote(&self, voter: &str) -> Vec<u8> {
        self.vote_for(0, voter)
    }

    /// A request that votes for one of the two items.
    pub(crate) fn vote_for(&self, item: usize, voter: &str) -> Vec<u8> {
        let Self { id, items, key } = self;
        let item = &items[item];
        let body = format!(r#"{{"voterID":"{voter}"}}"#);
        let length = body.len();
        format!(
            "PATCH /polls/{id}/votes/{item} HTTP/1.1\r\nhost: b\r\nx-api-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Lines that vote, one voter each.
    pub(crate) fn lines(&self, first: u64, votes: u64) -> Vec<u8> {
        let (id, item) = (&self.id, &self.items[0]);
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
    pub(crate) fn watch(&self) -> Vec<u8> {
        let Self { id, key, .. } = self;
        format!("GET /polls/{id}/votes/live HTTP/1.1\r\nhost: b\r\nx-api-key: {key}\r\n\r\n")
            .into_bytes()
    }
}

impl Bare {
    pub(crate) async fn start() -> anyhow::Result<Self> {
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
    pub(crate) fn request(&self, path: &str, request: &[u8]) -> Vec<u8> {
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
    // Drain the pipe, so that it does not fill up.
    tokio::spawn(async move {
        let mut rest = String::new();
        while reader.read_line(&mut rest).await.is_ok_and(|read| read > 0) {
            rest.clear();
        }
    });
    Ok(line)
}
