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
        a_name_means_one_execution
        invalid_starts_are_refused
        long_runs_are_resumed_from_a_snapshot
        ten_thousand_waits_use_no_memory
    }
    failing {
        a_task_that_times_out_is_stopped
        a_task_without_heartbeats_is_stopped
        a_panic_fails_the_task
        an_input_that_cannot_be_parsed_fails_the_task
        a_result_that_is_too_large_fails_the_task
    }
    asking {
        a_callback_task_waits_for_its_signal
        only_awaited_tokens_are_accepted
        a_signal_may_arrive_early
        a_callback_task_can_time_out
        a_paused_execution_starts_no_tasks
        a_cancelled_execution_stops_its_tasks
        commands_to_missing_executions_are_refused
    }
    nesting {
        a_parent_that_waits_uses_no_memory
        responses_have_the_shape_of_step_functions
        a_child_that_fails_fails_its_task
        a_child_that_cannot_start_fails_its_task
        a_workflow_that_starts_itself_ends
        parents_need_no_task_permits
        a_child_ends_with_its_parent
        a_parent_checks_a_child_of_another_start
        parents_and_children_survive_a_crash
    }
    crashing {
        a_task_in_flight_is_run_again
        a_crash_does_not_extend_a_timeout
        a_crash_restarts_the_heartbeat_timeout
        a_lost_lease_stops_the_tasks
        a_task_sees_the_remaining_lease_time
        a_stop_lets_tasks_finish
        an_execution_without_its_handler_waits
        running_every_task_twice_changes_nothing
        starts_during_a_stop_do_not_hang
    }
}
