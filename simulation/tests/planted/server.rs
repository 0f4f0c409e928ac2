//! Defects of the API server.

use evenkeel_base::planted::Defect;
use evenkeel_simulation::scenarios;

use super::finds;

#[test]
fn bug_35_an_event_before_the_list_shows_its_object() {
    finds(Defect::EventBeforeList, &scenarios::api(), &["watch guarantees"]);
}

#[test]
fn bug_36_an_exit_from_a_selection_with_the_new_state() {
    finds(Defect::ExitWithNewState, &scenarios::api(), &["watch guarantees"]);
}

#[test]
fn bug_37_a_compaction_that_drops_the_newest_version() {
    finds(Defect::CompactionDropsNewest, &scenarios::api(), &["linearizable"]);
}
