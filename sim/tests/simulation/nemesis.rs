//! The faults of a storm in addition to those of messages: crashes of shards, routers and
//! the registry, and failing disks.

use std::sync::Arc;

use ballast_vote_shard::embedded::disk::Crash;
use tokio::time::sleep;

use crate::chance;
use crate::nodes::Nodes;
use crate::registry::RemoteRegistry;
use crate::routers::RouterProcess;
use crate::scheduler;
use crate::trace::{note, now_ms};

const CRASHES: [Crash; 3] = [Crash::Killed, Crash::PowerLost, Crash::PowerLostInTheMiddle];

pub(crate) struct Nemesis {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) registry: RemoteRegistry,
    pub(crate) routers: Vec<Arc<RouterProcess>>,
}

impl Nemesis {
    /// Injects faults until the given time, then restarts everything.
    pub(crate) async fn rage(&self, until_ms: u64) {
        let ids = self.nodes.ids();
        while now_ms() < until_ms {
            sleep(chance::ms(20, 2_500)).await;
            let id = chance::pick(&ids).clone();
            match chance::below(10) {
                0..=3 => {
                    self.nodes.crash(&id, *chance::pick(&CRASHES));
                    self.later(move |nodes| start(nodes, &id));
                }
                4 => {
                    let syncs = chance::within(1, 6) as u32;
                    note!("{id}: a sync will fail");
                    self.nodes.spoil(&id, |disk| disk.fail_sync(syncs));
                }
                5 | 6 => {
                    let changes = chance::within(1, 30) as u32;
                    note!("{id}: the machine will stop");
                    self.nodes.spoil(&id, |disk| disk.stop_in(changes));
                    self.later(move |nodes| {
                        nodes.crash(&id, *chance::pick(&CRASHES));
                        start(nodes, &id);
                    });
                }
                7 | 8 => {
                    let router = chance::pick(&self.routers).clone();
                    router.crash();
                    self.later(move |_| router.open());
                }
                _ => {
                    self.registry.crash();
                    let registry = self.registry.clone();
                    self.later(move |_| registry.restart());
                }
            }
        }
        // Restart everything now, from whatever state it is in.
        for id in &ids {
            self.nodes.crash(id, *chance::pick(&CRASHES));
            self.nodes.open(id);
        }
        self.registry.restart();
        for router in &self.routers {
            router.open();
        }
    }

    fn later(&self, mend: impl FnOnce(&Nodes) + Send + 'static) {
        let nodes = self.nodes.clone();
        let pause = chance::ms(5, 3_000);
        scheduler::spawn(scheduler::WORLD, async move {
            sleep(pause).await;
            mend(&nodes);
        });
    }
}

fn start(nodes: &Nodes, id: &ballast_domain::ShardId) {
    if nodes.up(id).is_none() {
        nodes.open(id);
    }
}
