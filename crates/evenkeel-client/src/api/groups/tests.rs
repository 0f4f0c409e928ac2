use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_apiserver::ApiServer;
use evenkeel_core::ResourceInfo;

use super::rows;
use crate::client::Client;

/// The target of an accessor.
pub(super) struct Row {
    /// The group and version of the table.
    pub(super) group_version: &'static str,
    pub(super) method: &'static str,
    pub(super) in_namespaces: bool,
    pub(super) info: Arc<ResourceInfo>,
}

/// Served resources without an accessor, and why.
const WITHOUT: [(&str, &str); 1] =
    [("v1 bindings Binding true", "a pod is bound through itself: `pods(namespace).bind(…)`, as client-go does it")];

fn describe(info: &ResourceInfo) -> String {
    format!("{} {} {} {}", info.api_version(), info.plural(), info.kind(), info.namespaced())
}

#[tokio::test]
async fn typ_001_every_resource_of_a_server_has_an_accessor() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::from_service(server.service());
    let served = client.discovery().groups_and_resources().await.unwrap();
    let resources = served.resources.iter().flat_map(|list| &list.resources);
    let mut served: BTreeSet<String> = resources.map(|resource| describe(&resource.info)).collect();
    for (resource, why) in WITHOUT {
        assert!(served.remove(resource), "{resource} is served no more ({why})");
    }
    let ours: BTreeSet<String> = rows(&client).iter().map(|row| describe(&row.info)).collect();
    let missing: Vec<_> = served.difference(&ours).collect();
    assert!(missing.is_empty(), "no accessor for {missing:#?}");
    // Servers do not serve versions that are not stable unless configured.
    let is_final = |resource: &&String| {
        let version = resource.split(' ').next().and_then(|api_version| api_version.rsplit('/').next());
        version.is_some_and(|version| !version.contains("alpha") && !version.contains("beta"))
    };
    let made_up: Vec<_> = ours.difference(&served).filter(is_final).collect();
    assert!(made_up.is_empty(), "not served: {made_up:#?}");
}

#[tokio::test]
async fn typ_001_accessors_return_the_resource_of_their_name() {
    let server = ApiServer::start().await.unwrap();
    let client = Client::from_service(server.service());
    for Row { group_version, method, in_namespaces, info } in rows(&client) {
        assert_eq!(info.api_version(), group_version, "{method}");
        assert_eq!(info.plural(), method.replace('_', ""), "{group_version}");
        assert_eq!(info.namespaced(), in_namespaces, "{group_version} {method}");
    }
}
