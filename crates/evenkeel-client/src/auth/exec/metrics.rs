//! The metrics of exec plugins, under client-go's names.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use ::metrics::{SharedString, counter, gauge, histogram};
use jiff::Timestamp;

use super::error::ExecProblem;
use crate::auth::wall_clock::now;
use crate::rest::metrics::{EXEC_CALLS, EXEC_POLICY_CALLS, EXEC_ROTATION_AGE, EXEC_TTL};

/// The expiries of all certificates from plugins of this process.
static EXPIRIES: LazyLock<Mutex<CertificateExpiries>> = LazyLock::new(Mutex::default);

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
    histogram!(EXEC_ROTATION_AGE).record(age(valid_since, now()));
}

/// Sets the expiry of a plugin's certificate; `None` if it has none any more.
pub(super) fn expires(plugin: u64, at: Option<Timestamp>) {
    let mut expiries = EXPIRIES.lock().unwrap_or_else(PoisonError::into_inner);
    expiries.set(plugin, at);
    gauge!(EXEC_TTL).set(expiries.remaining(now()));
}

/// Sets the gauge to the time that is left now.
pub(super) fn show_ttl() {
    gauge!(EXEC_TTL).set(EXPIRIES.lock().unwrap_or_else(PoisonError::into_inner).remaining(now()));
}

/// Returns the age of a certificate in seconds.
pub(super) fn age(valid_since: Timestamp, now: Timestamp) -> f64 {
    now.duration_since(valid_since).as_secs_f64()
}

/// The expiries of certificates, by the plugin's number.
#[derive(Debug, Default)]
pub(super) struct CertificateExpiries(BTreeMap<u64, Timestamp>);

impl CertificateExpiries {
    pub(super) fn set(&mut self, plugin: u64, at: Option<Timestamp>) {
        match at {
            Some(at) => self.0.insert(plugin, at),
            None => self.0.remove(&plugin),
        };
    }

    /// Returns the seconds until the first expiry, negative if it has passed; infinity without certificates.
    pub(super) fn remaining(&self, now: Timestamp) -> f64 {
        self.0.values().min().map_or(f64::INFINITY, |at| at.duration_since(now).as_secs_f64())
    }
}
