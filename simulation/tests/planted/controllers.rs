//! Defects of controllers.

use evenkeel_base::planted::Defect;
use evenkeel_simulation::scenarios;

use super::finds;

#[test]
fn bug_32_inv_14_own_writes_are_not_awaited() {
    finds(Defect::OwnWritesNotAwaited, &scenarios::replica_sets(), &["exactly the intended effect"]);
}
