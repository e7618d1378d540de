//! The console's shared state and settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ballast_control_plane::ControlPlane;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::census::Census;
use crate::forecasts::ForecastCache;
use crate::live::StreamLimits;
use crate::ports::Running;
use crate::session::{LoggedOutSessions, LoginFailures, TokenCipher};
use crate::story::Story;
use crate::titles::TitleCache;

/// The console's settings.
#[derive(Debug, Clone)]
pub struct ConsoleSettings {
    /// The longest lifetime of a login session.
    pub session: Duration,
    /// Whether browsers connect over HTTPS; cookies are then marked `Secure`.
    pub secure: bool,
    /// The public URL of this server.
    pub public_url: String,
    /// The demonstration's progress file, if a demonstration is running.
    pub story: Option<PathBuf>,
}

/// The console. Cheap to clone.
#[derive(Clone)]
pub struct Console(Arc<ConsoleParts>);

/// The console's parts, for this crate only.
#[allow(
    unreachable_pub,
    reason = "the Deref target of a public type must be public"
)]
pub struct ConsoleParts {
    pub(crate) plane: ControlPlane,
    pub(crate) settings: ConsoleSettings,
    pub(crate) running: Running,
    pub(crate) cipher: TokenCipher,
    pub(crate) login_failures: LoginFailures,
    pub(crate) logged_out: LoggedOutSessions,
    pub(crate) census: Census,
    pub(crate) forecasts: ForecastCache,
    pub(crate) titles: TitleCache,
    pub(crate) stream_limits: StreamLimits,
    ending: watch::Sender<bool>,
}

impl std::ops::Deref for Console {
    type Target = ConsoleParts;
    fn deref(&self) -> &ConsoleParts {
        &self.0
    }
}

impl Console {
    /// Creates a console over a control plane. `key` encrypts its cookies; anyone who
    /// has it can log in as any operator.
    pub fn new(
        plane: ControlPlane,
        key: [u8; 32],
        settings: ConsoleSettings,
        running: Running,
    ) -> Self {
        Self(Arc::new(ConsoleParts {
            cipher: TokenCipher::new(key),
            login_failures: LoginFailures::default(),
            logged_out: LoggedOutSessions::default(),
            census: Census::default(),
            forecasts: ForecastCache::default(),
            titles: TitleCache::default(),
            stream_limits: StreamLimits::default(),
            ending: watch::Sender::new(false),
            plane,
            settings,
            running,
        }))
    }

    /// Starts the census task.
    pub fn start(&self) -> AbortHandle {
        let console = self.clone();
        tokio::spawn(async move { console.census.run(&console.plane).await }).abort_handle()
    }

    /// Closes all live streams, so that shutdown does not wait for them.
    pub fn close_streams(&self) {
        self.ending.send_replace(true);
    }

    /// The demonstration's progress, if one is running.
    pub(crate) fn story(&self) -> Option<Story> {
        Story::read(self.settings.story.as_deref()?)
    }

    /// The signal that closes live streams.
    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }
}
