//! One suite for every adapter of the ledger and of the control table: in memory, on dynoxide, on ministack.
//!
//! The meaning is the core's (`Guard::admits`, `Claim::apply`, `Transition::admits`); the suite compares. What an
//! emulator does differently is in [`worlds::DIFFERENCES`] and nowhere else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test reports by panicking"
)]

#[path = "contract/calendars.rs"]
mod calendars;
#[path = "contract/capacity.rs"]
mod capacity;
#[path = "contract/claims.rs"]
mod claims;
#[path = "contract/control.rs"]
mod control;
#[path = "contract/creation.rs"]
mod creation;
#[path = "contract/damage.rs"]
mod damage;
#[path = "contract/letters.rs"]
mod letters;
#[path = "contract/operations.rs"]
mod operations;
#[path = "contract/overview.rs"]
mod overview;
#[path = "contract/reads.rs"]
mod reads;
#[path = "contract/rows.rs"]
mod rows;
#[path = "contract/runs.rs"]
mod runs;
#[path = "contract/servers.rs"]
mod servers;
#[path = "contract/slices.rs"]
mod slices;
#[path = "contract/ticks.rs"]
mod ticks;
#[path = "contract/whole.rs"]
mod whole;
#[path = "contract/wire.rs"]
mod wire;
#[path = "contract/worlds.rs"]
mod worlds;
#[path = "contract/writes.rs"]
mod writes;

/// Runs each case on a fresh pair of tables.
macro_rules! contract {
    ($world:ident: $start:expr => $($module:ident: $($case:ident),+;)+) => {
        mod $world {
            $($(
                #[tokio::test]
                async fn $case() {
                    crate::$module::$case(&$start(stringify!($case)).await).await;
                }
            )+)+
        }
    };
}

/// The suite.
macro_rules! everywhere {
    ($($cases:tt)+) => {
        contract!(memory: crate::worlds::memory => $($cases)+);
        contract!(dynoxide: crate::worlds::dynoxide => $($cases)+);
        contract!(ministack: crate::worlds::ministack => $($cases)+);
    };
}

everywhere! {
    creation: creates_once, other_content_alters_nothing, an_orphan_payload_does_not_block, a_migrated_key_is_locked,
        a_migrated_reminder_blocks_its_derived_id, a_derived_reminder_blocks_its_migration,
        a_migrated_id_with_its_own_key_is_locked_too, an_alias_is_no_row, a_repeated_migration_exists,
        one_of_two_concurrent_migrations_has_the_key;
    claims: every_guard_decides_as_the_core_does, one_of_two_concurrent_claims_wins, a_lost_answer_is_recognised,
        nothing_to_claim_is_absent, a_claim_never_creates_a_row, a_guard_without_states_takes_nothing;
    writes: a_life_reads_as_written, a_lost_guard_changes_nothing, an_absent_row_stays_absent,
        a_hold_survives_an_outcome_that_did_not_see_it, an_outcome_survives_a_hold_that_did_not_see_it,
        an_outdated_hold_is_refused, a_repeated_write_is_done_once, a_repeated_hold_is_written_once,
        a_released_row_is_not_put_to_sleep,
        a_return_that_saw_a_hold_is_decided_again_once_it_is_released,
        twin_claims_of_one_invocation_in_one_millisecond_have_one_winner, a_cancel_says_who_and_why_and_fences_the_claim_that_did_not_see_it,
        a_late_success_fences_the_outcome, late_evidence_fills_one_attempt_and_the_next_is_appended,
        a_row_with_every_field_round_trips, one_of_two_runs_moves_a_row;
    reads: the_wake_index_is_ordered_and_bounded, a_lane_is_read_page_by_page, equal_instants_are_read_once_each,
        a_deadline_filters_what_was_read, a_row_moves_within_and_leaves_the_wake_index, shards_are_apart,
        reads_many_rows_with_gaps, a_partition_shows_the_payload_of_its_row, an_erased_payload_is_none,
        finds_rows_by_reference, counts_dead_rows_with_a_reachable_deadline,
        ended_rows_are_read_page_by_page_in_the_order_of_their_deadlines, rows_of_a_run_are_those_that_it_moved_last;
    whole: all_rows_of_a_destination_are_read_page_by_page, a_row_counts_from_its_creation_to_its_deadline,
        an_empty_ledger_has_one_empty_page, rows_of_any_destination_are_read_by_their_ids;
    control: destinations_are_versioned, a_repeated_put_is_done, looks_up_each_destination_once, the_switch_is_read,
        keeps_and_forgets_places, the_sink_keeps_one_entry_for_each_delivery, rejections_are_versioned,
        two_writers_of_equal_results_lose_none, a_limit_moves_as_the_core_says, two_bookings_share_no_slot, reach_is_versioned,
        one_of_two_probes_has_the_lease;
    operations: switches_are_moved_one_by_one, operations_are_read_newest_first_page_by_page;
    calendars: calendars_are_versioned, looks_up_each_calendar_once, the_largest_calendar_fits_into_a_row;
    runs: runs_are_versioned, a_run_with_every_field_round_trips, one_of_two_slices_has_the_lease,
        a_freeze_is_kept_until_it_is_lifted;
    overview: ended_rows_are_read_from_a_deadline_on, a_booking_takes_counts_along_if_it_is_written, the_last_heartbeat_of_each_function_is_kept,
        all_rejections_are_seen_at_once;
}
