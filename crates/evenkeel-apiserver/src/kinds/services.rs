//! Services, and the allocation of their addresses and ports.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::field::{FieldError, is_full};
use crate::meta::{dns_label, refuse, validate_labels};

use super::check::{same, supported};
use super::fill::{
    Constant::{Bool, Text},
    DefaultRule, Object, absent, at, child, ensure, fill, is_absent, is_empty, items, list_at, text, text_at, zero,
};
use super::podcheck::in_port_range;

const SERVICE: &[DefaultRule] = &[zero("sessionAffinity", Text("None")), zero("type", Text("ClusterIP"))];
const PORT: &[DefaultRule] = &[zero("protocol", Text("TCP"))];
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;
const DEFAULT_AFFINITY_SECONDS: i64 = 10800;

/// The addresses (of `10.0.0.0/24`) and ports in use, which are not allocated again.
pub(crate) trait ServiceAllocations {
    /// Returns whether another Service has this address.
    fn is_address_used(&self, address: &str) -> bool;
    /// Returns whether another Service has this node port.
    fn is_node_port_used(&self, port: i64) -> bool;
    /// Returns whether this Service has this node port already.
    fn has_node_port(&self, port: i64) -> bool;
}

pub(super) fn default_service(object: &mut Object) {
    let Some(spec) = ensure(object, "spec") else {
        return;
    };
    fill(spec, SERVICE);
    if text(spec, "sessionAffinity") == "None" {
        spec.remove("sessionAffinityConfig");
    } else if text(spec, "sessionAffinity") == "ClientIP" {
        let timeout = spec.get("sessionAffinityConfig").and_then(|config| at(config, &["clientIP", "timeoutSeconds"]));
        if timeout.is_none() {
            spec.insert(
                "sessionAffinityConfig".into(),
                json!({"clientIP": {"timeoutSeconds": DEFAULT_AFFINITY_SECONDS}}),
            );
        }
    }
    for port in items(spec, "ports") {
        fill(port, PORT);
        let unset = match port.get("targetPort") {
            None | Some(Value::Null) => true,
            Some(target) => target.as_i64() == Some(0) || target.as_str() == Some(""),
        };
        if unset && let Some(number) = port.get("port").cloned() {
            port.insert("targetPort".into(), number);
        }
    }
    let kind = text(spec, "type").to_owned();
    let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && !is_empty(spec.get("externalIPs")));
    if external {
        fill(spec, &[zero("externalTrafficPolicy", Text("Cluster"))]);
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill(spec, &[absent("internalTrafficPolicy", Text("Cluster"))]);
    }
    if kind == "LoadBalancer" {
        fill(spec, &[absent("allocateLoadBalancerNodePorts", Bool(true))]);
        if let Some(balancer) = child(object, "status").and_then(|status| child(status, "loadBalancer")) {
            for ingress in items(balancer, "ingress").filter(|ingress| !is_empty(ingress.get("ip"))) {
                fill(ingress, &[absent("ipMode", Text("VIP"))]);
            }
        }
    }
}

/// Allocates the addresses and node ports of a Service, on create and on update: always the lowest free one, so that
/// the same requests give the same results.
pub(crate) fn assign_service_addresses(
    service: &mut Value,
    allocations: &dyn ServiceAllocations,
) -> Result<(), FieldError> {
    let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    if text(spec, "type") == "ExternalName" {
        return Ok(());
    }
    assign_cluster_ip(spec, allocations)?;
    default_families(spec);
    let wants_ports = match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    };
    if wants_ports {
        assign_node_ports(spec, allocations)?;
    }
    if wants_health_check_port(spec) && spec.get("healthCheckNodePort").and_then(Value::as_i64).unwrap_or_default() == 0
    {
        let port = FreePorts::new(spec, allocations).take()?;
        spec.insert("healthCheckNodePort".into(), port.into());
    }
    Ok(())
}

fn assign_cluster_ip(spec: &mut Object, allocations: &dyn ServiceAllocations) -> Result<(), FieldError> {
    let wanted = text(spec, "clusterIP").to_owned();
    match wanted.as_str() {
        "" => {
            let free =
                (1..=254).map(|host| format!("10.0.0.{host}")).find(|address| !allocations.is_address_used(address));
            let Some(address) = free else {
                return Err(FieldError::invalid(
                    "spec.clusterIPs",
                    &json!([""]),
                    "failed to allocate IP: range is full",
                ));
            };
            spec.insert("clusterIPs".into(), json!([address]));
            spec.insert("clusterIP".into(), address.into());
        }
        address if address != "None" && allocations.is_address_used(address) => {
            return Err(FieldError::invalid(
                "spec.clusterIPs",
                &json!([address]),
                format!("failed to allocate IP {address}: provided IP is already allocated"),
            ));
        }
        address => {
            if is_empty(spec.get("clusterIPs")) {
                spec.insert("clusterIPs".into(), json!([address]));
            }
        }
    }
    Ok(())
}

fn default_families(spec: &mut Object) {
    // A headless Service without a selector serves the endpoints of any family.
    let any_family = text(spec, "clusterIP") == "None" && is_empty(spec.get("selector"));
    if is_absent(spec, "ipFamilyPolicy") {
        let policy = if any_family { "RequireDualStack" } else { "SingleStack" };
        spec.insert("ipFamilyPolicy".into(), policy.into());
    }
    if is_empty(spec.get("ipFamilies")) {
        let families = if any_family && text(spec, "ipFamilyPolicy") != "SingleStack" {
            json!(["IPv4", "IPv6"])
        } else if text(spec, "clusterIP").contains(':') {
            json!(["IPv6"])
        } else {
            json!(["IPv4"])
        };
        spec.insert("ipFamilies".into(), families);
    }
}

fn assign_node_ports(spec: &mut Object, allocations: &dyn ServiceAllocations) -> Result<(), FieldError> {
    let mut free = FreePorts::new(spec, allocations);
    for (index, port) in items(spec, "ports").enumerate() {
        let number = port.get("nodePort").and_then(Value::as_i64).unwrap_or_default();
        if number == 0 {
            port.insert("nodePort".into(), free.take()?.into());
        } else if !NODE_PORTS.contains(&number) && !allocations.has_node_port(number) {
            let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
            return Err(FieldError::invalid(
                format!("spec.ports[{index}].nodePort"),
                &Value::from(number),
                format!("provided port is not in the valid range. The range of valid ports is {first}-{last}"),
            ));
        } else if allocations.is_node_port_used(number) {
            return Err(FieldError::invalid(
                format!("spec.ports[{index}].nodePort"),
                &Value::from(number),
                "provided port is already allocated",
            ));
        }
    }
    Ok(())
}

/// The node ports that neither this Service nor another one has, lowest first.
struct FreePorts<'a> {
    mine: HashSet<i64>,
    rest: std::ops::RangeInclusive<i64>,
    allocations: &'a dyn ServiceAllocations,
}

impl<'a> FreePorts<'a> {
    fn new(spec: &Object, allocations: &'a dyn ServiceAllocations) -> Self {
        let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
        let mine = ports.filter_map(|port| port.get("nodePort").and_then(Value::as_i64)).collect();
        FreePorts { mine, rest: NODE_PORTS, allocations }
    }

    fn take(&mut self) -> Result<i64, FieldError> {
        let (mine, allocations) = (&self.mine, self.allocations);
        let free = self.rest.find(|number| !mine.contains(number) && !allocations.is_node_port_used(*number));
        free.ok_or_else(|| {
            let detail = "failed to allocate a nodePort: range is full";
            FieldError::invalid("spec.ports", &Value::from(0), detail)
        })
    }
}

fn wants_health_check_port(spec: &Object) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

/// Keeps allocated values that an update omits; drops those that a change of type makes obsolete.
pub(super) fn prepare_update(new: &mut Object, old: &Value) {
    let (Some(spec), Some(old)) = (child(new, "spec"), old.get("spec").and_then(Value::as_object)) else {
        return;
    };
    let has_address = |spec: &Object| text(spec, "type") != "ExternalName";
    let has_ports = |spec: &Object| matches!(text(spec, "type"), "NodePort" | "LoadBalancer");
    if has_address(spec) && has_address(old) {
        if is_empty(spec.get("clusterIP")) {
            copy(spec, old, "clusterIP");
            copy(spec, old, "clusterIPs");
        } else if text(spec, "clusterIP") != text(old, "clusterIP") && spec.get("clusterIPs") == old.get("clusterIPs") {
            // The client knows only the older, single field.
            let address = json!([text(spec, "clusterIP")]);
            spec.insert("clusterIPs".into(), address);
        } else if is_empty(spec.get("clusterIPs")) {
            copy(spec, old, "clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if is_empty(spec.get(key)) {
                copy(spec, old, key);
            }
        }
    } else if has_address(old) {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if spec.get(key) == old.get(key) {
                spec.remove(key);
            }
        }
    }
    if has_ports(spec) && has_ports(old) {
        keep_node_ports(spec, old);
    } else if has_ports(old) && !has_ports(spec) && same_node_ports(spec, old) {
        for port in items(spec, "ports") {
            port.remove("nodePort");
        }
    }
    if wants_health_check_port(old) {
        if wants_health_check_port(spec) && is_absent(spec, "healthCheckNodePort") {
            copy(spec, old, "healthCheckNodePort");
        } else if !wants_health_check_port(spec) && spec.get("healthCheckNodePort") == old.get("healthCheckNodePort") {
            spec.remove("healthCheckNodePort");
        }
    }
    if text(old, "type") == "LoadBalancer" && text(spec, "type") != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if spec.get(key) == old.get(key) {
                spec.remove(key);
            }
        }
    }
    if has_ports(old) && !has_ports(spec) && spec.get("externalTrafficPolicy") == old.get("externalTrafficPolicy") {
        spec.remove("externalTrafficPolicy");
    }
}

fn keep_node_ports(spec: &mut Object, old: &Object) {
    let known = old.get("ports").and_then(Value::as_array).into_iter().flatten().rev();
    let known: HashMap<(Option<i64>, &str), &Value> = known.map(|port| (port_identity(port), port)).collect();
    for port in items(spec, "ports") {
        if port.get("nodePort").and_then(Value::as_i64).unwrap_or_default() != 0 {
            continue;
        }
        let twin = known.get(&(port.get("port").and_then(Value::as_i64), text(port, "protocol")));
        if let Some(number) = twin.and_then(|twin| twin.get("nodePort")) {
            port.insert("nodePort".into(), number.clone());
        }
    }
}

/// Returns what identifies a port of a Service: number and protocol.
fn port_identity(port: &Value) -> (Option<i64>, &str) {
    (port.get("port").and_then(Value::as_i64), text_at(port, &["protocol"]))
}

fn same_node_ports(spec: &Object, old: &Object) -> bool {
    let numbers = |spec: &Object| -> Vec<i64> {
        let ports = spec.get("ports").and_then(Value::as_array).into_iter().flatten();
        ports.filter_map(|port| port.get("nodePort").and_then(Value::as_i64)).collect()
    };
    numbers(spec) == numbers(old)
}

fn copy(spec: &mut Object, old: &Object, key: &str) {
    if let Some(value) = old.get(key) {
        spec.insert(key.to_owned(), value.clone());
    }
}

pub(super) fn validate(service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = json!({});
    let spec = service.get("spec").unwrap_or(&nothing);
    let kind = text_at(spec, &["type"]);
    let headless = text_at(spec, &["clusterIP"]) == "None";
    let ports = list_at(spec, &["ports"]);
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            &Value::from("None"),
            format!("may not be set to 'None' for {kind} services"),
        )),
        "ExternalName" => {
            for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !same(spec.get(key), None) {
                    errors
                        .push(FieldError::forbidden(format!("spec.{key}"), "may not be set for ExternalName services"));
                }
            }
            if text_at(spec, &["externalName"]).is_empty() {
                errors.push(FieldError::required("spec.externalName", ""));
            }
        }
        _ => {}
    }
    if text_at(spec, &["clusterIP"]).is_empty() && !list_at(spec, &["clusterIPs"]).is_empty() {
        errors.push(FieldError::invalid(
            "spec.clusterIPs",
            &spec["clusterIPs"],
            "must be empty when `clusterIP` is not specified",
        ));
    }
    let mut seen = SeenPorts::default();
    for (index, port) in ports.iter().enumerate() {
        if is_full(&errors) {
            return errors;
        }
        validate_port(&mut errors, port, index, ports.len(), &mut seen);
    }
    validate_labels(spec.get("selector"), "spec.selector", &mut errors);
    supported(&mut errors, spec, "spec", "sessionAffinity", &["ClientIP", "None"]);
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    supported(&mut errors, spec, "spec", "type", &kinds);
    errors
}

/// The ports of a Service that are already checked.
#[derive(Default)]
struct SeenPorts<'a> {
    names: HashSet<&'a str>,
    identities: HashSet<(Option<i64>, &'a str)>,
}

fn validate_port<'a>(
    errors: &mut Vec<FieldError>,
    port: &'a Value,
    index: usize,
    count: usize,
    seen: &mut SeenPorts<'a>,
) {
    let path = format!("spec.ports[{index}]");
    let name = text_at(port, &["name"]);
    if name.is_empty() {
        if count > 1 {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
    } else {
        refuse(errors, format_args!("{path}.name"), name, dns_label(name));
        if !seen.names.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &Value::from(name)));
        }
    }
    let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
    in_port_range(errors, number, format_args!("{path}.port"));
    supported(errors, port, &path, "protocol", &["SCTP", "TCP", "UDP"]);
    if let Some(target) = port.get("targetPort").and_then(Value::as_i64) {
        in_port_range(errors, target, format_args!("{path}.targetPort"));
    }
    if !seen.identities.insert(port_identity(port)) {
        let value = json!({"protocol": text_at(port, &["protocol"]), "port": number});
        errors.push(FieldError::duplicate(path, &value));
    }
}

/// Requires that the primary address of a Service is unchanged.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let external = |service| text_at(service, &["spec", "type"]) == "ExternalName";
    let addresses = |service| list_at(service, &["spec", "clusterIPs"]);
    if !external(new) && !external(old) && !addresses(old).is_empty() {
        let path = "spec.clusterIPs[0]";
        let value = at(new, &["spec", "clusterIPs"]).unwrap_or(&Value::Null);
        if addresses(new).is_empty() {
            errors.push(FieldError::invalid(path, value, "primary clusterIP can not be unset"));
        } else if addresses(new).first() != addresses(old).first() {
            errors.push(FieldError::invalid(path, value, "may not change once set"));
        }
    }
    errors.extend(validate(new));
    errors
}
