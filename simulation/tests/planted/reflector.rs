//! Defects of the reflector.

use evenkeel_base::planted::Defect;
use evenkeel_sim::Fault;
use evenkeel_simulation::scenarios;

use crate::finds;

/// Lists that are slow, so that something changes between their pages, and that expire.
const PAGE_FAULTS: [Fault; 2] = [Fault::PageExpires, Fault::Slow];

#[test]
fn bug_90_nothing_is_found_without_a_plant() {
    for scenario in [
        scenarios::watch_list(),
        scenarios::json_watch(),
        scenarios::cached_list(),
        scenarios::paged_list(),
        scenarios::longer_versions(),
        scenarios::empty_start(),
        scenarios::busy_ends(),
    ] {
        match scenario.check(100) {
            Ok(report) => println!("{}: {report}", scenario.name()),
            Err(failed) => panic!("{failed}"),
        }
    }
}

#[test]
fn bug_1_a_restart_lists_from_a_stale_replica() {
    finds(Defect::StaleRestart, &scenarios::paged_list(), &["no time travel"]);
}

#[test]
fn bug_2_a_version_that_is_too_large_is_sent_for_ever() {
    let faults = [Fault::VersionTooLarge, Fault::WatchExpires, Fault::WatchRefused];
    finds(Defect::TooLargeVersionRepeated, &scenarios::cached_list().faults(faults), &["convergence", "liveness"]);
}

#[test]
fn bug_3_lists_of_a_stale_replica_expire_for_ever() {
    finds(Defect::RelistAtLastVersion, &scenarios::cached_list(), &["request budget", "liveness"]);
}

#[test]
fn bug_4_the_version_of_an_initial_event_counts() {
    finds(Defect::InitialEventVersion, &scenarios::empty_start(), &["no lost delete", "convergence"]);
}

#[test]
fn bug_5_a_bookmark_is_stored() {
    finds(Defect::BookmarkStored, &scenarios::json_watch(), &["convergence", "legal handler history"]);
}

#[test]
fn bug_6_a_bookmark_overtakes_events() {
    finds(Defect::BookmarkBeforeEvents, &scenarios::informer(), &["convergence", "no lost delete"]);
}

#[test]
fn bug_7_a_truncated_frame_counts_as_received() {
    finds(Defect::TruncatedFrameReceived, &scenarios::json_watch(), &["convergence"]);
}

#[test]
fn bug_8_a_410_within_a_watch_is_ignored() {
    finds(Defect::ExpiredEventIgnored, &scenarios::watch_list(), &["convergence", "liveness", "request budget"]);
}

#[test]
fn bug_9_a_relist_sends_no_deletes() {
    finds(Defect::RelistWithoutDeletes, &scenarios::watch_list(), &["no lost delete"]);
}

#[test]
fn bug_10_a_relist_deletes_a_live_key() {
    finds(Defect::RelistDeletesLiveKey, &scenarios::watch_list(), &["legal handler history"]);
}

#[test]
fn bug_11_pages_of_an_expired_list_are_kept() {
    finds(Defect::ExpiredPagesKept, &scenarios::paged_list().faults(PAGE_FAULTS), &["convergence"]);
}

#[test]
fn bug_12_pages_of_several_versions_count_as_one_list() {
    finds(
        Defect::InconsistentPagesTrusted,
        &scenarios::paged_list().faults(PAGE_FAULTS),
        &["convergence", "no time travel"],
    );
}

#[test]
fn bug_13_the_end_of_the_stream_ends_the_initial_list() {
    finds(Defect::SyncedWithoutBookmark, &scenarios::watch_list(), &["has synced"]);
}

#[test]
fn bug_33_versions_are_compared_as_texts() {
    finds(Defect::VersionsAsText, &scenarios::longer_versions(), &["convergence", "no time travel"]);
}

#[test]
fn bug_34_a_silent_watch_is_kept() {
    finds(Defect::SilentWatchKept, &scenarios::watch_list(), &["convergence"]);
}
