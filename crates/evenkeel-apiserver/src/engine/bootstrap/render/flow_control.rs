//! The priority levels and flow schemas of kube-apiserver (APF-003). This server shares requests out by user
//! (`listener/flow`) and does not read them.

use serde_json::{Map, Value, json};

use crate::store::TEMPLATE_TIME;

const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// The queues of a level: their number, how many of them a flow may use, and their length.
struct Queues(u32, u32, u32);

/// A level with limited concurrency; without queues it refuses what exceeds the limit.
struct Limited(&'static str, u32, u32, Option<Queues>);

const LIMITED: &[Limited] = &[
    Limited("catch-all", 5, 0, None),
    Limited("system", 30, 33, Some(Queues(64, 6, 50))),
    Limited("node-high", 40, 25, Some(Queues(64, 6, 50))),
    Limited("leader-election", 10, 0, Some(Queues(16, 4, 50))),
    Limited("workload-high", 40, 50, Some(Queues(128, 6, 50))),
    Limited("workload-low", 100, 90, Some(Queues(128, 6, 50))),
    Limited("global-default", 20, 50, Some(Queues(128, 6, 50))),
];

pub(super) fn priority_levels() -> impl Iterator<Item = Value> {
    let level = |name: &str, spec: Value| {
        json!({"apiVersion": API_VERSION, "kind": "PriorityLevelConfiguration",
               "metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}}, "spec": spec})
    };
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let limited = LIMITED.iter().map(move |Limited(name, shares, lendable, queues)| {
        let response = match queues {
            None => json!({"type": "Reject"}),
            Some(Queues(queues, hand, length)) => json!({
                "type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": length}}),
        };
        let limited =
            json!({"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response});
        level(name, json!({"type": "Limited", "limited": limited}))
    });
    std::iter::once(level("exempt", exempt)).chain(limited)
}

/// Whom a flow schema applies to.
#[derive(Clone, Copy)]
enum Subjects {
    Groups(&'static [&'static str]),
    Users(&'static [&'static str]),
    /// Users, and all ServiceAccounts of kube-system.
    System(&'static [&'static str]),
}

/// What a flow schema applies to.
#[derive(Clone, Copy)]
enum Requests {
    Everything,
    Probes,
    /// Verbs, and for each group its resources and whether they include cluster-scoped ones.
    Resources(&'static [&'static str], &'static [(&'static str, &'static [&'static str], bool)]),
}

/// Name, priority level, precedence, distinguisher of flows (empty for none), subjects, requests.
struct Schema(&'static str, &'static str, u32, &'static str, Subjects, Requests);

const EVERYONE: Subjects = Subjects::Groups(&["system:unauthenticated", "system:authenticated"]);
const LEASES: (&str, &[&str], bool) = ("coordination.k8s.io", &["leases"], false);
const CONTROLLERS: &[&str] = &["system:kube-controller-manager", "system:kube-scheduler"];
const NODES: Subjects = Subjects::Groups(&["system:nodes"]);

const SCHEMAS: &[Schema] = &[
    Schema("exempt", "exempt", 1, "", Subjects::Groups(&["system:masters"]), Requests::Everything),
    Schema("probes", "exempt", 2, "", EVERYONE, Requests::Probes),
    Schema(
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        Subjects::System(CONTROLLERS),
        Requests::Resources(&["get", "create", "update"], &[LEASES]),
    ),
    Schema(
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        NODES,
        Requests::Resources(&["*"], &[("", &["nodes", "nodes/status"], true), LEASES]),
    ),
    Schema("system-nodes", "system", 500, "ByUser", NODES, Requests::Everything),
    Schema(
        "kube-controller-manager",
        "workload-high",
        800,
        "ByNamespace",
        Subjects::Users(&["system:kube-controller-manager"]),
        Requests::Everything,
    ),
    Schema(
        "kube-scheduler",
        "workload-high",
        800,
        "ByNamespace",
        Subjects::Users(&["system:kube-scheduler"]),
        Requests::Everything,
    ),
    Schema(
        "kube-system-service-accounts",
        "workload-high",
        900,
        "ByNamespace",
        Subjects::System(&[]),
        Requests::Everything,
    ),
    Schema(
        "service-accounts",
        "workload-low",
        9000,
        "ByUser",
        Subjects::Groups(&["system:serviceaccounts"]),
        Requests::Everything,
    ),
    Schema("global-default", "global-default", 9900, "ByUser", EVERYONE, Requests::Everything),
    Schema("catch-all", "catch-all", 10_000, "ByUser", EVERYONE, Requests::Everything),
];

pub(super) fn flow_schemas() -> impl Iterator<Item = Value> {
    SCHEMAS.iter().map(|Schema(name, level, precedence, distinguisher, subjects, requests)| {
        let mut spec = json!({"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence,
                              "rules": [rules(*subjects, *requests)]});
        if !distinguisher.is_empty() {
            spec["distinguisherMethod"] = json!({"type": distinguisher});
        }
        let found =
            format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} and it exists");
        json!({"apiVersion": API_VERSION, "kind": "FlowSchema",
               "metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}}, "spec": spec,
               "status": {"conditions": [{"type": "Dangling", "status": "False", "reason": "Found", "message": found,
                                          "lastTransitionTime": TEMPLATE_TIME}]}})
    })
}

fn rules(subjects: Subjects, requests: Requests) -> Value {
    let resources = |verbs: &[&str], group: &str, resources: &[&str], cluster_scope: bool| {
        let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
        if cluster_scope {
            rule["clusterScope"] = true.into();
        }
        rule
    };
    let paths = |verb: &str, paths: &[&str]| json!([{"verbs": [verb], "nonResourceURLs": paths}]);
    let mut rules = Map::new();
    rules.insert("subjects".into(), subjects.into_json());
    match requests {
        Requests::Everything => {
            rules.insert("resourceRules".into(), json!([resources(&["*"], "*", &["*"], true)]));
            rules.insert("nonResourceRules".into(), paths("*", &["*"]));
        }
        Requests::Probes => {
            rules.insert("nonResourceRules".into(), paths("get", &["/healthz", "/readyz", "/livez"]));
        }
        Requests::Resources(verbs, groups) => {
            let list = groups.iter().map(|(group, plurals, scope)| resources(verbs, group, plurals, *scope));
            rules.insert("resourceRules".into(), list.collect());
        }
    }
    Value::Object(rules)
}

impl Subjects {
    fn into_json(self) -> Value {
        let user = |name: &&str| json!({"kind": "User", "user": {"name": name}});
        match self {
            Subjects::Groups(names) => {
                names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
            }
            Subjects::Users(names) => names.iter().map(user).collect(),
            Subjects::System(names) => {
                let accounts =
                    json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}});
                names.iter().map(user).chain([accounts]).collect()
            }
        }
    }
}
