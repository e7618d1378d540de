//! Tests of the durable engine on every store: running, refusing, and resuming after
//! crashes. Most tests move a manual clock and never sleep.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod asking;
mod crashing;
mod definitions;
mod failing;
mod killed;
mod nesting;
mod paused;
#[cfg(feature = "testing")]
mod random;
mod running;
mod thinking;
mod world;

use world::{MemoryEnvironment, SqliteEnvironment, TestEnvironment};

macro_rules! suite {
    ($($module:ident { $($case:ident)+ })+) => {
        mod memory {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    world::within_case(stringify!($case), async {
                        $module::$case(MemoryEnvironment::fresh().await).await;
                    })
                    .await;
                }
            )+)+
        }
        mod sqlite {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    world::within_case(stringify!($case), async {
                        $module::$case(SqliteEnvironment::fresh().await).await;
                    })
                    .await;
                }
            )+)+
        }
    };
}

suite! {
    running {
        a_workflow_completes
        a_retry_waits_for_its_time
        branches_and_iterations_run
        a_name_is_one_execution
        what_cannot_be_started_is_refused
        long_runs_are_snapshotted_and_read_back
        ten_thousand_wait_in_no_memory
    }
    failing {
        a_task_that_takes_too_long_is_stopped
        a_task_that_falls_silent_is_stopped
        a_panic_fails_the_task
        a_handler_must_understand_its_input
        an_answer_that_cannot_be_kept_fails_the_task
    }
    asking {
        a_callback_is_waited_for
        only_what_is_waited_for_is_answered
        a_callback_may_be_early
        a_callback_may_be_too_late
        a_pause_begins_nothing
        a_cancelled_execution_stops_its_tasks
        what_is_asked_of_nobody_is_refused
    }
    nesting {
        a_child_is_waited_for_in_no_memory
        answers_have_the_shape_of_step_functions
        a_child_that_fails_fails_its_task
        what_cannot_be_started_fails_its_task
        a_workflow_that_starts_itself_ends
        parents_take_no_places
        a_child_ends_with_its_parent
        a_child_of_others_is_looked_at
        parents_and_children_survive_a_crash
    }
    crashing {
        a_task_in_flight_is_run_again
        a_crash_gives_a_task_no_more_time
        a_crash_is_no_silence
        a_lost_lease_stops_the_tasks
        a_task_knows_how_long_it_is_held
        a_stop_lets_tasks_finish
        without_its_handler_an_execution_waits
        everything_twice_ends_the_same
        starts_and_a_stop_at_once
    }
}
