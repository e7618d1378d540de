//! What every page works with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ballast_control_plane::ControlPlane;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::ahead::Ahead;
use crate::census::Census;
use crate::live::Rooms;
use crate::ports::Running;
use crate::session::{Attempts, Loggedout, Seal};
use crate::story::Story;
use crate::titles::Titles;

/// What whoever runs the console decides.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a login lasts at the most.
    pub session: Duration,
    /// Whether browsers come by HTTPS: then the cookie never goes otherwise.
    pub secure: bool,
    /// Where clients reach this process.
    pub public_url: String,
    /// Where the story of a demonstration is told, if this is one.
    pub story: Option<PathBuf>,
}

/// The console. Cheap to clone.
#[derive(Clone)]
pub struct Console(Arc<Parts>);

/// What it is made of: for this crate alone.
#[allow(unreachable_pub, reason = "what a public type leads to must be public")]
pub struct Parts {
    pub(crate) plane: ControlPlane,
    pub(crate) settings: Settings,
    pub(crate) running: Running,
    pub(crate) seal: Seal,
    pub(crate) attempts: Attempts,
    pub(crate) logged_out: Loggedout,
    pub(crate) census: Census,
    pub(crate) ahead: Ahead,
    pub(crate) titles: Titles,
    pub(crate) rooms: Rooms,
    ending: watch::Sender<bool>,
}

impl std::ops::Deref for Console {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Console {
    /// A console over a control plane. `key` seals its cookies: whoever has it
    /// can log in as anyone.
    pub fn new(plane: ControlPlane, key: [u8; 32], settings: Settings, running: Running) -> Self {
        Self(Arc::new(Parts {
            seal: Seal::new(key),
            attempts: Attempts::default(),
            logged_out: Loggedout::default(),
            census: Census::default(),
            ahead: Ahead::default(),
            titles: Titles::default(),
            rooms: Rooms::default(),
            ending: watch::Sender::new(false),
            plane,
            settings,
            running,
        }))
    }

    /// Starts what runs in the background.
    pub fn start(&self) -> AbortHandle {
        let console = self.clone();
        tokio::spawn(async move { console.census.keep(&console.plane).await }).abort_handle()
    }

    /// Lets those who watch go: they would stay until the end.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// The story of the demonstration, if this is one.
    pub(crate) fn story(&self) -> Option<Story> {
        Story::read(self.settings.story.as_deref()?)
    }

    /// The sign for those who watch to go.
    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }
}
