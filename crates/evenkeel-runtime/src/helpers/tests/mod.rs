mod conditions;
mod finalizers;
mod owners;
mod writes;

use evenkeel_apiserver::{Action, ApiServer, Rule};
use evenkeel_client::Client;
use evenkeel_core::{Obj, Reason, Status};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;

async fn server() -> ApiServer {
    ApiServer::builder().in_process_only().start().await.unwrap()
}

/// Creates a config map in the namespace `default`, with this metadata beside its name.
async fn config_map(client: &Client, name: &str, mut metadata: Value) -> Obj<ConfigMap> {
    metadata["name"] = name.into();
    let map = serde_json::from_value(json!({"metadata": metadata})).unwrap();
    client.api::<ConfigMap>().namespace("default").create(&map).await.unwrap()
}

/// Rejects every patch with a conflict.
fn conflict() -> Rule {
    let status = Status::failure(409, Reason::CONFLICT, "the object has been modified");
    Rule::new(Action::Status(Box::new(status))).verb("patch").resource("configmaps")
}
