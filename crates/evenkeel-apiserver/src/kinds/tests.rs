mod checks;
mod defaults;
mod shapes;

use serde_json::json;

use super::*;

fn defaulted(group: &str, version: &str, kind: &str, mut object: Value) -> Value {
    default_object(group, version, kind, &mut object);
    object
}

fn created(group: &str, version: &str, kind: &str, mut object: Value) -> Value {
    default_object(group, version, kind, &mut object);
    prepare_create(group, version, kind, &mut object, "uid-1");
    object
}

fn messages(errors: Vec<FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn deployment() -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"image": "nginx:1", "name": "c"}]},
            },
        },
    })
}

fn pod() -> Value {
    json!({"metadata": {"name": "p1"}, "spec": {"containers": [{"image": "busybox", "name": "c"}]}})
}

struct UsedAddresses(&'static [&'static str], &'static [i64]);

impl ServiceAllocations for UsedAddresses {
    fn is_address_used(&self, address: &str) -> bool {
        self.0.contains(&address)
    }

    fn is_node_port_used(&self, port: i64) -> bool {
        self.1.contains(&port)
    }

    fn has_node_port(&self, _: i64) -> bool {
        false
    }
}
