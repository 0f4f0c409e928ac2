use super::*;
use crate::registry::Registry;

#[test]
fn err_15_a_write_that_exhausts_its_attempts_returns_retry_after() {
    let registry = Registry::builtin();
    let resource = registry.lookup("apps", "v1", "deployments").unwrap();
    let target = Target { resource, namespace: Some("default"), name: "web", scope: WriteScope::Main };
    let status = server_timeout("update", target);
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
               "reason": "ServerTimeout",
               "message": "The update operation against deployments.apps could not be completed at this time, \
                           please try again.",
               "details": {"group": "apps", "kind": "deployments", "name": "update", "retryAfterSeconds": 2}})
    );
    let response = crate::engine::response::status(&status, crate::negotiate::Representation::JSON);
    assert_eq!(response.headers()[http::header::RETRY_AFTER], "2");
}
