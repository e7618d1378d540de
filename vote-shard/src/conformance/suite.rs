//! The list of cases: one test each.

/// The cases of every engine, for a [`ShardFixture`](crate::conformance::ShardFixture).
#[macro_export]
macro_rules! vote_shard_suite {
    ($fixture:ty) => {
        $crate::vote_shard_cases! { $fixture:
            fence {
                an_unknown_slice_accepts_no_write
                a_slice_is_adopted_only_at_the_first_epoch
                adopting_a_known_slice_changes_nothing
                only_the_owner_at_exactly_its_epoch_accepts_a_write
                only_adopting_and_preparing_create_a_record
                a_prepared_slice_is_owned_when_it_is_activated
                a_record_outlives_its_data
                the_epoch_never_falls
                a_slice_comes_back_only_where_it_is_not_owned
                fences_survive_reopening
                slices_are_apart
            }
            late {
                a_late_worker_is_refused_at_every_step
                a_newer_worker_shuts_out_the_older_one
                another_migration_is_refused
                only_what_is_not_owned_is_purged
                a_slice_is_purged_in_portions
                only_an_importing_slice_is_imported_into
                every_step_can_be_repeated
                commands_of_a_cancelled_migration_are_stale
                a_kept_copy_is_reused
                a_slice_moves_there_and_back
            }
            versions {
                a_row_is_taken_only_when_its_version_is_higher
                a_poll_is_taken_only_when_its_version_is_higher
                a_copy_equals_its_source_and_importing_twice_changes_nothing
                the_order_of_imports_does_not_matter
                versions_continue_after_a_migration
                a_row_waits_for_its_poll
                imported_counts_are_counted_once
                an_erased_voter_cannot_vote_twice
            }
            copies {
                an_export_is_the_same_slice_elsewhere
                an_export_follows_the_changes
                a_new_poll_comes_before_its_rows
                an_export_is_resumed_after_reopening
                an_export_may_begin_again
                an_export_is_of_one_slice
                a_cursor_goes_on_or_is_too_old
                scrubbing_finds_the_digests_that_were_kept
            }
            cuts {
                a_split_changes_nothing_but_the_slice
                a_merge_joins_what_was_split
                a_recut_can_be_repeated
                a_late_recut_is_refused
                a_recut_with_mismatched_ranges_is_refused
                a_poll_must_belong_to_its_slice
                a_parent_is_gone_for_good
                a_child_moves_like_any_slice
                a_recut_publishes_the_counts_again
                an_archived_poll_keeps_its_file
            }
            repeats {
                a_vote_counts_once
                a_repeated_request_gets_its_first_answer
                a_request_repeated_within_a_batch_is_answered_once
                the_last_four_requests_are_remembered
                requests_are_remembered_across_reopening
                requests_are_remembered_across_a_migration
                a_demanded_revision_must_be_the_row_s
                several_choices_share_one_row
                a_vote_is_changed_and_withdrawn
                each_voter_is_a_linearizable_register
            }
            polls {
                a_request_creates_one_poll
                an_id_names_one_poll
                many_attempts_at_once_make_one_poll
                the_shard_says_when_a_poll_was_created
                a_poll_is_closed_for_good
                widening_only_adds_lanes
                narrowing_loses_no_vote
                awaited_polls_are_listed
                polls_come_in_the_order_of_their_ids
                an_unknown_poll_is_not_found
                polls_survive_reopening
            }
            digests {
                the_digest_is_the_sum_over_the_rows
                lanes_add_up_to_what_the_rows_say
                every_change_moves_the_digest
                the_order_of_rows_does_not_matter
                every_poll_has_a_digest
                a_slice_s_digest_is_the_sum_over_its_polls
                a_slice_s_digest_follows_copies_and_removals
                a_ready_slice_only_gains_rows
            }
            archives {
                only_matching_rows_of_a_closed_poll_are_replaced_by_a_file
                an_archived_poll_keeps_its_counts
                a_shard_does_not_guess_what_a_file_holds
                a_poll_is_archived_once
                an_archived_poll_moves_with_its_reference
            }
            times {
                a_scheduled_poll_opens_in_time
                a_vote_is_judged_by_its_arrival_within_the_allowance
                a_repetition_is_answered_however_late
                an_expired_poll_is_closed_by_its_owner
                a_poll_that_expired_meanwhile_is_closed_after_reopening
                a_poll_does_not_close_after_its_expiration
                nothing_is_accepted_after_the_closing
                time_never_runs_backwards
                a_sealed_slice_is_not_closed_by_time
                an_expired_poll_takes_no_first_votes
            }
            tallies {
                a_tally_counts_votes_and_voters
                mark_zero_gives_all_open_polls
                a_mark_gives_what_changed_after_it
                a_follower_of_marks_sees_every_total
                nothing_is_published_when_nothing_changed
                totals_are_exact_after_reopening
                a_purged_poll_has_no_tally
                usage_counts_what_is_there
            }
            votes {
                a_batch_is_judged_ballot_by_ballot
                an_empty_batch_has_no_verdicts
                the_largest_batch_is_judged
                many_clients_at_once_are_counted_once_each
                a_row_records_choices_revisions_requests_and_time
                a_full_shard_takes_no_new_voters
            }
        }
    };
}

/// The cases of engines whose writes can be held, for a
/// [`SyncGate`](crate::conformance::SyncGate).
#[macro_export]
macro_rules! vote_shard_gate_suite {
    ($fixture:ty) => {
        $crate::vote_shard_cases! { $fixture:
            durable {
                no_answer_precedes_the_vote_it_depends_on
                no_answer_precedes_a_vote_that_waits_its_turn
                no_answer_precedes_the_poll_it_depends_on
                no_answer_precedes_the_fence_it_depends_on
                no_answer_precedes_the_removal_it_depends_on
                no_answer_precedes_the_recut_it_depends_on
                a_failed_recut_leaves_its_parent_sealed
                an_export_contains_only_durable_data
                a_failed_write_fails_all_dependent_answers
                acknowledged_answers_survive_a_failure
                a_seal_waits_for_the_writes_before_it
                a_seal_after_a_failed_write_is_final
            }
        }
    };
}

/// One test for each case.
#[doc(hidden)]
#[macro_export]
macro_rules! vote_shard_cases {
    ($fixture:ty: $($module:ident { $($case:ident)+ })+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::conformance::$module::$case::<$fixture>().await;
            }
        )+)+
    };
}

#[cfg(test)]
mod tests {
    /// Cases are public, so the compiler does not detect unlisted ones.
    #[test]
    fn every_case_is_listed() {
        let listed = include_str!("suite.rs");
        for source in [
            include_str!("archives.rs"),
            include_str!("copies.rs"),
            include_str!("cuts.rs"),
            include_str!("digests.rs"),
            include_str!("durable.rs"),
            include_str!("fence.rs"),
            include_str!("late.rs"),
            include_str!("polls.rs"),
            include_str!("repeats.rs"),
            include_str!("tallies.rs"),
            include_str!("times.rs"),
            include_str!("versions.rs"),
            include_str!("votes.rs"),
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
