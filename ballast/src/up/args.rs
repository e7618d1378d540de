//! The arguments of `ballast up`.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Config, Network, address};

/// Run Ballast: router, admin API and embedded shards in one process
#[derive(Debug, Clone, Args)]
pub(crate) struct UpArgs {
    /// Configuration file [default: ballast.toml if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Data directory [default: ./ballast-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Address and port to listen on; port 0 takes any free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen)]
    pub(crate) listen: Option<String>,
    /// Where the first start writes the admin token (mode 0600) instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// Certificate chain (PEM) for HTTPS; reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Trusted proxy for X-Forwarded-For: an address or a network (repeatable)
    #[arg(long = "trusted-proxy", value_name = "CIDR", value_parser = proxy)]
    pub(crate) trusted_proxies: Vec<String>,
    /// The story that the console shows above the fleet: for demonstrations
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) story_file: Option<PathBuf>,
    /// Stop when standard input ends, so that it never outlives its parent
    #[arg(long, hide = true)]
    pub(crate) stop_with_stdin: bool,
}

fn listen(text: &str) -> Result<String, String> {
    address(text).map(|_| text.to_owned())
}

fn proxy(text: &str) -> Result<String, String> {
    text.parse::<Network>().map(|_| text.to_owned())
}

impl UpArgs {
    /// Overrides the file's settings with the flags.
    pub(crate) fn apply(&self, config: &mut Config) {
        let server = &mut config.server;
        if let Some(data_dir) = &self.data_dir {
            server.data_dir.clone_from(data_dir);
        }
        if let Some(listen) = &self.listen {
            server.listen.clone_from(listen);
        }
        if self.tls_cert.is_some() {
            server.tls_cert.clone_from(&self.tls_cert);
            server.tls_key.clone_from(&self.tls_key);
        }
        if !self.trusted_proxies.is_empty() {
            server.trusted_proxies.clone_from(&self.trusted_proxies);
        }
    }
}
