//! CertificateApproval, CertificateSigning, ClusterTrustBundleAttest and CertificateSubjectRestriction.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::builder;
use crate::api::{Api, MERGE};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// The subject of a request: an organization, DER-encoded, in a request that is otherwise empty.
fn request_pem(organization: &str) -> String {
    let element = |tag: u8, content: &[u8]| {
        let mut element = vec![tag, u8::try_from(content.len()).unwrap()];
        element.extend(content);
        element
    };
    let name = element(0x06, &[0x55, 0x04, 0x0a]);
    let attribute = element(0x30, &[name, element(0x0c, organization.as_bytes())].concat());
    let subject = element(0x30, &element(0x31, &attribute));
    let info = element(0x30, &[element(0x02, &[0]), subject].concat());
    let request = STANDARD.encode(element(0x30, &info));
    STANDARD.encode(format!("-----BEGIN CERTIFICATE REQUEST-----\n{request}\n-----END CERTIFICATE REQUEST-----\n"))
}

fn request(name: &str, signer: &str, pem: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
           "spec": {"request": pem, "signerName": signer, "usages": ["client auth"]}})
}

#[tokio::test]
async fn adm_001_no_client_certificate_is_requested_for_the_group_of_administrators() {
    let api = Api::start().await;
    let signer = "kubernetes.io/kube-apiserver-client";
    let refused = api.post(REQUESTS, &request("r", signer, &request_pem("system:masters"))).await;
    let why = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    let text = format!("certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: {why}");
    assert_eq!(refused.refusal(403, "Forbidden"), text);
    let refused = api.post(REQUESTS, &request("r", signer, &STANDARD.encode("no request"))).await;
    let why = "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST";
    assert!(refused.refusal(403, "Forbidden").ends_with(why), "{}", refused.text);
    api.post(REQUESTS, &request("r", signer, &request_pem("developers"))).await.expect(201);
    api.post(REQUESTS, &request("s", "example.com/own", &request_pem("system:masters"))).await.expect(201);
}

#[tokio::test]
async fn adm_001_acting_for_a_signer_needs_a_permission() {
    let api = Api::with(builder().rbac(true)).await;
    api.post(REQUESTS, &request("r", "example.com/own", &request_pem("developers"))).await.expect(201);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let resources = json!(["certificatesigningrequests/approval", "certificatesigningrequests/status"]);
    let mut rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": ["patch"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"},
                      "rules": rules});
    api.post(&format!("{rbac}/clusterroles"), &role).await.expect(201);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "a"}, "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"}});
    api.post(&format!("{rbac}/clusterrolebindings"), &binding).await.expect(201);
    let as_bob = [("content-type", MERGE), ("impersonate-user", "bob")];
    let condition = json!({"type": "Approved", "status": "True", "reason": "a", "message": "b"});
    let approval = json!({"status": {"conditions": [condition]}}).to_string();
    let (approve, status) = (format!("{REQUESTS}/r/approval"), format!("{REQUESTS}/r/status"));
    let refused = api.send("PATCH", &approve, &as_bob, approval.clone()).await;
    let why = |verb: &str| {
        format!(
            "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to {verb} requests with \
             signerName \"example.com/own\""
        )
    };
    assert_eq!(refused.refusal(403, "Forbidden"), why("approve"));
    let signed = json!({"status": {"certificate": STANDARD.encode("certificate")}}).to_string();
    let refused = api.send("PATCH", &status, &as_bob, signed).await;
    assert_eq!(refused.refusal(403, "Forbidden"), why("sign"));
    // A permission for all signers of a domain is enough.
    let domain = json!({"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve"],
                        "resourceNames": ["example.com/*"]});
    rules.as_array_mut().unwrap().push(domain);
    api.patch(&format!("{rbac}/clusterroles/a"), &json!({"rules": rules})).await.expect(200);
    api.send("PATCH", &approve, &as_bob, approval).await.expect(200);
}

#[tokio::test]
async fn adm_001_an_administrator_approves_signs_and_attests() {
    let api = Api::start().await;
    api.post(REQUESTS, &request("r", "example.com/own", &request_pem("developers"))).await.expect(201);
    let condition = json!({"type": "Approved", "status": "True", "reason": "a", "message": "b"});
    let approval = json!({"status": {"conditions": [condition]}});
    api.patch(&format!("{REQUESTS}/r/approval"), &approval).await.expect(200);
    let signed = json!({"status": {"certificate": STANDARD.encode("certificate")}});
    api.patch(&format!("{REQUESTS}/r/status"), &signed).await.expect(200);
}
