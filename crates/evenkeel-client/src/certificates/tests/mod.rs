//! Certificate managers against the embedded server, in virtual time; and their parts.

mod file_store;
mod machine;
mod requests;
mod rotation;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::template::{CertificateFacts, CertificateTemplate};

/// A certificate of the user `agent`, valid for this many seconds from the epoch on.
fn facts(common_name: &str, seconds: i64) -> CertificateFacts {
    CertificateFacts {
        not_before: Timestamp::UNIX_EPOCH,
        not_after: at(seconds),
        common_name: common_name.to_owned(),
        organizations: BTreeSet::new(),
        dns_names: BTreeSet::new(),
        ip_addresses: BTreeSet::new(),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn agent() -> CertificateTemplate {
    CertificateTemplate::new("agent").organization("agents")
}
