//! Defects of the client.

use evenkeel_base::planted::Defect;
use evenkeel_simulation::scenarios;

use super::finds;

#[test]
fn bug_23_inv_14_a_post_is_sent_again() {
    finds(Defect::PostRepeated, &scenarios::creator(), &["exactly the intended effect"]);
}

#[test]
fn bug_24_inv_14_a_retried_put_has_no_version() {
    finds(Defect::RetriedPutUnconditional, &scenarios::counter(), &["exactly the intended effect"]);
}

#[test]
fn bug_25_inv_15_retry_after_is_ignored() {
    finds(Defect::RetryAfterIgnored, &scenarios::counter(), &["retry-after is respected"]);
}

#[test]
fn bug_38_inv_20_a_token_is_shown() {
    finds(Defect::TokenInDebug, &scenarios::credentials(), &["no secret leaves"]);
}
