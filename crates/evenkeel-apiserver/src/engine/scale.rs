//! The `scale` sub-resource: how many replicas, whatever the kind calls them (SUB-6, SUB-7).

use evenkeel_core::LabelSelector;
use evenkeel_core::Status;
use serde_json::{Value, json};

use super::object;
use super::write::set_path;
use crate::field::{self, FieldError};
use crate::registry::Resource;

/// The OpenAPI name of a Scale.
pub(super) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// Where a kind keeps what a Scale shows.
pub(super) struct Paths {
    replicas: Vec<String>,
    status_replicas: Vec<String>,
    selector: Selector,
}

enum Selector {
    /// A label selector object at `spec.selector`.
    Object,
    /// A map of labels at `spec.selector`.
    Labels,
    /// A text somewhere.
    Text(Vec<String>),
    None,
}

impl Paths {
    pub(super) fn of(resource: &Resource) -> Option<Paths> {
        let split = |path: &str| path.trim_start_matches('.').split('.').map(str::to_owned).collect::<Vec<_>>();
        if let Some(custom) = &resource.custom {
            let scale = custom.scale.as_ref()?;
            return Some(Paths {
                replicas: split(&scale.spec_replicas),
                status_replicas: split(&scale.status_replicas),
                selector: scale.label_selector.as_deref().map_or(Selector::None, |path| Selector::Text(split(path))),
            });
        }
        let labels = resource.kind == "ReplicationController";
        Some(Paths {
            replicas: split("spec.replicas"),
            status_replicas: split("status.replicas"),
            selector: if labels { Selector::Labels } else { Selector::Object },
        })
    }

    pub(super) fn replicas_path(&self) -> Vec<&str> {
        self.replicas.iter().map(String::as_str).collect()
    }

    /// The Scale of an object.
    pub(super) fn show(&self, resource: &Resource, object: &Value) -> Result<Value, Status> {
        let follow = |path: &[String]| path.iter().try_fold(object, |value, key| value.get(key));
        let replicas = match follow(&self.replicas).and_then(Value::as_i64) {
            Some(replicas) => replicas,
            None if resource.custom.is_some() => {
                let path = self.replicas.join(".");
                return Err(Status::internal(format!("the spec replicas field \".{path}\" does not exist")));
            }
            None => 0,
        };
        let mut status = json!({"replicas": follow(&self.status_replicas).and_then(Value::as_i64).unwrap_or(0)});
        if let Some(selector) = self.selector_text(object) {
            status["selector"] = selector.into();
        }
        let mut metadata = serde_json::Map::new();
        for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object::metadata(object).get(key) {
                metadata.insert(key.into(), value.clone());
            }
        }
        Ok(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
                  "spec": {"replicas": replicas}, "status": status}))
    }

    fn selector_text(&self, object: &Value) -> Option<String> {
        let selector = object.pointer("/spec/selector");
        match &self.selector {
            Selector::Object => LabelSelector::from_json(selector?).ok().map(|selector| selector.to_string()),
            Selector::Labels => {
                LabelSelector::from_json(&json!({"matchLabels": selector?})).ok().map(|selector| selector.to_string())
            }
            Selector::Text(path) => {
                path.iter().try_fold(object, |value, key| value.get(key)).and_then(Value::as_str).map(str::to_owned)
            }
            Selector::None => None,
        }
    }

    /// Writes the replicas of a Scale into an object. A resource version in the Scale is a condition on the object.
    pub(super) fn write(&self, resource: &Resource, scale: &Value, object: &mut Value) -> Result<(), Status> {
        check_kind(scale, &["autoscaling/v1"], "Scale")?;
        let name = object::text(object, "name").to_owned();
        let namespace = object::text(scale, "namespace");
        if !namespace.is_empty() && namespace != object::text(object, "namespace") {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let replicas = match scale.pointer("/spec/replicas") {
            None | Some(Value::Null) if resource.custom.is_some() => {
                return Err(Status::bad_request(format!(
                    "the spec replicas field \".{}\" cannot be empty",
                    self.replicas.join(".")
                )));
            }
            None | Some(Value::Null) => 0,
            Some(value) => value.as_i64().and_then(|replicas| i32::try_from(replicas).ok()).ok_or_else(|| {
                Status::bad_request(
                    "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal the replicas into Go \
                     struct field ScaleSpec.spec.replicas of type int32",
                )
            })?,
        };
        if replicas < 0 {
            let detail = crate::meta::NEGATIVE;
            let error = FieldError::invalid("spec.replicas", &replicas.into(), detail);
            return Err(field::invalid("autoscaling", "Scale", &name, &[error]));
        }
        set_path(object, &self.replicas_path(), Some(replicas.into()));
        let version = object::text(scale, "resourceVersion");
        if !version.is_empty() {
            object::metadata_mut(object).insert("resourceVersion".into(), version.into());
        }
        Ok(())
    }
}

/// The body of a sub-resource that has a kind of its own is of that kind, in one of these versions; what it leaves out
/// is taken for granted.
pub(super) fn check_kind(body: &Value, api_versions: &[&str], kind: &str) -> Result<(), Status> {
    let expected = api_versions.first().copied().unwrap_or_default();
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
    let (given, version) = (text("kind"), text("apiVersion"));
    if !given.is_empty() && given != kind {
        let short = version.rsplit('/').next().unwrap_or_default();
        let internal = expected.split_once('/').map_or("core", |(group, _)| group);
        return Err(Status::bad_request(format!(
            "{given} in version {short:?} cannot be handled as a {kind}: converting ({short}.{given}) to \
             ({internal}.{kind}): unknown conversion"
        )));
    }
    if !version.is_empty() && !api_versions.contains(&version) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}
