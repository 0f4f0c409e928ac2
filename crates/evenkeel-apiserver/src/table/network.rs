//! Columns of services, endpoints, ingresses and network policies.

use std::collections::BTreeSet;

use serde_json::Value;

use super::cell::{
    AGE, Column, NAME, Row, first_three, get, labels, list_of, marked_if_default, plain, selector_or_none, text,
    text_of, texts,
};

pub(super) const SERVICE: &[Column] = &[
    NAME,
    text("Type", "From where the service can be reached.", |row| row.text(&["spec", "type"]).into()),
    text("Cluster-IP", "The address inside the cluster.", |row| {
        let first = row.list(&["spec", "clusterIPs"]).first().and_then(Value::as_str);
        first.unwrap_or("<none>").into()
    }),
    text("External-IP", "The addresses outside the cluster.", |row| external_addresses(row).into()),
    text("Port(s)", "The ports, with those of the nodes.", |row| service_ports(row).into()),
    AGE,
    text("Selector", "Which pods serve.", |row| labels(row.get(&["spec", "selector"])).into()).wide(),
];

fn external_addresses(row: &Row<'_>) -> String {
    let given = row.list(&["spec", "externalIPs"]);
    let given = || given.iter().filter_map(Value::as_str);
    let join_or = |addresses: Vec<&str>, none: &str| {
        if addresses.is_empty() { none.to_owned() } else { addresses.join(",") }
    };
    match row.text(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => join_or(given().collect(), "<none>"),
        "LoadBalancer" => {
            let balancer = balancer_addresses(row);
            join_or(balancer.into_iter().chain(given()).collect(), "<pending>")
        }
        "ExternalName" => row.text(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Returns the addresses of a load balancer, sorted and unique.
fn balancer_addresses<'a>(row: &Row<'a>) -> BTreeSet<&'a str> {
    row.list(&["status", "loadBalancer", "ingress"])
        .iter()
        .map(|ingress| match text_of(ingress, &["ip"]) {
            "" => text_of(ingress, &["hostname"]),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect()
}

fn service_ports(row: &Row<'_>) -> String {
    let ports = row.list(&["spec", "ports"]).iter().map(|port| {
        let number = |key| port.get(key).and_then(Value::as_i64).unwrap_or_default();
        let protocol = text_of(port, &["protocol"]);
        match number("nodePort") {
            node @ 1.. => format!("{}:{node}/{protocol}", number("port")),
            _ => format!("{}/{protocol}", number("port")),
        }
    });
    let ports: Vec<String> = ports.collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

pub(super) const INGRESS: &[Column] = &[
    NAME,
    text("Class", "The class of the controller that should serve it.", |row| {
        row.text_or(&["spec", "ingressClassName"], "<none>")
    }),
    text("Hosts", "The hosts it is for.", |row| hosts(row).into()),
    text("Address", "The addresses.", |row| {
        let addresses: Vec<&str> = balancer_addresses(row).into_iter().collect();
        addresses.join(",").into()
    }),
    text("Ports", "The ports of plain and of encrypted traffic.", |row| match row.list(&["spec", "tls"]) {
        [] => "80".into(),
        _ => "80, 443".into(),
    }),
    AGE,
];

fn hosts(row: &Row<'_>) -> String {
    const SHOWN: usize = 3;
    let rules = row.list(&["spec", "rules"]);
    let mut hosts: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        // Rules without a host count once three hosts are shown.
        more |= hosts.len() == SHOWN;
        let host = text_of(rule, &["host"]);
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match (hosts.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", hosts.join(","), rules.len() - SHOWN),
        (false, false) => hosts.join(","),
    }
}

pub(super) const INGRESS_CLASS: &[Column] = &[
    text("Name", "The name of the object, unique among its kind.", |row| {
        let annotation = row.text(&["metadata", "annotations", "ingressclass.kubernetes.io/is-default-class"]);
        marked_if_default(row, annotation == "true")
    })
    .naming(),
    text("Controller", "Who serves this class.", |row| row.text(&["spec", "controller"]).into()),
    text("Parameters", "Where the controller's settings are.", |row| {
        let Some(parameters) = row.get(&["spec", "parameters"]) else {
            return "<none>".into();
        };
        let part = |key| text_of(parameters, &[key]);
        match part("apiGroup") {
            "" => format!("{}/{}", part("kind"), part("name")).into(),
            group => format!("{}.{group}/{}", part("kind"), part("name")).into(),
        }
    }),
    AGE,
];

pub(super) const NETWORK_POLICY: &[Column] = &[
    NAME,
    text("Pod-Selector", "Which pods the policy is for.", |row| selector_or_none(row.get(&["spec", "podSelector"]))),
    AGE,
];

pub(super) const SERVICE_CIDR: &[Column] = &[
    NAME,
    text("CIDRs", "The ranges that addresses are taken from.", |row| texts(row.list(&["spec", "cidrs"])).into()),
    AGE,
];

pub(super) const IP_ADDRESS: &[Column] = &[
    NAME,
    text("ParentRef", "What has the address.", |row| {
        let Some(parent) = row.get(&["spec", "parentRef"]) else {
            return "<none>".into();
        };
        let part = |key| text_of(parent, &[key]);
        let mut shown = part("resource").to_lowercase();
        if !part("group").is_empty() {
            shown = format!("{shown}.{}", part("group").to_lowercase());
        }
        for key in ["namespace", "name"] {
            if !part(key).is_empty() {
                shown = format!("{shown}/{}", part(key));
            }
        }
        shown.into()
    }),
];

pub(super) const ENDPOINTS: &[Column] = &[
    NAME,
    text("Endpoints", "The first addresses behind the service.", |row| {
        let mut addresses = Vec::new();
        for subset in row.list(&["subsets"]) {
            let ports = list_of(subset, &["ports"]);
            let ips = || list_of(subset, &["addresses"]).iter().map(|address| text_of(address, &["ip"]));
            if ports.is_empty() {
                addresses.extend(ips().map(str::to_owned));
            }
            for port in ports {
                let port = port.get("port").and_then(Value::as_i64).unwrap_or_default();
                addresses.extend(
                    ips().map(|ip| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }),
                );
            }
        }
        let none = if row.count(&["subsets"]) == 0 { "<none>" } else { "" };
        first_three(&addresses, none).into()
    }),
    AGE,
];

pub(super) const ENDPOINT_SLICE: &[Column] = &[
    NAME,
    text("AddressType", "What kind of addresses it has.", |row| row.text(&["addressType"]).into()),
    text("Ports", "The first ports.", |row| {
        let ports = row.list(&["ports"]).iter().map(|port| match get(port, &["port"]) {
            Some(number) => plain(number),
            None => get(port, &["name"]).map_or_else(|| "*".to_owned(), plain),
        });
        first_three(&ports.collect::<Vec<_>>(), "<unset>").into()
    }),
    text("Endpoints", "The first addresses.", |row| {
        let endpoints = row.list(&["endpoints"]).iter();
        let addresses = endpoints.flat_map(|endpoint| list_of(endpoint, &["addresses"])).map(plain);
        first_three(&addresses.collect::<Vec<_>>(), "<unset>").into()
    }),
    AGE,
];
