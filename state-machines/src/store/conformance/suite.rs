//! Lists the cases: one test for each.

/// The cases of every store, for a
/// [`StoreFixture`](crate::store::conformance::StoreFixture).
#[macro_export]
macro_rules! store_suite {
    ($fixture:ty) => {
        $crate::store_cases! { $fixture:
            definitions {
                saving_a_definition_again_changes_nothing
                a_withdrawn_deployment_is_gone
                a_name_refers_to_the_last_definition
                a_hash_names_one_text
            }
            creating {
                an_execution_reads_as_it_was_created
                creating_again_returns_the_existing_execution
                an_id_names_one_execution
                many_creations_at_once_make_one
                an_unknown_definition_is_refused
                an_execution_may_end_at_once
            }
            steps {
                steps_follow_each_other
                a_stale_step_changes_nothing
                history_ids_continue_without_gaps
                one_of_two_concurrent_steps_succeeds
                a_step_may_have_no_entries
                an_ended_execution_accepts_no_steps
                a_missing_execution_accepts_no_steps
                texts_are_read_back_verbatim
                too_large_texts_are_refused
                contradictory_states_are_refused
            }
            leases {
                a_worker_without_its_lease_is_refused
                a_lease_expires
                a_renewed_lease_lasts_longer
                a_lost_lease_is_not_renewed
                parking_releases_the_lease
                one_execution_is_claimed_by_its_id
                a_restarted_worker_releases_its_leases
                concurrent_claims_get_different_executions
            }
            waking {
                a_parked_execution_wakes_in_time
                without_a_time_nothing_is_due
                the_oldest_due_come_first
                an_expired_lease_is_due_among_the_others
                the_next_wake_time_is_known
                changes_are_announced
            }
            messages {
                a_message_makes_an_execution_due_at_once
                a_message_does_not_postpone_the_wake_time
                a_message_is_marked_as_read_once
                a_refused_step_marks_nothing_as_read
                an_unread_message_prevents_parking
                a_worker_reads_the_messages_of_its_executions
                a_key_names_one_message
                a_message_is_found_by_its_key
                only_open_executions_accept_messages
                an_inbox_can_be_full
            }
            reading {
                a_claim_has_the_snapshot_and_later_entries
                claims_do_not_mix
                lists_are_filtered_and_paged
                lists_show_executions_as_single_reads_do
                executions_are_counted
                histories_are_paged
                histories_can_be_read_from_any_event
                large_histories_come_in_smaller_pages
            }
            crowds {
                many_executions_step_at_once
                workers_take_executions_over_from_each_other
                concurrent_messages_are_all_read
            }
            forgetting {
                the_oldest_ends_are_deleted_first
                a_deleted_execution_leaves_nothing
                long_executions_are_deleted_too
            }
            reopening {
                everything_survives_reopening
                numbers_are_not_reused
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
    /// Cases are public, so the compiler does not report one that is missing from
    /// the list.
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
