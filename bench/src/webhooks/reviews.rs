//! The bodies of the requests: reviews of pods that are created.

use bytes::Bytes;
use serde_json::json;

use crate::data::Data;

/// Returns reviews of as many pods, as API servers write them.
pub(super) fn reviews(count: usize) -> Vec<Bytes> {
    let mut bodies = Vec::with_capacity(count);
    for (_, pods) in Data::Pods.kinds(count) {
        for number in 0..pods.len() {
            let mut pod = String::from(r#"{"kind":"Pod","apiVersion":"v1","#);
            pods.write(&mut pod, number);
            pod.push('}');
            bodies.push(review(number, &pod).into());
        }
    }
    bodies
}

/// Returns the review of a pod. The text of the pod is not changed.
fn review(number: usize, pod: &str) -> String {
    let uid = format!("705ab4f5-6393-41e8-b7cc-{number:012x}");
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let user = json!({
        "username": "system:serviceaccount:kube-system:replicaset-controller",
        "uid": "5f1c8a7e-2f0d-4b53-9a55-0e1d6a5b4c3f",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=2c9f5d6e-8f41-4f7d-9c58-f0f3c4c7c2ab"]},
    });
    let options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"});
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"{uid}","kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource},"namespace":"default","operation":"CREATE","userInfo":{user},"object":{pod},"oldObject":null,"dryRun":false,"options":{options}}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::Value;

    use super::*;

    #[test]
    fn reviews_are_of_distinct_pods_of_about_six_kilobytes() {
        let bodies = reviews(100);
        let mut names = HashSet::new();
        for body in &bodies {
            let mut review: Value = serde_json::from_slice(body).unwrap();
            let pod: Pod = serde_json::from_value(review["request"]["object"].take()).unwrap();
            names.insert(pod.metadata.name.unwrap());
            assert_eq!(review["request"]["operation"], "CREATE");
        }
        assert_eq!((bodies.len(), names.len()), (100, 100));
        let mean = bodies.iter().map(Bytes::len).sum::<usize>() / bodies.len();
        assert!((5_500..8_000).contains(&mean), "{mean}");
    }
}
