//! Policies of admission: expressions that refuse writes (VAP-001 to VAP-014).
//!
//! Policies and bindings are compiled once per version ([`CompiledPolicy`]). A write is matched against the rules of the
//! policy, then of each binding; the expressions are then evaluated once per parameter object.

mod compiled;
pub(crate) mod conditions;
pub(crate) mod environment;
mod params;
mod validating;

pub(crate) use compiled::{CompiledBinding, CompiledPolicy};
pub(super) use validating::ValidatingAdmissionPolicy;

/// The stores of policies and of their bindings.
pub(crate) const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
pub(crate) const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
