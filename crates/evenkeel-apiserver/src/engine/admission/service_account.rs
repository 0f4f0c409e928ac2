//! ServiceAccount: pods run as an account of their namespace and get its token (ADM-007 to ADM-009). Off by default, as envtest
//! has it (ADM-002).

use serde_json::{Value, json};

use super::default_storage_class::annotation;
use super::{AdmissionPlugin, AdmissionWrite, Operation, list_at, text_at};
use crate::engine::object::set_path;
use crate::engine::request_error::RequestError;
use crate::engine::target::{WriteScope, key};
use crate::engine::{ApiEngine, object};
use crate::meta;
use crate::request_state::RequestEnv;

const ACCOUNTS: &str = "serviceaccounts";
const DEFAULT: &str = "default";
const TOKEN_VOLUME: &str = "kube-api-access-";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The lifetime of a token: one hour, and a margin by which the server recognises the tokens of pods.
const TOKEN_SECONDS: i64 = 3607;
/// The annotation of pods that a kubelet runs from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

pub(super) struct ServiceAccount;

impl AdmissionPlugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn is_on_by_default(&self) -> bool {
        false
    }

    fn handles(&self, write: &AdmissionWrite<'_>) -> bool {
        let debugs = write.operation == Operation::Update && write.subresource() == "ephemeralcontainers";
        (debugs && write.is_of("pods")) || write.creates("pods")
    }

    fn mutate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        pod: &mut Value,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        // The kubelet compares a mirror pod with its file.
        if write.target.scope != WriteScope::Main || annotation(pod, MIRROR).is_some() {
            return Ok(());
        }
        if text_at(pod, &["spec", "serviceAccountName"]).is_empty() {
            for field in ["serviceAccountName", "serviceAccount"] {
                set_path(pod, &["spec", field], Some(DEFAULT.into()));
            }
        }
        let account = account_of(engine, write, pod)?;
        let wanted = |object: Option<&Value>| object?.get("automountServiceAccountToken")?.as_bool();
        if wanted(pod.get("spec")).or_else(|| wanted(Some(&account))).unwrap_or(true) {
            mount_token(pod, RequestEnv::new(&*engine.env, Some(&write.request.state)));
        }
        let secrets = list_at(&account, &["imagePullSecrets"]);
        if list_at(pod, &["spec", "imagePullSecrets"]).is_empty() && !secrets.is_empty() {
            set_path(pod, &["spec", "imagePullSecrets"], Some(secrets.to_vec().into()));
        }
        Ok(())
    }

    fn validate(
        &self,
        engine: &ApiEngine,
        write: &AdmissionWrite<'_>,
        object: Option<&Value>,
        _: &mut Vec<String>,
    ) -> Result<(), RequestError> {
        let Some(pod) = object else { return Ok(()) };
        if write.target.scope == WriteScope::Main && annotation(pod, MIRROR).is_some() {
            return check_mirror(write, pod);
        }
        if text_at(pod, &["spec", "serviceAccountName"]).is_empty() {
            let name = object::text(pod, "name");
            return Err(
                write.forbidden(pod, format!("no service account specified for pod {}/{name}", write.namespace()))
            );
        }
        let account = account_of(engine, write, pod)?;
        match annotation(&account, ENFORCE_SECRETS) {
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => check_secrets(write, pod, &account),
            _ => Ok(()),
        }
    }
}

/// Returns the account of a pod.
fn account_of(engine: &ApiEngine, write: &AdmissionWrite<'_>, pod: &Value) -> Result<Value, RequestError> {
    let (namespace, name) = (write.namespace(), text_at(pod, &["spec", "serviceAccountName"]));
    match engine.store.get(ACCOUNTS, &key(Some(namespace), name)) {
        Some(account) => Ok(account.value()),
        None => {
            let why =
                format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found");
            Err(write.forbidden(pod, why))
        }
    }
}

/// Mounts a token in every container that has nothing in its place.
fn mount_token(pod: &mut Value, env: RequestEnv<'_>) {
    let volumes = list_at(pod, &["spec", "volumes"]).iter().map(|volume| text_at(volume, &["name"]));
    let present = volumes.into_iter().find(|name| name.starts_with(TOKEN_VOLUME)).map(str::to_owned);
    let has_volume = present.is_some();
    let volume = present.unwrap_or_else(|| meta::generate_name(TOKEN_VOLUME, || env.random()));
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mut mounts = list_at(container, &["volumeMounts"]).to_vec();
            if mounts.iter().all(|mount| text_at(mount, &["mountPath"]) != TOKEN_PATH) {
                mounts.push(json!({"mountPath": TOKEN_PATH, "name": volume, "readOnly": true}));
                set_path(container, &["volumeMounts"], Some(mounts.into()));
                is_mounted = true;
            }
        }
    }
    if is_mounted && !has_volume {
        let mut volumes = list_at(pod, &["spec", "volumes"]).to_vec();
        volumes.push(json!({"name": volume, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
            {"downwardAPI": {"items": [
                {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"},
            ]}},
        ]}}));
        set_path(pod, &["spec", "volumes"], Some(volumes.into()));
    }
}

fn check_mirror(write: &AdmissionWrite<'_>, pod: &Value) -> Result<(), RequestError> {
    if !text_at(pod, &["spec", "serviceAccountName"]).is_empty() {
        return Err(write.forbidden(pod, "a mirror pod may not reference service accounts"));
    }
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    if names_secret(spec) {
        return Err(write.forbidden(pod, "a mirror pod may not reference secrets"));
    }
    let projections = list_at(spec, &["volumes"]).iter().flat_map(|volume| list_at(volume, &["projected", "sources"]));
    if projections.into_iter().any(|source| source.get("serviceAccountToken").is_some()) {
        return Err(write.forbidden(pod, "a mirror pod may not use ServiceAccountToken volume projections"));
    }
    Ok(())
}

/// Returns whether any field of a specification names a Secret. Fields of that meaning are called so throughout.
fn names_secret(value: &Value) -> bool {
    const NAMES: [&str; 6] =
        ["secretRef", "secretKeyRef", "secret", "imagePullSecrets", "nodePublishSecretRef", "secretName"];
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            let is_set = !matches!(value, Value::Null) && value.as_array().is_none_or(|list| !list.is_empty());
            (NAMES.contains(&key.as_str()) && is_set) || names_secret(value)
        }),
        Value::Array(items) => items.iter().any(names_secret),
        _ => false,
    }
}

/// Refuses Secrets that the account does not list, if the account asks for that.
fn check_secrets(write: &AdmissionWrite<'_>, pod: &Value, account: &Value) -> Result<(), RequestError> {
    let name = object::text(account, "name");
    let is_listed = |list: &str, secret: &str| {
        list_at(account, &[list]).iter().any(|reference| text_at(reference, &["name"]) == secret)
    };
    let refuse = |what: String, kind: &str| {
        let why = format!("{what} is not allowed because service account {name} does not reference that {kind}");
        Err(write.forbidden(pod, why))
    };
    let debugs = write.subresource() == "ephemeralcontainers";
    if !debugs {
        for volume in list_at(pod, &["spec", "volumes"]).iter().filter(|volume| volume.get("secret").is_some()) {
            let secret = text_at(volume, &["secret", "secretName"]);
            if !is_listed("secrets", secret) {
                return refuse(format!("volume with secret.secretName=\"{secret}\""), "secret");
            }
        }
    }
    let lists: &[(&str, &str)] = match debugs {
        true => &[("ephemeralContainers", "ephemeral container")],
        false => &[("initContainers", "init container"), ("containers", "container")],
    };
    for (list, word) in lists {
        for container in list_at(pod, &["spec", list]) {
            let of = format!("{word} {}", text_at(container, &["name"]));
            let variables = list_at(container, &["env"]).iter().filter_map(|variable| {
                let secret = variable.pointer("/valueFrom/secretKeyRef")?;
                Some((format!("envVar {}", text_at(variable, &["name"])), text_at(secret, &["name"])))
            });
            let sources = list_at(container, &["envFrom"])
                .iter()
                .filter_map(|source| Some(("envFrom".to_owned(), text_at(source.get("secretRef")?, &["name"]))));
            for (what, secret) in variables.chain(sources) {
                if !is_listed("secrets", secret) {
                    return refuse(format!("{of} with {what} referencing secret.secretName=\"{secret}\""), "secret");
                }
            }
        }
    }
    for (index, reference) in list_at(pod, &["spec", "imagePullSecrets"]).iter().enumerate().filter(|_| !debugs) {
        let secret = text_at(reference, &["name"]);
        if !is_listed("imagePullSecrets", secret) {
            return refuse(format!("imagePullSecrets[{index}].name=\"{secret}\""), "imagePullSecret");
        }
    }
    Ok(())
}
