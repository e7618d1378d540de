//! Which cases there are: one test for each.

/// The cases of every store, for a
/// [`Fixture`](crate::store::conformance::Fixture).
#[macro_export]
macro_rules! store_suite {
    ($fixture:ty) => {
        $crate::store_cases! { $fixture:
            definitions {
                a_definition_is_kept_once
                a_name_that_is_withdrawn_stands_for_nothing
                a_name_stands_for_the_last_one
                a_hash_names_one_text
            }
            creating {
                an_execution_reads_as_it_was_created
                creating_again_answers_with_what_is_there
                an_id_names_one_execution
                many_creations_at_once_make_one
                an_unknown_definition_is_refused
                an_execution_may_end_at_once
            }
            steps {
                steps_follow_each_other
                a_stale_step_changes_nothing
                a_history_goes_on_where_it_ended
                one_of_two_steps_happens
                a_step_may_have_no_entries
                an_ended_execution_takes_no_step
                an_unknown_execution_takes_no_step
                what_is_written_is_read_verbatim
                too_large_texts_are_refused
                a_standing_must_not_contradict_itself
            }
            leases {
                an_old_worker_is_refused_whole
                a_lease_runs_out
                a_renewed_lease_holds
                a_lost_lease_is_not_renewed
                parking_gives_the_lease_up
                one_is_claimed_by_its_id
                a_worker_takes_back_what_it_held
                claims_at_once_share_nothing
            }
            waking {
                a_parked_execution_wakes_in_time
                without_a_time_nothing_is_due
                the_oldest_due_come_first
                a_lost_lease_is_due_among_the_others
                the_next_wake_time_is_known
                changes_are_told
            }
            messages {
                a_message_makes_due_at_once
                a_message_does_not_put_off
                a_message_is_taken_once_with_its_step
                a_refused_step_takes_no_message
                parking_does_not_sleep_through_a_message
                a_holder_asks_for_its_messages
                a_key_names_one_message
                a_message_is_found_by_its_key
                only_an_open_execution_gets_messages
                an_inbox_can_be_full
            }
            reading {
                a_claim_has_the_snapshot_and_what_came_after
                claims_do_not_mix
                lists_are_filtered_and_paged
                lists_show_what_is_there
                executions_are_counted
                histories_are_paged
                histories_begin_anywhere
                large_histories_come_in_smaller_pages
            }
            crowds {
                many_executions_step_at_once
                many_workers_hand_executions_on
                many_senders_are_all_heard
            }
            forgetting {
                the_oldest_ends_are_forgotten
                a_forgotten_execution_leaves_nothing
                long_executions_are_forgotten_too
            }
            reopening {
                everything_is_as_it_was
                numbers_go_on
                a_crash_loses_nothing_that_was_answered
            }
        }
    };
}

/// One test for each case.
#[doc(hidden)]
#[macro_export]
macro_rules! store_cases {
    ($fixture:ty: $($module:ident { $($case:ident)+ })+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::store::conformance::$module::$case::<$fixture>().await;
            }
        )+)+
    };
}

#[cfg(test)]
mod tests {
    /// Cases are public, so the compiler does not miss one that is not listed.
    #[test]
    fn every_case_is_listed() {
        let listed = include_str!("suite.rs");
        for source in [
            include_str!("creating.rs"),
            include_str!("crowds.rs"),
            include_str!("definitions.rs"),
            include_str!("forgetting.rs"),
            include_str!("leases.rs"),
            include_str!("messages.rs"),
            include_str!("reading.rs"),
            include_str!("reopening.rs"),
            include_str!("steps.rs"),
            include_str!("waking.rs"),
        ] {
            let cases = source.lines().filter_map(|line| {
                let case = line.strip_prefix("pub async fn ")?;
                case.split_once('<').map(|(name, _)| name)
            });
            for case in cases {
                let line = format!("                {case}\n");
                assert!(listed.contains(&line), "{case} is not in the suite");
            }
        }
    }
}
