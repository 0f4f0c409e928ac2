//! Protobuf against one object of every kind of the Kubernetes API, in both forms (PB-090).
//!
//! The objects are not part of the project. They are read from the folder that `EVENKEEL_FIXTURES` names, or beside
//! the project; without them the tests are skipped with a message.

use std::path::{Path, PathBuf};

use evenkeel_core::protobuf::{Message, from_slice, to_vec, unwrap_envelope, wrap_envelope, write_json};
use serde_json::Value;

/// How many kinds the folder has, and how many of them k8s-openapi has types for.
const KINDS: usize = 190;
const TYPED: usize = 98;

struct Fixture {
    name: String,
    json: Value,
    pb: Vec<u8>,
}

impl Fixture {
    /// Returns the message of the object and its bytes. A watch event has no kind.
    fn message(&self) -> (&'static Message, &[u8]) {
        let envelope = unwrap_envelope(&self.pb).unwrap();
        let kind = if envelope.kind.is_empty() { "WatchEvent" } else { envelope.kind };
        let message = Message::of_kind(envelope.api_version, kind);
        (message.unwrap_or_else(|| panic!("{} is not in the table", self.name)), envelope.raw)
    }

    /// The JSON without kind and version, which the envelope states.
    fn json_of_message(&self) -> Value {
        let mut json = self.json.clone();
        let object = json.as_object_mut().unwrap();
        object.remove("apiVersion");
        object.remove("kind");
        json
    }
}

fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("EVENKEEL_FIXTURES") {
        return Some(folder.into());
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/api-1.36");
    beside.is_dir().then_some(beside)
}

fn fixtures() -> Vec<Fixture> {
    let Some(folder) = folder() else {
        println!("there are no fixtures: nothing to compare with");
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pb"));
    paths.sort();
    let fixtures: Vec<Fixture> = paths
        .into_iter()
        .map(|path| Fixture {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            json: serde_json::from_slice(&std::fs::read(path.with_extension("json")).unwrap()).unwrap(),
            pb: std::fs::read(&path).unwrap(),
        })
        .collect();
    assert_eq!(fixtures.len(), KINDS);
    fixtures
}

/// Where two values differ first.
fn difference(path: &str, left: &Value, right: &Value) -> Option<String> {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => difference(&format!("{path}.{key}"), a, b),
                (a, b) => Some(format!("{path}.{key}: {a:?} / {b:?}")),
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(at, (a, b))| difference(&format!("{path}[{at}]"), a, b))
        }
        (a, b) if a == b => None,
        (a, b) => Some(format!("{path}: {a:?} / {b:?}")),
    }
}

#[track_caller]
fn assert_same(name: &str, left: &Value, right: &Value) {
    if let Some(difference) = difference("", left, right) {
        panic!("{name} differs at {difference}");
    }
}

#[test]
fn pb_090_a_message_decodes_like_its_json() {
    for fixture in fixtures() {
        let (message, raw) = fixture.message();
        let shown: Value = from_slice(message, raw).unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        assert_same(&fixture.name, &shown, &fixture.json_of_message());
    }
}

#[test]
fn pb_093_text_and_tree_are_the_same() {
    for fixture in fixtures() {
        let (message, raw) = fixture.message();
        let type_meta = fixture.json["kind"].as_str().map(|kind| (fixture.json["apiVersion"].as_str().unwrap(), kind));
        let mut text = Vec::new();
        write_json(message, raw, type_meta, &mut text).unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        assert_same(&fixture.name, &serde_json::from_slice(&text).unwrap(), &fixture.json);
        if let Some((_, kind)) = type_meta {
            assert!(text.starts_with(format!("{{\"kind\":\"{kind}\",\"apiVersion\":").as_bytes()));
        }
    }
}

#[test]
fn pb_090_a_value_encodes_to_the_message_of_go() {
    let mut equal = 0;
    let all = fixtures();
    for fixture in &all {
        let (message, raw) = fixture.message();
        let bytes = to_vec(message, &fixture.json).unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        let shown: Value = from_slice(message, &bytes).unwrap();
        assert_same(&fixture.name, &shown, &fixture.json_of_message());
        if bytes == raw {
            equal += 1;
            let envelope = unwrap_envelope(&fixture.pb).unwrap();
            assert_eq!(wrap_envelope(envelope.api_version, envelope.kind, &bytes), fixture.pb, "{}", fixture.name);
        } else {
            println!("{} has other bytes: {} instead of {}", fixture.name, bytes.len(), raw.len());
        }
    }
    println!("{equal} of {} are the same to the byte", all.len());
    assert_eq!(equal, all.len(), "no fixture has a zero that JSON leaves out");
}

fn check<T>(fixtures: &[Fixture]) -> usize
where
    T: k8s_openapi::Resource + serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let of_kind = |fixture: &&Fixture| fixture.json["apiVersion"] == T::API_VERSION && fixture.json["kind"] == T::KIND;
    for fixture in fixtures.iter().filter(of_kind) {
        let (message, raw) = fixture.message();
        let typed: T = from_slice(message, raw).unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        // Time that is not set is null in JSON, which k8s-openapi cannot read where it wants a time (PB-061).
        let mut json = fixture.json.clone();
        let disrupted = json.pointer_mut("/status/disruptedPods").and_then(Value::as_object_mut);
        for time in disrupted.into_iter().flat_map(|pods| pods.values_mut()).filter(|time| time.is_null()) {
            *time = "0001-01-01T00:00:00Z".into();
        }
        let expected: T = serde_json::from_value(json).unwrap();
        assert!(typed == expected, "{} differs", fixture.name);
        let bytes = to_vec(message, &typed).unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        let again: T = from_slice(message, &bytes).unwrap();
        assert!(again == expected, "{} differs after it was written", fixture.name);
    }
    fixtures.iter().filter(of_kind).count()
}

macro_rules! check_types {
    ($fixtures:expr, $($($part:ident)::+,)*) => {
        0 $(+ check::<k8s_openapi::$($part)::+>($fixtures))*
    };
}

#[test]
fn pb_090_types_round_trip_in_both_formats() {
    let fixtures = fixtures();
    if fixtures.is_empty() {
        return;
    }
    let checked = check_types! {
        &fixtures,
        api::admissionregistration::v1::MutatingAdmissionPolicy,
        api::admissionregistration::v1::MutatingAdmissionPolicyBinding,
        api::admissionregistration::v1::MutatingWebhookConfiguration,
        api::admissionregistration::v1::ValidatingAdmissionPolicy,
        api::admissionregistration::v1::ValidatingAdmissionPolicyBinding,
        api::admissionregistration::v1::ValidatingWebhookConfiguration,
        api::admissionregistration::v1alpha1::MutatingAdmissionPolicy,
        api::admissionregistration::v1alpha1::MutatingAdmissionPolicyBinding,
        api::admissionregistration::v1beta1::MutatingAdmissionPolicy,
        api::admissionregistration::v1beta1::MutatingAdmissionPolicyBinding,
        api::apps::v1::ControllerRevision,
        api::apps::v1::DaemonSet,
        api::apps::v1::Deployment,
        api::apps::v1::ReplicaSet,
        api::apps::v1::StatefulSet,
        api::authentication::v1::SelfSubjectReview,
        api::authentication::v1::TokenRequest,
        api::authentication::v1::TokenReview,
        api::authorization::v1::LocalSubjectAccessReview,
        api::authorization::v1::SelfSubjectAccessReview,
        api::authorization::v1::SelfSubjectRulesReview,
        api::authorization::v1::SubjectAccessReview,
        api::autoscaling::v1::HorizontalPodAutoscaler,
        api::autoscaling::v1::Scale,
        api::autoscaling::v2::HorizontalPodAutoscaler,
        api::batch::v1::CronJob,
        api::batch::v1::Job,
        api::certificates::v1::CertificateSigningRequest,
        api::certificates::v1beta1::ClusterTrustBundle,
        api::certificates::v1beta1::PodCertificateRequest,
        api::coordination::v1::Lease,
        api::coordination::v1alpha2::LeaseCandidate,
        api::coordination::v1beta1::LeaseCandidate,
        apimachinery::pkg::apis::meta::v1::APIGroup,
        apimachinery::pkg::apis::meta::v1::APIVersions,
        api::core::v1::Binding,
        api::core::v1::ComponentStatus,
        api::core::v1::ConfigMap,
        api::core::v1::Endpoints,
        api::core::v1::Event,
        api::core::v1::LimitRange,
        api::core::v1::Namespace,
        api::core::v1::Node,
        api::core::v1::PersistentVolume,
        api::core::v1::PersistentVolumeClaim,
        api::core::v1::Pod,
        api::core::v1::PodTemplate,
        api::core::v1::ReplicationController,
        api::core::v1::ResourceQuota,
        api::core::v1::Secret,
        api::core::v1::Service,
        api::core::v1::ServiceAccount,
        apimachinery::pkg::apis::meta::v1::Status,
        api::discovery::v1::EndpointSlice,
        api::events::v1::Event,
        api::flowcontrol::v1::FlowSchema,
        api::flowcontrol::v1::PriorityLevelConfiguration,
        api::apiserverinternal::v1alpha1::StorageVersion,
        api::networking::v1::IPAddress,
        api::networking::v1::Ingress,
        api::networking::v1::IngressClass,
        api::networking::v1::NetworkPolicy,
        api::networking::v1::ServiceCIDR,
        api::node::v1::RuntimeClass,
        api::policy::v1::Eviction,
        api::policy::v1::PodDisruptionBudget,
        api::rbac::v1::ClusterRole,
        api::rbac::v1::ClusterRoleBinding,
        api::rbac::v1::Role,
        api::rbac::v1::RoleBinding,
        api::resource::v1::DeviceClass,
        api::resource::v1::ResourceClaim,
        api::resource::v1::ResourceClaimTemplate,
        api::resource::v1::ResourceSlice,
        api::resource::v1alpha3::DeviceTaintRule,
        api::resource::v1alpha3::ResourcePoolStatusRequest,
        api::resource::v1beta1::DeviceClass,
        api::resource::v1beta1::ResourceClaim,
        api::resource::v1beta1::ResourceClaimTemplate,
        api::resource::v1beta1::ResourceSlice,
        api::resource::v1beta2::DeviceClass,
        api::resource::v1beta2::DeviceTaintRule,
        api::resource::v1beta2::ResourceClaim,
        api::resource::v1beta2::ResourceClaimTemplate,
        api::resource::v1beta2::ResourceSlice,
        api::scheduling::v1::PriorityClass,
        api::storage::v1::CSIDriver,
        api::storage::v1::CSINode,
        api::storage::v1::CSIStorageCapacity,
        api::storage::v1::StorageClass,
        api::storage::v1::VolumeAttachment,
        api::storage::v1::VolumeAttributesClass,
        api::storagemigration::v1beta1::StorageVersionMigration,
    };
    assert_eq!(checked, TYPED);
}
