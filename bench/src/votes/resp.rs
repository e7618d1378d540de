//! The part of Redis' protocol that is needed to send votes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context, bail};

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Number(i64),
    Text(String),
}

/// A connection to a server on this machine.
pub(super) struct RespConnection(BufReader<TcpStream>);

impl RespConnection {
    pub(super) fn open(port: u16) -> anyhow::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::with_capacity(1 << 16, stream)))
    }

    /// Sends commands, as [`command`] writes them.
    pub(super) fn send(&mut self, commands: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.get_mut().write_all(commands)?)
    }

    /// Reads the reply to the next of the commands sent.
    pub(super) fn reply(&mut self) -> anyhow::Result<Reply> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.trim_end();
        let (kind, rest) = line
            .split_at_checked(1)
            .context("Redis closed the connection")?;
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            ":" => Ok(Reply::Number(rest.parse()?)),
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>()? + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(Reply::Text(String::from_utf8(bytes)?))
            }
            _ => bail!("Redis answers {line:?}"),
        }
    }

    /// Sends one command and waits for its reply.
    pub(super) fn ask(&mut self, parts: &[&str]) -> anyhow::Result<Reply> {
        let mut bytes = Vec::new();
        command(&mut bytes, parts);
        self.send(&bytes)?;
        self.reply()
    }
}

/// Writes a command.
pub(super) fn command(to: &mut Vec<u8>, parts: &[&str]) {
    to.extend_from_slice(format!("*{}\r\n", parts.len()).as_bytes());
    for part in parts {
        to.extend_from_slice(format!("${}\r\n{part}\r\n", part.len()).as_bytes());
    }
}
