//! Questions to the authorizer of a server.

use std::fmt;
use std::sync::Arc;

use super::opaque::{AUTHORIZER, GROUP_CHECK, Opaque, PATH_CHECK, RESOURCE_CHECK};
use super::{Evaluated, Library, no_overload};
use crate::error::EvalError;
use crate::value::Value;

/// Decides whether a user may do something.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Decides about a verb.
    fn decide(&self, check: &Check<'_>, verb: &str) -> Decision;
}

/// An answer of an authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong, if anything.
    pub error: Option<String>,
}

/// A question to an authorizer.
#[derive(Clone, Debug)]
pub struct Check<'a> {
    authorizer: Arc<dyn Authorizer + 'a>,
    /// The namespace and name of the service account that asks; `None` for the user of the request.
    pub service_account: Option<(String, String)>,
    /// The path, of a question about one.
    pub path: Option<String>,
    /// The group.
    pub group: Option<String>,
    /// The resource.
    pub resource: Option<String>,
    /// The subresource; empty for none.
    pub subresource: String,
    /// The namespace; empty for none.
    pub namespace: String,
    /// The name of the object; empty for any.
    pub name: String,
    /// The field selector; empty for none.
    pub field_selector: String,
    /// The label selector; empty for none.
    pub label_selector: String,
}

impl PartialEq for Check<'_> {
    fn eq(&self, other: &Self) -> bool {
        let key = |check: &Check<'_>| {
            (
                check.service_account.clone(),
                (check.path.clone(), check.group.clone(), check.resource.clone(), check.subresource.clone()),
                (check.namespace.clone(), check.name.clone()),
                (check.field_selector.clone(), check.label_selector.clone()),
            )
        };
        key(self) == key(other)
    }
}

impl<'a> Check<'a> {
    /// Returns the start of questions to an authorizer: the value of the variable `authorizer`.
    pub fn new(authorizer: Arc<dyn Authorizer + 'a>) -> Self {
        Check {
            authorizer,
            service_account: None,
            path: None,
            group: None,
            resource: None,
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            field_selector: String::new(),
            label_selector: String::new(),
        }
    }

    /// Returns the question as the value of a variable.
    pub fn into_value(self) -> Value<'a> {
        Value::opaque(Opaque::Check(self))
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match (&self.path, &self.group, &self.resource) {
            (Some(_), ..) => PATH_CHECK,
            (None, _, Some(_)) => RESOURCE_CHECK,
            (None, Some(_), None) => GROUP_CHECK,
            (None, None, None) => AUTHORIZER,
        }
    }
}

pub(super) const LIBRARY: Library = Library {
    since: 27,
    rows: &[
        ("path", path, &[("authorizer_path", "authorizer.(string) -> path_check")]),
        ("group", group, &[("authorizer_group", "authorizer.(string) -> group_check")]),
        (
            "serviceAccount",
            service_account,
            &[("authorizer_serviceaccount", "authorizer.(string, string) -> authorizer")],
        ),
        ("resource", resource, &[("groupcheck_resource", "group_check.(string) -> resource_check")]),
        ("subresource", subresource, &[("resourcecheck_subresource", "resource_check.(string) -> resource_check")]),
        ("namespace", namespace, &[("resourcecheck_namespace", "resource_check.(string) -> resource_check")]),
        ("name", name, &[("resourcecheck_name", "resource_check.(string) -> resource_check")]),
        ("fieldSelector", field_selector, &[("authorizer_fieldselector", "resource_check.(string) -> resource_check")]),
        ("labelSelector", label_selector, &[("authorizer_labelselector", "resource_check.(string) -> resource_check")]),
        (
            "check",
            check,
            &[
                ("pathcheck_check", "path_check.(string) -> decision"),
                ("resourcecheck_check", "resource_check.(string) -> decision"),
            ],
        ),
        ("errored", errored, &[("decision_errored", "decision.() -> bool")]),
        ("error", error, &[("decision_error", "decision.() -> string")]),
        ("allowed", allowed, &[("decision_allowed", "decision.() -> bool")]),
        ("reason", reason, &[("decision_reason", "decision.() -> string")]),
    ],
};

fn changed<'a>(
    function: &str,
    args: &[Value<'a>],
    change: impl FnOnce(&mut Check<'a>, &str) -> Result<(), EvalError>,
) -> Evaluated<'a> {
    let [Value::Opaque(receiver), Value::String(text)] = args else { return Err(no_overload(function, args)) };
    let Opaque::Check(check) = &**receiver else { return Err(no_overload(function, args)) };
    let mut check = check.clone();
    change(&mut check, text)?;
    Ok(Value::opaque(Opaque::Check(check)))
}

fn path<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    changed("path", args, |check, text| {
        if text.is_empty() {
            return Err(EvalError::failed("path must not be empty"));
        }
        check.path = Some(text.to_owned());
        Ok(())
    })
}

fn group<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    changed("group", args, |check, text| {
        check.group = Some(text.to_owned());
        Ok(())
    })
}

fn resource<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    changed("resource", args, |check, text| {
        if text.is_empty() {
            return Err(EvalError::failed("resource must not be empty"));
        }
        check.resource = Some(text.to_owned());
        Ok(())
    })
}

fn subresource<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    changed("subresource", args, |check, text| {
        check.subresource = text.to_owned();
        Ok(())
    })
}

fn namespace<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    changed("namespace", args, |check, text| {
        check.namespace = text.to_owned();
        Ok(())
    })
}

fn name<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    changed("name", args, |check, text| {
        check.name = text.to_owned();
        Ok(())
    })
}

fn field_selector<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    changed("fieldSelector", args, |check, text| {
        check.field_selector = text.to_owned();
        Ok(())
    })
}

fn label_selector<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    changed("labelSelector", args, |check, text| {
        check.label_selector = text.to_owned();
        Ok(())
    })
}

fn service_account<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [receiver, Value::String(namespace), Value::String(name)] = args else {
        return Err(no_overload("serviceAccount", args));
    };
    if name.is_empty() {
        return Err(EvalError::failed("Invalid service account name"));
    }
    if namespace.is_empty() {
        return Err(EvalError::failed("Invalid service account namespace"));
    }
    changed("serviceAccount", &[receiver.clone(), Value::String(name.clone())], |check, name| {
        check.service_account = Some((namespace.to_string(), name.to_owned()));
        Ok(())
    })
}

fn check<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Opaque(receiver), Value::String(verb)] = args else { return Err(no_overload("check", args)) };
    let Opaque::Check(check) = &**receiver else { return Err(no_overload("check", args)) };
    Ok(Value::opaque(Opaque::Decision(check.authorizer.decide(check, verb))))
}

fn decision<'v>(function: &str, args: &'v [Value<'_>]) -> Result<&'v Decision, EvalError> {
    if let [Value::Opaque(value)] = args
        && let Opaque::Decision(decision) = &**value
    {
        return Ok(decision);
    }
    Err(no_overload(function, args))
}

fn errored<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(decision("errored", args)?.error.is_some()))
}

fn error<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::text(decision("error", args)?.error.clone().unwrap_or_default()))
}

fn allowed<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(decision("allowed", args)?.allowed))
}

fn reason<'a>(args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::text(decision("reason", args)?.reason.clone()))
}
