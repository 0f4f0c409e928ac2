//! The parameters of a binding (VAP-010, VAP-011).

use serde_json::Value;

use super::compiled::{CompiledBinding, CompiledPolicy};
use crate::engine::{ApiEngine, convert, target};
use crate::store::{At, Record, Span};

/// Why there are no parameters.
#[derive(Debug)]
pub(super) enum ParamFault {
    /// The policy is wrong for every binding.
    Policy(String),
    Binding(String),
}

/// Returns the objects with which a policy is evaluated, once each; null where it has no parameters.
pub(super) fn params<E>(
    engine: &ApiEngine,
    policy: &CompiledPolicy<E>,
    binding: &CompiledBinding,
    namespace: Option<&str>,
) -> Result<Vec<Value>, ParamFault> {
    let Some((api_version, kind)) = &policy.param_kind else { return Ok(vec![Value::Null]) };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let registry = engine.registry();
    let Some(resource) = registry.lookup_kind(group, version, kind) else {
        return Err(ParamFault::Policy(format!(
            "failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
        )));
    };
    let Some(reference) = &binding.params else { return Ok(vec![Value::Null]) };
    let fault = |text: &str| Err(ParamFault::Binding(text.to_owned()));
    let namespace = match (resource.namespaced, reference.namespace.as_str()) {
        (true, "") => match namespace {
            Some(namespace) => Some(namespace),
            None => {
                return fault("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources");
            }
        },
        (true, own) => Some(own),
        (false, "") => None,
        (false, _) => return fault("paramRef.namespace must not be provided for a cluster-scoped `paramKind`"),
    };
    let found: Vec<Value> = match (&reference.name, &reference.selector) {
        (Some(name), _) => engine
            .store
            .get(&resource.storage, &target::key(namespace, name))
            .map(|record| convert::to_version(record.value(), resource))
            .into_iter()
            .collect(),
        (None, Some(Ok(selector))) => {
            let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
            let span = Span { prefix: &prefix, ..Span::default() };
            let selects = |_: &str, record: &Record| selector.matches(|key| record.facts.label(key));
            let page = engine.store.list(&resource.storage, span, At::Latest, selects);
            let records = page.map(|page| page.records).unwrap_or_default();
            records.iter().map(|record| convert::to_version(record.value(), resource)).collect()
        }
        (None, Some(Err(error))) => return fault(error),
        (None, None) => return fault("one of name or selector must be provided"),
    };
    if found.is_empty() && reference.denies_without {
        return fault("no params found for policy binding with `Deny` parameterNotFoundAction");
    }
    Ok(found)
}
