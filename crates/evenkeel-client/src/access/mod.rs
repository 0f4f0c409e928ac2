//! What a program uses of the API, and the roles that allow it.
//!
//! An [`AccessRecorder`] notes every verb and resource that a client uses. Its log gives the minimal rules, and checks the
//! rules that a program is deployed with:
//!
//! ```
//! # async fn example(client: evenkeel_client::Client, manifest: &str) -> Result<(), Box<dyn std::error::Error>> {
//! use evenkeel_client::access::{AccessRecorder, RbacRules};
//!
//! let recorder = AccessRecorder::new();
//! let client = client.with_access_recorder(&recorder);
//! // … a test runs the program with this client …
//!
//! let granted = RbacRules::parse(manifest)?;
//! let unused = recorder.check(&granted)?; // fails with what was used and is not granted
//! for access in unused {
//!     println!("granted and not used: {access}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The same comes from the audit log of a server: [`read_audit_log`].

mod audit;
mod check;
mod log;
mod recorder;
mod request;
mod rule_table;
mod rules;
#[cfg(test)]
mod tests;

pub use audit::{AuditLogError, read_audit_log};
pub use check::AccessError;
pub use log::AccessLog;
pub use recorder::AccessRecorder;
pub use request::{Access, AccessTarget};
pub use rules::RbacRules;
