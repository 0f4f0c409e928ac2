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

struct Taken(&'static [&'static str], &'static [i64]);

impl ServiceLedger for Taken {
    fn address_taken(&self, address: &str) -> bool {
        self.0.contains(&address)
    }

    fn node_port_taken(&self, port: i64) -> bool {
        self.1.contains(&port)
    }
}
