//! Writes the document in both forms, side by side.

use serde_json::{Value, json};

use super::gnostic::{self, Message};
use super::operations::SharedParameters;
use super::schemas;
use crate::openapi::document::{published_schemas, schema_name};
use crate::openapi::operations::paths;
use crate::registry::Registry;

/// A JSON object that is written member by member.
struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> ObjectWriter<'a> {
    fn start(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        ObjectWriter { out, empty: true }
    }

    fn member(&mut self, name: &str, value: &Value) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        self.out.extend_from_slice(format!("{}:{value}", Value::from(name)).as_bytes());
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

/// Returns the document of all served resources in JSON and in protobuf.
pub(super) fn write(registry: &Registry) -> (Vec<u8>, Vec<u8>) {
    let mut json = br#"{"swagger":"2.0","info":{"title":"Kubernetes","version":"v1.37.0"},"paths":"#.to_vec();
    let mut protobuf = Message::default();
    protobuf.text(1, "2.0");
    protobuf.message(2, |info| {
        info.text(1, "Kubernetes");
        info.text(2, "v1.37.0");
    });

    let mut shared = SharedParameters::default();
    protobuf.message(8, |out| write_paths(registry, &mut shared, &mut json, out));
    json.extend_from_slice(br#","definitions":"#);
    protobuf.message(9, |out| write_definitions(registry, &mut json, out));
    json.extend_from_slice(br#","parameters":"#);
    protobuf.message(10, |out| {
        let mut object = ObjectWriter::start(&mut json);
        for (name, parameter) in &shared.0 {
            object.member(name, parameter);
            if let Value::Object(parameter) = parameter {
                out.named(1, name, |out| gnostic::parameter(out, parameter));
            }
        }
        object.end();
    });

    let security = json!([{"BearerToken": []}]);
    let definition = json!({"BearerToken": {"type": "apiKey", "in": "header", "name": "authorization"}});
    json.extend_from_slice(format!(r#","security":{security},"securityDefinitions":{definition}}}"#).as_bytes());
    protobuf.message(12, |out| out.named(1, "BearerToken", |_| {}));
    protobuf.message(13, |out| {
        out.named(1, "BearerToken", |out| {
            out.message(2, |out| {
                out.text(1, "apiKey");
                out.text(2, "authorization");
                out.text(3, "header");
            });
        });
    });
    (json, protobuf.into_bytes())
}

fn write_paths(registry: &Registry, shared: &mut SharedParameters, json: &mut Vec<u8>, protobuf: &mut Message) {
    let mut object = ObjectWriter::start(json);
    for version in registry.groups().iter().flat_map(|group| &group.versions) {
        for (path, item) in paths(version) {
            let item = shared.path_item(&serde_json::to_value(item).unwrap_or_default());
            object.member(&path, &item);
            protobuf.named(2, &path, |out| gnostic::path_item(out, &item));
        }
    }
    object.end();
}

fn write_definitions(registry: &Registry, json: &mut Vec<u8>, protobuf: &mut Message) {
    let mut object = ObjectWriter::start(json);
    let mut write = |name: &str, schema: &Value| {
        object.member(name, schema);
        protobuf.named(1, name, |out| gnostic::schema(out, schema));
    };
    let descriptions = registry.descriptions();
    for (name, schema) in published_schemas() {
        let Ok(mut schema) = serde_json::from_str(schema.get()) else { continue };
        schemas::reduce_builtin(&mut schema);
        if let Some(descriptions) = descriptions {
            descriptions.add_to(name, &mut schema);
        }
        write(name, &schema);
    }
    for resource in registry.resources() {
        let Some(facts) = &resource.custom else { continue };
        let name = schema_name(resource);
        let mut schema = schemas::custom(resource, &facts.published_schema);
        let mut list = schemas::custom_list(resource, &name);
        if let Some(descriptions) = descriptions {
            descriptions.add_common_to(&mut schema);
            descriptions.add_common_to(&mut list);
        }
        write(&name, &schema);
        write(&format!("{name}List"), &list);
    }
    object.end();
}
