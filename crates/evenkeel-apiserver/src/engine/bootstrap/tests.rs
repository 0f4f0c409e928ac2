use std::net::Ipv4Addr;

use jiff::Timestamp;

use super::*;
use crate::field_ownership::FieldTypes;

fn owned<T: FieldTypes>(object: &Value, api_version: &str, types: Option<&T>) -> Value {
    let write =
        field_ownership::Write { manager: MANAGER, api_version, subresource: None, now: TEMPLATE_TIME, reset: &[] };
    let managed = field_ownership::first_managed_fields(&mut object.clone(), types, &write);
    managed.map_or(Value::Null, |managed| serde_json::from_slice(&managed).unwrap())
}

#[test]
fn bst_008_ownership_is_that_of_the_schemas() {
    let facts = ServerFacts { address: Some((Ipv4Addr::LOCALHOST, 6443).into()), client_ca: Some("pem".to_owned()) };
    let own = kubernetes_service::endpoints(&facts).chain(system::config_maps(&facts, Timestamp::UNIX_EPOCH));
    let own = own.chain([kubernetes_service::service(&facts)]);
    for mut object in render::created_objects().chain(own) {
        let registry = Registry::builtin();
        let resource = resource_of(&registry, &object).unwrap();
        if !resource.has_verb("update") {
            continue;
        }
        kinds::default_object(&resource.group, &resource.version, &resource.kind, &mut object);
        object.as_object_mut().unwrap().remove("status");
        let api_version = resource.api_version();
        let expected = owned(&object, &api_version, resource.schema());
        assert_eq!(owned(&object, &api_version, Some(BootstrapTypes::of(&resource.kind))), expected, "{object}");
    }
}
