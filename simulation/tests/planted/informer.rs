//! Defects of stores, handlers and informers.

use evenkeel_base::planted::Defect;
use evenkeel_simulation::scenarios;

use super::finds;

#[test]
fn bug_14_inv_5_an_index_keeps_a_former_value() {
    finds(Defect::IndexEntryLeft, &scenarios::handlers(), &["store = index"]);
}

#[test]
fn bug_15_inv_1_the_transform_is_applied_to_additions_only() {
    finds(Defect::TransformOnAddOnly, &scenarios::handlers(), &["convergence"]);
}

#[test]
fn bug_16_inv_2_inv_6_a_late_handler_misses_events() {
    finds(Defect::LateHandlerMisses, &scenarios::handlers(), &["legal handler history", "has-synced truth"]);
}

#[test]
fn bug_17_inv_2_a_resync_delivers_a_wrong_old_object() {
    finds(Defect::ResyncWrongOld, &scenarios::handlers(), &["legal handler history"]);
}

#[test]
fn bug_30_inv_10_inv_11_a_slow_handler_blocks_all_others() {
    finds(Defect::SlowHandlerBlocks, &scenarios::handlers(), &["bounded memory", "liveness"]);
}

#[test]
fn bug_31_inv_10_a_task_is_leaked_for_every_watch() {
    finds(Defect::WatchTaskLeaked, &scenarios::handlers(), &["bounded memory"]);
}
