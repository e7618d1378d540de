//! A deterministic scheduler: all tasks of a world run on one thread, and the seed decides
//! which ready task runs next. Time is tokio's paused time, which jumps to the next timer
//! when no task is ready.
//!
//! Tasks belong to a simulated process, whose tasks are killed, or paused for a while,
//! together. Ready tasks are a set, not a queue, so that the order in which they were
//! woken does not matter.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::chance;

/// A simulated process: tasks that are killed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProcessId(u64);

/// The process that is never killed: the network, clients, operators.
pub(crate) const WORLD: ProcessId = ProcessId(0);

/// The task that runs the world.
const MAIN: u64 = 0;

type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
struct Scheduler {
    tasks: BTreeMap<u64, (ProcessId, Option<TaskFuture>)>,
    halted: BTreeSet<ProcessId>,
    last_task: u64,
    next_process: u64,
    ready: Arc<ReadyTasks>,
}

#[derive(Default)]
struct ReadyTasks {
    tasks: Mutex<BTreeSet<u64>>,
    root: Mutex<Option<Waker>>,
}

impl ReadyTasks {
    fn insert(&self, task: u64) {
        self.tasks.lock().unwrap().insert(task);
        if let Some(root) = self.root.lock().unwrap().take() {
            root.wake();
        }
    }
}

struct TaskWaker {
    task: u64,
    ready: Arc<ReadyTasks>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.insert(self.task);
    }
}

thread_local! {
    static SCHEDULER: RefCell<Scheduler> = RefCell::default();
}

fn with<T>(act: impl FnOnce(&mut Scheduler) -> T) -> T {
    SCHEDULER.with_borrow_mut(act)
}

/// Creates a process.
pub(crate) fn new_process() -> ProcessId {
    with(|scheduler| {
        scheduler.next_process += 1;
        ProcessId(scheduler.next_process)
    })
}

/// Starts a task in a process.
pub(crate) fn spawn(process: ProcessId, play: impl Future<Output = ()> + Send + 'static) {
    with(|scheduler| {
        scheduler.last_task += 1;
        let task = scheduler.last_task;
        scheduler
            .tasks
            .insert(task, (process, Some(Box::pin(play))));
        scheduler.ready.insert(task);
    });
}

/// Kills every task of a process.
pub(crate) fn kill(process: ProcessId) {
    let killed: Vec<_> = with(|scheduler| {
        scheduler.halted.remove(&process);
        let (gone, rest) = std::mem::take(&mut scheduler.tasks)
            .into_iter()
            .partition(|(_, (of, _))| *of == process);
        scheduler.tasks = rest;
        let gone: BTreeMap<u64, (ProcessId, Option<TaskFuture>)> = gone;
        gone.into_values().collect()
    });
    // Drop the tasks after the scheduler is released: their destructors may use it.
    drop(killed);
}

/// Pauses all tasks of a process until [`resume`].
pub(crate) fn halt(process: ProcessId) {
    with(|scheduler| scheduler.halted.insert(process));
}

/// Resumes a process.
pub(crate) fn resume(process: ProcessId) {
    with(|scheduler| {
        scheduler.halted.remove(&process);
        if let Some(root) = scheduler.ready.root.lock().unwrap().take() {
            root.wake();
        }
    });
}

/// Runs a world to its end.
pub(crate) fn run<T>(main: impl Future<Output = T>) -> T {
    SCHEDULER.take();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let _emptied = ClearOnDrop(&runtime);
    let ready = with(|scheduler| scheduler.ready.clone());
    ready.insert(MAIN);
    let mut main = std::pin::pin!(main);
    let playing = std::future::poll_fn(|context| {
        loop {
            let Some(task) = pick_next(&ready) else {
                *ready.root.lock().unwrap() = Some(context.waker().clone());
                return Poll::Pending;
            };
            let call = Waker::from(Arc::new(TaskWaker {
                task,
                ready: ready.clone(),
            }));
            let mut own = Context::from_waker(&call);
            if task == MAIN {
                if let Poll::Ready(end) = main.as_mut().poll(&mut own) {
                    return Poll::Ready(end);
                }
            } else {
                run_task(task, &mut own);
            }
        }
    });
    // Without tokio's cooperative budget, which would count all tasks together.
    runtime.block_on(tokio::task::unconstrained(playing))
}

/// Drops all tasks at the end of the world, also after a panic: their destructors may need
/// the runtime's time.
struct ClearOnDrop<'a>(&'a tokio::runtime::Runtime);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        let _guard = self.0.enter();
        drop(SCHEDULER.take());
    }
}

/// Picks one of the ready tasks.
fn pick_next(ready: &ReadyTasks) -> Option<u64> {
    with(|scheduler| {
        let mut tasks = ready.tasks.lock().unwrap();
        tasks.retain(|task| *task == MAIN || scheduler.tasks.contains_key(task));
        let may = |task: &&u64| {
            let process = scheduler.tasks.get(task).map(|(process, _)| *process);
            process.is_none_or(|process| !scheduler.halted.contains(&process))
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

fn run_task(task: u64, context: &mut Context<'_>) {
    let play = with(|scheduler| {
        scheduler
            .tasks
            .get_mut(&task)
            .and_then(|(_, play)| play.take())
    });
    let Some(mut play) = play else {
        return;
    };
    let is_over = play.as_mut().poll(context).is_ready();
    let done = with(
        |scheduler| match (is_over, scheduler.tasks.get_mut(&task)) {
            (false, Some((_, place))) => {
                *place = Some(play);
                None
            }
            // Finished, or killed meanwhile.
            _ => {
                let gone = scheduler.tasks.remove(&task);
                Some((play, gone))
            }
        },
    );
    drop(done);
}
