//! The metrics of exec plugins, under client-go's names.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use ::metrics::{SharedString, counter, gauge, histogram};
use jiff::Timestamp;

use super::error::ExecProblem;
use crate::auth::wall_clock::now;
use crate::rest::metrics::{EXEC_CALLS, EXEC_POLICY_CALLS, EXEC_ROTATION_AGE, EXEC_TTL};

/// The expiries of all certificates from plugins, by the plugin's number.
static EXPIRIES: LazyLock<Mutex<BTreeMap<u64, Timestamp>>> = LazyLock::new(Mutex::default);

/// Records a run.
pub(super) fn called<T>(outcome: &Result<T, ExecProblem>) {
    let (code, status) = match outcome {
        Ok(_) => (0, "no_error"),
        Err(ExecProblem::Exit { code, .. }) => (code.unwrap_or(-1), "plugin_execution_error"),
        Err(ExecProblem::Timeout { .. } | ExecProblem::TooLarge { .. }) => (-1, "plugin_execution_error"),
        Err(ExecProblem::NotFound { .. } | ExecProblem::CurrentDirectory { .. }) => (1, "plugin_not_found_error"),
        Err(_) => (1, "client_internal_error"),
    };
    let code = SharedString::from_owned(code.to_string());
    counter!(EXEC_CALLS, "code" => code, "call_status" => status).increment(1);
}

/// Records a decision of the policy.
pub(super) fn judged(is_allowed: bool) {
    let status = if is_allowed { "allowed" } else { "denied" };
    counter!(EXEC_POLICY_CALLS, "status" => status).increment(1);
}

/// Records that a certificate was replaced which was valid since this time.
pub(super) fn rotated(valid_since: Timestamp) {
    histogram!(EXEC_ROTATION_AGE).record(now().duration_since(valid_since).as_secs_f64());
}

/// Sets the expiry of a plugin's certificate; `None` if it has none any more.
pub(super) fn expires(plugin: u64, at: Option<Timestamp>) {
    let mut expiries = EXPIRIES.lock().unwrap_or_else(PoisonError::into_inner);
    match at {
        Some(at) => expiries.insert(plugin, at),
        None => expiries.remove(&plugin),
    };
    show(&expiries);
}

/// Sets the gauge to the time that is left now.
pub(super) fn show_ttl() {
    show(&EXPIRIES.lock().unwrap_or_else(PoisonError::into_inner));
}

fn show(expiries: &BTreeMap<u64, Timestamp>) {
    let left = expiries.values().min().map(|at| at.duration_since(now()).as_secs_f64());
    gauge!(EXEC_TTL).set(left.unwrap_or(f64::INFINITY));
}
