//! Which cases there are: one test for each.

/// The cases of every engine, for a [`ShardFixture`](crate::conformance::ShardFixture).
#[macro_export]
macro_rules! vote_shard_suite {
    ($fixture:ty) => {
        $crate::vote_shard_cases! { $fixture:
            fence {
                a_slice_nobody_was_told_of_takes_no_write
                a_slice_is_founded_only_at_the_first_epoch
                founding_what_is_known_changes_nothing
                only_the_owner_at_the_very_epoch_takes_a_write
                only_founding_and_preparing_make_a_record
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
                another_move_is_refused
                only_what_is_not_owned_is_purged
                a_slice_is_purged_in_portions
                only_an_importing_slice_is_imported_into
                every_step_can_be_repeated
                what_was_ordered_before_a_move_was_called_off_comes_too_late
                a_copy_that_was_kept_is_taken_up_again
                a_slice_moves_there_and_back
            }
            versions {
                a_row_is_taken_only_when_its_version_is_higher
                a_poll_is_taken_only_when_its_version_is_higher
                a_copy_equals_its_source_and_importing_twice_changes_nothing
                the_order_of_imports_does_not_matter
                versions_go_on_after_a_move
                a_row_waits_for_its_poll
                carried_votes_are_counted_once
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
                a_cut_can_be_repeated
                a_late_cut_is_refused
                what_does_not_fit_is_not_cut
                a_poll_must_belong_to_its_slice
                a_parent_is_gone_for_good
                a_child_moves_like_any_slice
                a_cut_tells_the_counts_anew
                an_archived_poll_keeps_its_file
            }
            repeats {
                a_vote_counts_once
                a_repeated_request_gets_its_first_answer
                a_request_repeated_within_a_batch_is_answered_once
                the_last_four_requests_are_remembered
                requests_are_remembered_across_reopening
                requests_are_remembered_across_a_move
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
                awaited_polls_are_told
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
                what_is_ready_is_only_added_to
            }
            archives {
                only_the_rows_of_a_closed_poll_give_way_to_a_file
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
                who_follows_the_marks_sees_every_total
                nothing_is_told_when_nothing_changed
                totals_are_exact_after_reopening
                a_purged_poll_has_no_tally
                usage_counts_what_is_there
            }
            votes {
                a_batch_is_judged_ballot_by_ballot
                an_empty_batch_has_no_verdicts
                the_largest_batch_is_judged
                many_clients_at_once_are_counted_once_each
                a_row_tells_its_story
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
                no_answer_precedes_the_cut_it_depends_on
                a_cut_that_failed_leaves_its_parent_sealed
                an_export_has_nothing_that_is_not_durable
                a_failed_write_is_told_to_all_who_depend_on_it
                what_was_answered_before_a_failure_stays
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
    /// Cases are public, so the compiler does not miss one that is not listed.
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
