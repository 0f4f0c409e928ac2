//! Twenty built-in kinds.

use fastrand::Rng;

use super::endpoint_slices::EndpointSlices;
use super::pods::Pods;
use super::secrets::Secrets;
use super::{
    ENDPOINT_SLICES, EPOCH, FIRST_VERSION, Kind, NOUNS, Objects, PODS, ROLES, SECRETS, STAGES, TEAMS, fill, hex,
    letters, one, time, uid,
};

/// Returns the kinds, with the objects divided among them.
pub(super) fn kinds(objects: usize) -> Vec<(Kind, Box<dyn Objects>)> {
    let count = PLAIN.len() + 3;
    let share = |number: usize| objects / count + usize::from(number < objects % count);
    let mut kinds: Vec<(Kind, Box<dyn Objects>)> = vec![
        (PODS, Box::new(Pods::new(share(0)))),
        (SECRETS, Box::new(Secrets(share(1)))),
        (ENDPOINT_SLICES, Box::new(EndpointSlices(share(2)))),
    ];
    for (number, (kind, namespaced, template)) in PLAIN.iter().enumerate() {
        kinds.push((
            *kind,
            Box::new(Plain { number, count: share(number + 3), namespaced: *namespaced, kind, template }),
        ));
    }
    kinds
}

/// Objects of one template.
struct Plain {
    number: usize,
    count: usize,
    namespaced: bool,
    kind: &'static Kind,
    template: &'static str,
}

impl Objects for Plain {
    fn len(&self) -> usize {
        self.count
    }

    fn write(&self, out: &mut String, number: usize) {
        let mut dice = Rng::with_seed(((self.number as u64 + 1) << 48) | number as u64);
        let app = format!("{}-{}", one(&mut dice, NOUNS), one(&mut dice, ROLES));
        let name = format!("{app}-{number}");
        let namespace = format!("{}-{}", one(&mut dice, TEAMS), one(&mut dice, STAGES));
        let (own_uid, owner_uid) = (uid(&mut dice), uid(&mut dice));
        let (digest, hash) = (hex(&mut dice, 64), letters(&mut dice, 10));
        let version = (FIRST_VERSION + number).to_string();
        let created = time(EPOCH + number as i64 * 67 + dice.i64(0..60));
        let ip = format!("10.{}.{}.{}", dice.u32(96..112), dice.u32(0..256), dice.u32(1..255));
        let release = format!("{}.{}.{}", dice.u32(0..5), dice.u32(0..40), dice.u32(0..12));
        let small = dice.u32(1..30).to_string();
        let slot = |slot: &str| match slot {
            "app" => app.as_str(),
            "name" => &name,
            "namespace" => &namespace,
            "uid" => &own_uid,
            "owner-uid" => &owner_uid,
            "digest" => &digest,
            "hash" => &hash,
            "version" => &version,
            "created" => &created,
            "ip" => &ip,
            "release" => &release,
            "n" => &small,
            "api-version" => self.kind.api_version,
            _ => unreachable!("the templates have no slot {slot}"),
        };
        fill(out, METADATA, slot);
        if self.namespaced {
            fill(out, r#","namespace":"<namespace>""#, slot);
        }
        out.push('}');
        for (number, part) in self.template.split("<pod-template>").enumerate() {
            if number > 0 {
                fill(out, POD_TEMPLATE, slot);
            }
            fill(out, part, slot);
        }
    }
}

const METADATA: &str = r#""metadata":{"name":"<name>","uid":"<uid>","resourceVersion":"<version>","generation":2,
    "creationTimestamp":"<created>",
    "labels":{"app.kubernetes.io/name":"<app>","app.kubernetes.io/managed-by":"Helm","app.kubernetes.io/version":"<release>"},
    "annotations":{"meta.helm.sh/release-name":"<app>","meta.helm.sh/release-namespace":"<namespace>"},
    "managedFields":[{"manager":"helm","operation":"Update","apiVersion":"<api-version>","time":"<created>",
        "fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{
            "f:annotations":{".":{},"f:meta.helm.sh/release-name":{},"f:meta.helm.sh/release-namespace":{}},
            "f:labels":{".":{},"f:app.kubernetes.io/managed-by":{},"f:app.kubernetes.io/name":{},
                "f:app.kubernetes.io/version":{}}}}}]"#;

const POD_TEMPLATE: &str = r#""template":{"metadata":{"labels":{"app":"<app>","pod-template-hash":"<hash>"},
        "annotations":{"checksum/config":"<digest>"}},
    "spec":{"containers":[{"name":"<app>","image":"registry.example.com/<app>:<release>",
        "ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],
        "env":[{"name":"LOG_LEVEL","value":"info"},
            {"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],
        "resources":{"limits":{"cpu":"1","memory":"512Mi"},"requests":{"cpu":"250m","memory":"256Mi"}},
        "readinessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,
            "successThreshold":1,"failureThreshold":3},
        "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],
        "restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",
        "serviceAccountName":"<app>","securityContext":{},"schedulerName":"default-scheduler"}}"#;

/// Kind, whether it is namespaced, and its fields besides metadata.
const PLAIN: &[(Kind, bool, &str)] = &[
    (
        Kind::new("/api/v1/configmaps", "v1", "ConfigMap"),
        true,
        r#","data":{"application.yaml":"server:\n  port: 8080\nrelease: <release>\nupstream: http://<ip>:8080\n","digest":"<digest>"}"#,
    ),
    (
        Kind::new("/api/v1/services", "v1", "Service"),
        true,
        r#","spec":{"ports":[{"name":"http","protocol":"TCP","port":80,"targetPort":8080},
            {"name":"metrics","protocol":"TCP","port":9090,"targetPort":"metrics"}],"selector":{"app":"<app>"},
            "clusterIP":"<ip>","clusterIPs":["<ip>"],"type":"ClusterIP","sessionAffinity":"None","ipFamilies":["IPv4"],
            "ipFamilyPolicy":"SingleStack","internalTrafficPolicy":"Cluster"},"status":{"loadBalancer":{}}"#,
    ),
    (
        Kind::new("/api/v1/serviceaccounts", "v1", "ServiceAccount"),
        true,
        r#","imagePullSecrets":[{"name":"registry-<hash>"}],"automountServiceAccountToken":true"#,
    ),
    (
        Kind::new("/api/v1/persistentvolumeclaims", "v1", "PersistentVolumeClaim"),
        true,
        r#","spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"<n>Gi"}},
            "volumeName":"pvc-<owner-uid>","storageClassName":"fast","volumeMode":"Filesystem"},
            "status":{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"<n>Gi"}}"#,
    ),
    (
        Kind::new("/api/v1/nodes", "v1", "Node"),
        false,
        r#","spec":{"podCIDR":"<ip>/24","podCIDRs":["<ip>/24"],"providerID":"cloud:///zone/i-<hash>"},
            "status":{"capacity":{"cpu":"16","memory":"65<n>4412Ki","pods":"110"},
            "allocatable":{"cpu":"15890m","memory":"63<n>0012Ki","pods":"110"},
            "conditions":[{"type":"MemoryPressure","status":"False","lastHeartbeatTime":"<created>",
                "lastTransitionTime":"<created>","reason":"KubeletHasSufficientMemory",
                "message":"kubelet has sufficient memory available"},
                {"type":"Ready","status":"True","lastHeartbeatTime":"<created>","lastTransitionTime":"<created>",
                "reason":"KubeletReady","message":"kubelet is posting ready status"}],
            "addresses":[{"type":"InternalIP","address":"<ip>"},{"type":"Hostname","address":"<name>"}],
            "daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},
            "nodeInfo":{"machineID":"<hash>","systemUUID":"<owner-uid>","bootID":"<uid>","kernelVersion":"6.12.<n>",
                "osImage":"Linux","containerRuntimeVersion":"containerd://2.1.<n>","kubeletVersion":"v1.37.2",
                "kubeProxyVersion":"v1.37.2","operatingSystem":"linux","architecture":"amd64"}}"#,
    ),
    (
        Kind::new("/api/v1/namespaces", "v1", "Namespace"),
        false,
        r#","spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}"#,
    ),
    (
        Kind::new("/apis/apps/v1/deployments", "apps/v1", "Deployment"),
        true,
        r#","spec":{"replicas":<n>,"selector":{"matchLabels":{"app":"<app>"}},<pod-template>,
            "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}},
            "revisionHistoryLimit":10,"progressDeadlineSeconds":600},
            "status":{"observedGeneration":2,"replicas":<n>,"updatedReplicas":<n>,"readyReplicas":<n>,
            "availableReplicas":<n>,"conditions":[{"type":"Available","status":"True","lastUpdateTime":"<created>",
                "lastTransitionTime":"<created>","reason":"MinimumReplicasAvailable",
                "message":"Deployment has minimum availability."}]}"#,
    ),
    (
        Kind::new("/apis/apps/v1/replicasets", "apps/v1", "ReplicaSet"),
        true,
        r#","spec":{"replicas":<n>,"selector":{"matchLabels":{"app":"<app>","pod-template-hash":"<hash>"}},<pod-template>},
            "status":{"replicas":<n>,"fullyLabeledReplicas":<n>,"readyReplicas":<n>,"availableReplicas":<n>,
            "observedGeneration":2}"#,
    ),
    (
        Kind::new("/apis/apps/v1/statefulsets", "apps/v1", "StatefulSet"),
        true,
        r#","spec":{"replicas":<n>,"selector":{"matchLabels":{"app":"<app>"}},<pod-template>,"serviceName":"<app>",
            "podManagementPolicy":"OrderedReady","updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}},
            "revisionHistoryLimit":10},
            "status":{"observedGeneration":2,"replicas":<n>,"readyReplicas":<n>,"currentReplicas":<n>,
            "currentRevision":"<app>-<hash>","updateRevision":"<app>-<hash>","availableReplicas":<n>}"#,
    ),
    (
        Kind::new("/apis/apps/v1/daemonsets", "apps/v1", "DaemonSet"),
        true,
        r#","spec":{"selector":{"matchLabels":{"app":"<app>"}},<pod-template>,
            "updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"maxSurge":0}},
            "revisionHistoryLimit":10},
            "status":{"currentNumberScheduled":<n>,"numberMisscheduled":0,"desiredNumberScheduled":<n>,"numberReady":<n>,
            "observedGeneration":2,"updatedNumberScheduled":<n>,"numberAvailable":<n>}"#,
    ),
    (
        Kind::new("/apis/batch/v1/jobs", "batch/v1", "Job"),
        true,
        r#","spec":{"parallelism":1,"completions":1,"backoffLimit":6,
            "selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"<uid>"}},<pod-template>,
            "completionMode":"NonIndexed","suspend":false},
            "status":{"conditions":[{"type":"Complete","status":"True","lastProbeTime":"<created>",
                "lastTransitionTime":"<created>"}],"startTime":"<created>","completionTime":"<created>","succeeded":1,
            "ready":0}"#,
    ),
    (
        Kind::new("/apis/batch/v1/cronjobs", "batch/v1", "CronJob"),
        true,
        r#","spec":{"schedule":"<n> * * * *","concurrencyPolicy":"Forbid","suspend":false,
            "jobTemplate":{"spec":{<pod-template>}},"successfulJobsHistoryLimit":3,"failedJobsHistoryLimit":1},
            "status":{"lastScheduleTime":"<created>","lastSuccessfulTime":"<created>"}"#,
    ),
    (
        Kind::new("/apis/networking.k8s.io/v1/ingresses", "networking.k8s.io/v1", "Ingress"),
        true,
        r#","spec":{"ingressClassName":"public","tls":[{"hosts":["<name>.example.com"],"secretName":"<name>-tls"}],
            "rules":[{"host":"<name>.example.com","http":{"paths":[{"path":"/","pathType":"Prefix",
                "backend":{"service":{"name":"<app>","port":{"number":80}}}}]}}]},
            "status":{"loadBalancer":{"ingress":[{"ip":"<ip>"}]}}"#,
    ),
    (
        Kind::new("/apis/networking.k8s.io/v1/networkpolicies", "networking.k8s.io/v1", "NetworkPolicy"),
        true,
        r#","spec":{"podSelector":{"matchLabels":{"app":"<app>"}},"policyTypes":["Ingress"],
            "ingress":[{"ports":[{"protocol":"TCP","port":8080}],
                "from":[{"podSelector":{"matchLabels":{"app":"gateway"}}},{"ipBlock":{"cidr":"<ip>/32"}}]}]}"#,
    ),
    (
        Kind::new("/apis/rbac.authorization.k8s.io/v1/roles", "rbac.authorization.k8s.io/v1", "Role"),
        true,
        r#","rules":[{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["configmaps","secrets"],
                "resourceNames":["<app>"]},
            {"verbs":["create","update","patch"],"apiGroups":["coordination.k8s.io"],"resources":["leases"]}]"#,
    ),
    (
        Kind::new("/apis/rbac.authorization.k8s.io/v1/rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding"),
        true,
        r#","subjects":[{"kind":"ServiceAccount","name":"<app>","namespace":"<namespace>"}],
            "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"<name>"}"#,
    ),
    (
        Kind::new("/apis/policy/v1/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget"),
        true,
        r#","spec":{"maxUnavailable":1,"selector":{"matchLabels":{"app":"<app>"}}},
            "status":{"observedGeneration":2,"disruptionsAllowed":1,"currentHealthy":<n>,"desiredHealthy":<n>,
            "expectedPods":<n>}"#,
    ),
];
