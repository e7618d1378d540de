//! The product's routers, each a process with its own cache, reached by clients over the
//! simulated network.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use ballast_control_plane::route_source::RegistryRoutes;
use ballast_domain::ShardId;
use ballast_domain::registry::Registry;
use ballast_router::{
    KeyPlaces, MemoryView, RouterPorts, RouterSettings, RouterState, follow, router,
};
use ballast_vote_shard::archive::{Archive, ArchiveDirectory};
use ballast_vote_shard::{ShardError, ShardResult};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tower::ServiceExt;

use crate::chance::{self, SeededEntropy};
use crate::net::{Caller, NetworkShards};
use crate::nodes::Nodes;
use crate::registry::RemoteRegistry;
use crate::scheduler::{self, ProcessId};
use crate::trace::{self, SimClock, note};
use crate::weather;

/// A router, and whether it runs.
pub(crate) struct RouterProcess {
    number: usize,
    registry: RemoteRegistry,
    nodes: Arc<Nodes>,
    up: Mutex<Option<(Router, ProcessId)>>,
}

/// Polls are not archived in these worlds.
struct NoFiles;

impl ArchiveDirectory for NoFiles {
    fn archive(&self, _: &ShardId) -> ShardResult<Archive> {
        Err(ShardError::unavailable("there are no files"))
    }
}

fn settings() -> RouterSettings {
    RouterSettings {
        key_places: KeyPlaces::default(),
        cache_entries: 1_000,
        cache_ttl: Duration::from_secs(60),
        public_url: "http://ballast.example".to_owned(),
        results_max_age: Duration::from_secs(5),
        hold_max: Duration::from_secs(5),
        held_max: 1_000,
        held_per_tenant_max: 1_000,
        held_bytes_max: 1 << 30,
        held_bytes_per_tenant_max: 1 << 30,
        dual_read_sample: 2,
        viewers_max: 10,
        viewers_per_tenant_max: 10,
        count_load: true,
    }
}

impl RouterProcess {
    pub(crate) fn start(number: usize, registry: &RemoteRegistry, nodes: &Arc<Nodes>) -> Arc<Self> {
        let process = Arc::new(Self {
            number,
            registry: registry.clone(),
            nodes: nodes.clone(),
            up: Mutex::new(None),
        });
        process.open();
        process
    }

    pub(crate) fn open(&self) {
        let mut up = self.up.lock().unwrap();
        if up.is_some() {
            return;
        }
        note!("router {} starts", self.number);
        let process = scheduler::new_process();
        let source = Arc::new(RegistryRoutes::new(Arc::new(self.registry.clone())));
        let network = NetworkShards {
            caller: Caller::Router(self.number),
            nodes: self.nodes.clone(),
        };
        let ports = RouterPorts {
            clock: Arc::new(SimClock),
            entropy: Arc::new(SeededEntropy),
            source,
            shards: Arc::new(network),
            archives: Arc::new(NoFiles),
            view: Arc::new(MemoryView::default()),
        };
        let state = RouterState::new(settings(), ports);
        *up = Some((router(state.clone()), process));
        let registry = self.registry.clone();
        scheduler::spawn(process, async move {
            let revision = loop {
                match registry.revision().await {
                    Ok(revision) => break revision,
                    Err(_) => sleep(Duration::from_millis(100)).await,
                }
            };
            follow(state, revision).await;
        });
    }

    pub(crate) fn crash(&self) {
        let taken = self.up.lock().unwrap().take();
        if let Some((_, process)) = taken {
            note!("router {} crashes", self.number);
            trace::count(|counts| counts.crashes += 1);
            scheduler::kill(process);
        }
    }

    /// Sends a request, and returns the answer if there is one. A client that stops
    /// waiting closes the connection, which the router may or may not notice.
    pub(crate) async fn ask(&self, request: Request<Body>) -> Option<Response<Body>> {
        let delivery = weather::draw_fate();
        sleep(delivery.there).await;
        if delivery.lost {
            return std::future::pending().await;
        }
        let (app, process) = self.up.lock().unwrap().clone()?;
        let (mut sender, receiver) = oneshot::channel();
        let notices = chance::happens(500);
        scheduler::spawn(process, async move {
            let answering = app.oneshot(request);
            let answer = if notices {
                tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    answer = answering => answer,
                }
            } else {
                answering.await
            };
            sleep(delivery.back).await;
            let _ = sender.send(answer.unwrap());
        });
        let answer = receiver.await.ok()?;
        if delivery.unanswered {
            return std::future::pending().await;
        }
        Some(answer)
    }
}
