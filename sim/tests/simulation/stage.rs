//! The stage: every task of a world on one thread, and a seed that says which
//! of those that could go on goes on next. Time is tokio's, paused: it jumps
//! to the next timer when nothing else can happen.
//!
//! Tasks belong to a troupe, which stands for a process: it is killed, or
//! halted for a while, as one. Those that are ready are a set, not a queue, so
//! that the order in which they were woken decides nothing.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::chance;

/// Tasks that live and die together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Troupe(u64);

/// What nobody kills: the network, clients, operators.
pub(crate) const WORLD: Troupe = Troupe(0);

/// The task that the world's run is.
const MAIN: u64 = 0;

type Play = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct Stage {
    tasks: BTreeMap<u64, (Troupe, Option<Play>)>,
    halted: BTreeSet<Troupe>,
    last_task: u64,
    last_troupe: u64,
    ready: Arc<Ready>,
}

#[derive(Default)]
struct Ready {
    tasks: Mutex<BTreeSet<u64>>,
    root: Mutex<Option<Waker>>,
}

impl Ready {
    fn put(&self, task: u64) {
        self.tasks.lock().unwrap().insert(task);
        if let Some(root) = self.root.lock().unwrap().take() {
            root.wake();
        }
    }
}

struct Call {
    task: u64,
    ready: Arc<Ready>,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.ready.put(self.task);
    }
}

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::default();
}

fn with<T>(act: impl FnOnce(&mut Stage) -> T) -> T {
    STAGE.with_borrow_mut(act)
}

/// A troupe of its own.
pub(crate) fn troupe() -> Troupe {
    with(|stage| {
        stage.last_troupe += 1;
        Troupe(stage.last_troupe)
    })
}

/// Lets a task run.
pub(crate) fn spawn(troupe: Troupe, play: impl Future<Output = ()> + Send + 'static) {
    with(|stage| {
        stage.last_task += 1;
        let task = stage.last_task;
        stage.tasks.insert(task, (troupe, Some(Box::pin(play))));
        stage.ready.put(task);
    });
}

/// Ends every task of a troupe, wherever it is.
pub(crate) fn kill(troupe: Troupe) {
    let killed: Vec<_> = with(|stage| {
        stage.halted.remove(&troupe);
        let (gone, rest) = std::mem::take(&mut stage.tasks)
            .into_iter()
            .partition(|(_, (of, _))| *of == troupe);
        stage.tasks = rest;
        let gone: BTreeMap<u64, (Troupe, Option<Play>)> = gone;
        gone.into_values().collect()
    });
    // What they held is let go of when the stage is free again.
    drop(killed);
}

/// Lets no task of a troupe go on until [`resume`].
pub(crate) fn halt(troupe: Troupe) {
    with(|stage| stage.halted.insert(troupe));
}

/// Lets a troupe go on.
pub(crate) fn resume(troupe: Troupe) {
    with(|stage| {
        stage.halted.remove(&troupe);
        if let Some(root) = stage.ready.root.lock().unwrap().take() {
            root.wake();
        }
    });
}

/// Plays a world to its end.
pub(crate) fn run<T>(main: impl Future<Output = T>) -> T {
    STAGE.take();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _emptied = Emptied(&runtime);
    let ready = with(|stage| stage.ready.clone());
    ready.put(MAIN);
    let mut main = std::pin::pin!(main);
    let playing = std::future::poll_fn(|context| {
        loop {
            let Some(task) = next(&ready) else {
                *ready.root.lock().unwrap() = Some(context.waker().clone());
                return Poll::Pending;
            };
            let call = Waker::from(Arc::new(Call {
                task,
                ready: ready.clone(),
            }));
            let mut own = Context::from_waker(&call);
            if task == MAIN {
                if let Poll::Ready(end) = main.as_mut().poll(&mut own) {
                    return Poll::Ready(end);
                }
            } else {
                act(task, &mut own);
            }
        }
    });
    // Without a budget: that is counted over all of them together.
    runtime.block_on(tokio::task::unconstrained(playing))
}

/// Empties the stage when the world is over, also when it ended in a panic: who
/// is on it may need the world's time to leave.
struct Emptied<'a>(&'a tokio::runtime::Runtime);

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        let _guard = self.0.enter();
        drop(STAGE.take());
    }
}

/// One of the tasks that can go on.
fn next(ready: &Ready) -> Option<u64> {
    with(|stage| {
        let mut tasks = ready.tasks.lock().unwrap();
        tasks.retain(|task| *task == MAIN || stage.tasks.contains_key(task));
        let may = |task: &&u64| {
            let troupe = stage.tasks.get(task).map(|(troupe, _)| *troupe);
            troupe.is_none_or(|troupe| !stage.halted.contains(&troupe))
        };
        let able: Vec<u64> = tasks.iter().filter(may).copied().collect();
        if able.is_empty() {
            return None;
        }
        let chosen = able[chance::below(able.len() as u64) as usize];
        tasks.remove(&chosen);
        Some(chosen)
    })
}

fn act(task: u64, context: &mut Context<'_>) {
    let play = with(|stage| stage.tasks.get_mut(&task).and_then(|(_, play)| play.take()));
    let Some(mut play) = play else {
        return;
    };
    let is_over = play.as_mut().poll(context).is_ready();
    let done = with(|stage| match (is_over, stage.tasks.get_mut(&task)) {
        (false, Some((_, place))) => {
            *place = Some(play);
            None
        }
        // Over, or killed meanwhile.
        _ => {
            let gone = stage.tasks.remove(&task);
            Some((play, gone))
        }
    });
    drop(done);
}
