//! Policies of admission: expressions that refuse writes (VAP-001 to VAP-014) or change them (MUP-001 to MUP-006).
//!
//! Policies and bindings are compiled once per version ([`CompiledPolicy`]). A write is matched against the rules of the
//! policy, then of each binding (`matching`); the expressions are then evaluated once per parameter object.

mod compiled;
pub(crate) mod conditions;
pub(crate) mod environment;
mod matching;
mod mutating;
mod mutations;
mod params;
mod validating;
mod validations;

use self::compiled::{CompiledBinding, CompiledPolicy, OwnExpressions};
pub(super) use self::mutating::MutatingAdmissionPolicy;
use self::mutations::Mutations;
pub(super) use self::validating::ValidatingAdmissionPolicy;
use self::validations::Validations;
use super::super::ApiEngine;
use super::super::compiled_objects::{CompiledMap, CompiledObjects};

/// All policies of a server. Nothing is compiled before the first write that they could match.
pub(crate) struct AdmissionPolicies {
    validating: PolicySet<Validations>,
    mutating: PolicySet<Mutations>,
}

impl AdmissionPolicies {
    pub(crate) fn new() -> Self {
        AdmissionPolicies {
            validating: PolicySet::new(
                "validatingadmissionpolicies.admissionregistration.k8s.io",
                "validatingadmissionpolicybindings.admissionregistration.k8s.io",
            ),
            mutating: PolicySet::new(
                "mutatingadmissionpolicies.admissionregistration.k8s.io",
                "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
            ),
        }
    }
}

/// The policies of one kind, and their bindings.
struct PolicySet<E> {
    policies: CompiledObjects<CompiledPolicy<E>>,
    bindings: CompiledObjects<CompiledBinding>,
}

impl<E: OwnExpressions> PolicySet<E> {
    fn new(policies: &'static str, bindings: &'static str) -> Self {
        PolicySet {
            policies: CompiledObjects::new(policies, CompiledPolicy::of),
            bindings: CompiledObjects::new(bindings, CompiledBinding::of),
        }
    }

    /// Returns whether there is no policy now.
    fn is_empty(&self, engine: &ApiEngine) -> bool {
        self.policies.current(&engine.store).is_empty()
    }

    fn current(&self, engine: &ApiEngine) -> CurrentPolicies<E> {
        CurrentPolicies {
            policies: self.policies.current(&engine.store),
            bindings: self.bindings.current(&engine.store),
        }
    }
}

/// The policies of one kind as of one write.
struct CurrentPolicies<E> {
    policies: CompiledMap<CompiledPolicy<E>>,
    bindings: CompiledMap<CompiledBinding>,
}
