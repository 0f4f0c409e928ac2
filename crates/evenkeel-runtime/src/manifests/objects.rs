//! The objects of a program.

use serde_json::{Map, Value, json};

use super::{Manifests, ManifestsError};

/// The ports of the program.
const PROBES: u16 = 8081;
const METRICS: u16 = 8443;

/// The user of images without a shell.
const USER: i64 = 65532;

impl Manifests {
    pub(super) fn definition_objects(&self) -> Result<Vec<Value>, ManifestsError> {
        let mut objects = Vec::new();
        for definition in &self.definitions {
            let mut object = serde_json::to_value(definition)?;
            if let Value::Object(members) = &mut object {
                members.remove("status");
            }
            objects.push(self.labelled(object));
        }
        Ok(objects)
    }

    pub(super) fn namespace_object(&self) -> Value {
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        self.labelled(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "labels": labels},
        }))
    }

    pub(super) fn rbac_objects(&self) -> Result<Vec<Value>, ManifestsError> {
        let (name, namespace) = (&self.name, &self.namespace);
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace},
        });
        let mut objects = vec![account];
        for role in self.rules().roles(name)? {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": format!("{}Binding", role["kind"].as_str().unwrap_or_default()),
                "metadata": role["metadata"],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            });
            objects.extend([role, binding]);
        }
        if self.has_secured_metrics {
            objects.push(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": format!("{name}-metrics-reader")},
                "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
            }));
        }
        Ok(objects.into_iter().map(|object| self.labelled(object)).collect())
    }

    pub(super) fn workload_objects(&self) -> Result<Vec<Value>, ManifestsError> {
        let (name, namespace) = (&self.name, &self.namespace);
        let mut ports = vec![json!({"name": "probes", "containerPort": PROBES})];
        if self.has_secured_metrics {
            ports.push(json!({"name": "metrics", "containerPort": METRICS}));
        }
        let probe =
            |path: &str, period: u32| json!({"httpGet": {"path": path, "port": "probes"}, "periodSeconds": period});
        let environment: Vec<Value> =
            self.environment.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let mut container = json!({
            "name": name,
            "image": self.image,
            "args": ["run"],
            "ports": ports,
            "livenessProbe": probe("/healthz", 20),
            "readinessProbe": probe("/readyz", 10),
            "resources": serde_json::to_value(&self.resources)?,
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        });
        if !environment.is_empty() {
            container["env"] = environment.into();
        }
        let selector = self.selector();
        let mut pod_labels = selector.clone();
        pod_labels.extend(self.labels.iter().map(|(key, value)| (key.clone(), json!(value))));
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": selector},
                "template": {
                    "metadata": {"labels": pod_labels},
                    "spec": {
                        "serviceAccountName": name,
                        // The grace period of a manager, and the time to release the lease.
                        "terminationGracePeriodSeconds": 40,
                        "securityContext": {
                            "runAsNonRoot": true,
                            "runAsUser": USER,
                            "runAsGroup": USER,
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "containers": [container],
                    },
                },
            },
        });
        let mut objects = vec![self.labelled(deployment)];
        if self.has_secured_metrics {
            objects.push(self.labelled(json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": format!("{name}-metrics"), "namespace": namespace},
                "spec": {
                    "selector": self.selector(),
                    "ports": [{"name": "https", "port": METRICS, "targetPort": "metrics"}],
                },
            })));
        }
        Ok(objects)
    }

    fn selector(&self) -> Map<String, Value> {
        [("app.kubernetes.io/name".to_owned(), json!(self.name))].into_iter().collect()
    }

    /// Adds the labels of all objects.
    fn labelled(&self, mut object: Value) -> Value {
        let mut labels = self.selector();
        labels.extend(self.labels.iter().map(|(key, value)| (key.clone(), json!(value))));
        if let Some(Value::Object(own)) = object.pointer("/metadata/labels").cloned() {
            labels.extend(own);
        }
        object["metadata"]["labels"] = labels.into();
        object
    }
}
