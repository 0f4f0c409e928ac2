//! Pods of realistic shape, size and variety.
//!
//! Pods of one workload share their template, as in a cluster; workloads differ in names, images, ports, environment,
//! resources and sidecars; names, UIDs, addresses, container ids and times are unique to each pod. The same number
//! always gives the same pod.

use fastrand::Rng;

use super::{EPOCH, FIRST_VERSION, NOUNS, Objects, REGIONS, ROLES, STAGES, TEAMS, fill, hex, letters, one, time, uid};

const REGISTRIES: &[&str] = &["registry.example.com", "ghcr.example.org", "mirror.example.net:5000"];
const CPUS: &[&str] = &["100m", "250m", "500m", "1", "2"];
const MEMORIES: &[&str] = &["128Mi", "256Mi", "512Mi", "1Gi", "2Gi"];
const PORTS: &[&str] = &["3000", "5000", "8000", "8080", "8443", "9000"];
const PROBES: &[&str] = &["/healthz", "/livez", "/ready", "/api/v1/health"];
const SIDECARS: &[(&str, &str)] =
    &[("proxy", "mesh/proxy:2.14"), ("envoy", "mesh/envoy:1.33.2"), ("log-shipper", "observability/shipper:3.8.1")];

/// The common parts of a workload's pods.
struct Workload {
    app: String,
    namespace: String,
    team: &'static str,
    release: String,
    hash: String,
    owner_uid: String,
    checksum: String,
    image: String,
    image_id: String,
    port: &'static str,
    probe: &'static str,
    region: &'static str,
    cpu: &'static str,
    memory: &'static str,
    environment: Vec<&'static str>,
    sidecar: (&'static str, &'static str),
    created: i64,
    pods: usize,
}

impl Workload {
    fn new(number: usize) -> Self {
        let mut dice = Rng::with_seed(0x0005_EED0_0000_0000 | number as u64);
        let team = one(&mut dice, TEAMS);
        let app = format!("{}-{}", one(&mut dice, NOUNS), one(&mut dice, ROLES));
        let release = format!("{}.{}.{}", dice.u32(0..5), dice.u32(0..40), dice.u32(0..12));
        let mut environment = ENVIRONMENT.to_vec();
        dice.shuffle(&mut environment);
        environment.truncate(dice.usize(1..=4));
        Workload {
            namespace: format!("{team}-{}", one(&mut dice, STAGES)),
            hash: letters(&mut dice, 10),
            owner_uid: uid(&mut dice),
            checksum: hex(&mut dice, 64),
            image: format!("{}/{team}/{app}:{release}", one(&mut dice, REGISTRIES)),
            image_id: hex(&mut dice, 64),
            port: one(&mut dice, PORTS),
            probe: one(&mut dice, PROBES),
            region: one(&mut dice, REGIONS),
            cpu: one(&mut dice, CPUS),
            memory: one(&mut dice, MEMORIES),
            sidecar: *dice.choice(SIDECARS).unwrap_or(&SIDECARS[0]),
            created: EPOCH + number as i64 * 97 + dice.i64(0..90),
            pods: one(&mut dice, &[1, 2, 3, 3, 5, 8, 12, 24, 40]),
            app,
            team,
            release,
            environment,
        }
    }
}

/// The pods of a cluster.
pub(super) struct Pods {
    workloads: Vec<Workload>,
    /// The workload of each pod.
    of: Vec<usize>,
}

impl Pods {
    pub(super) fn new(count: usize) -> Self {
        let (mut workloads, mut of) = (Vec::new(), Vec::with_capacity(count));
        while of.len() < count {
            let workload = Workload::new(workloads.len());
            let pods = workload.pods.min(count - of.len());
            of.extend(std::iter::repeat_n(workloads.len(), pods));
            workloads.push(workload);
        }
        Pods { workloads, of }
    }

    /// Writes a pod whose first container has restarted `restarts` times.
    fn write_state(&self, out: &mut String, number: usize, restarts: usize, version: usize) {
        let workload = &self.workloads[self.of[number]];
        let mut dice = Rng::with_seed(number as u64);
        let name = format!("{}-{}-{}", workload.app, workload.hash, letters(&mut dice, 5));
        let node = dice.usize(0..1 + self.len() / 60);
        let (node_high, node_low) = (node / 250, 1 + node % 250);
        let ip = format!("10.{}.{}.{}", 64 + node_high % 128, node_low, dice.u32(2..254));
        let created = workload.created + dice.i64(0..40);
        let started = created + dice.i64(2..9);
        let (pod_uid, access) = (uid(&mut dice), letters(&mut dice, 5));
        let before = dice.usize(0..4).saturating_sub(1);
        let (mut main_id, sidecar_id) = (hex(&mut dice, 64), hex(&mut dice, 64));
        let mut changed = started + 1;
        if restarts > 0 {
            main_id = hex(&mut Rng::with_seed(((restarts as u64) << 40) | number as u64), 64);
            changed += 3_600 * restarts as i64 + dice.i64(0..3_000);
        }
        let values = Values {
            workload,
            name,
            uid: pod_uid,
            version: version.to_string(),
            access,
            node: format!("ip-10-{node_high}-{node_low}-{}.{}.internal", 16 + node % 7, workload.region),
            host_ip: format!("10.{node_high}.{node_low}.{}", 16 + node % 7),
            ip,
            created: time(created),
            started: time(started),
            changed: time(changed),
            main_id,
            sidecar_id,
            restarts: (before + restarts).to_string(),
        };
        for part in [METADATA, SPEC_UNTIL_ENVIRONMENT] {
            values.fill(out, part);
        }
        for (position, variable) in workload.environment.iter().enumerate() {
            out.push_str(if position == 0 { "" } else { "," });
            values.fill(out, variable);
        }
        for part in [SPEC_AFTER_ENVIRONMENT, STATUS] {
            values.fill(out, part);
        }
    }
}

impl Objects for Pods {
    fn len(&self) -> usize {
        self.of.len()
    }

    fn write(&self, out: &mut String, number: usize) {
        self.write_state(out, number, 0, FIRST_VERSION + number);
    }

    fn write_update(&self, out: &mut String, update: usize) -> bool {
        // A prime stride: updates are spread over the cluster and change every pod in turn.
        const STRIDE: usize = 7_919;
        let count = self.len();
        let stride = if count.is_multiple_of(STRIDE) { 1 } else { STRIDE };
        let number = (update % count) * stride % count;
        self.write_state(out, number, 1 + update / count, self.list_version() + 1 + update);
        true
    }
}

/// Values of the template slots.
struct Values<'a> {
    workload: &'a Workload,
    name: String,
    uid: String,
    version: String,
    access: String,
    node: String,
    host_ip: String,
    ip: String,
    created: String,
    started: String,
    changed: String,
    main_id: String,
    sidecar_id: String,
    restarts: String,
}

impl Values<'_> {
    fn fill(&self, out: &mut String, template: &str) {
        fill(out, template, |name| self.slot(name));
    }

    fn slot(&self, name: &str) -> &str {
        let workload = self.workload;
        match name {
            "name" => &self.name,
            "uid" => &self.uid,
            "version" => &self.version,
            "access" => &self.access,
            "node" => &self.node,
            "host-ip" => &self.host_ip,
            "ip" => &self.ip,
            "created" => &self.created,
            "started" => &self.started,
            "changed" => &self.changed,
            "main-id" => &self.main_id,
            "sidecar-id" => &self.sidecar_id,
            "restarts" => &self.restarts,
            "app" => &workload.app,
            "namespace" => &workload.namespace,
            "team" => workload.team,
            "release" => &workload.release,
            "hash" => &workload.hash,
            "owner-uid" => &workload.owner_uid,
            "checksum" => &workload.checksum,
            "image" => &workload.image,
            "image-id" => &workload.image_id,
            "port" => workload.port,
            "probe" => workload.probe,
            "region" => workload.region,
            "cpu" => workload.cpu,
            "memory" => workload.memory,
            "sidecar" => workload.sidecar.0,
            "sidecar-image" => workload.sidecar.1,
            _ => unreachable!("the templates have no slot {name}"),
        }
    }
}

const METADATA: &str = r#""metadata":{"name":"<name>","generateName":"<app>-<hash>-","namespace":"<namespace>","uid":"<uid>",
    "resourceVersion":"<version>","generation":1,"creationTimestamp":"<created>",
    "labels":{"app":"<app>","app.kubernetes.io/version":"<release>","pod-template-hash":"<hash>",
        "team":"<team>"},
    "annotations":{"checksum/config":"<checksum>","prometheus.io/port":"9090","prometheus.io/scrape":"true"},
    "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"<app>-<hash>","uid":"<owner-uid>",
        "controller":true,"blockOwnerDeletion":true}],
    "managedFields":[
        {"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"<created>",
            "fieldsType":"FieldsV1","fieldsV1":{
            "f:metadata":{
                "f:annotations":{".":{},"f:checksum/config":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},
                "f:generateName":{},
                "f:labels":{".":{},"f:app":{},"f:pod-template-hash":{},"f:team":{}},
                "f:ownerReferences":{".":{},"k:{\"uid\":\"<owner-uid>\"}":{}}},
            "f:spec":{
                "f:containers":{"k:{\"name\":\"<app>\"}":{".":{},
                    "f:env":{".":{},"k:{\"name\":\"POD_NAME\"}":{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},
                    "f:image":{},"f:imagePullPolicy":{},
                    "f:livenessProbe":{".":{},"f:failureThreshold":{},
                        "f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}}},
                    "f:name":{},
                    "f:ports":{".":{},"k:{\"containerPort\":<port>,\"protocol\":\"TCP\"}":
                        {".":{},"f:containerPort":{},"f:protocol":{}}},
                    "f:resources":{".":{},"f:limits":{},"f:requests":{}}}},
                "f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},
                "f:terminationGracePeriodSeconds":{}}}},
        {"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"<changed>",
            "fieldsType":"FieldsV1","fieldsV1":{
            "f:status":{
                "f:conditions":{
                    "k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},
                        "f:type":{}},
                    "k:{\"type\":\"Initialized\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},
                        "f:type":{}},
                    "k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},
                        "f:type":{}}},
                "f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},
                "f:podIPs":{".":{},"k:{\"ip\":\"<ip>\"}":{".":{},"f:ip":{}}},
                "f:startTime":{}}},"subresource":"status"}]},"#;

const SPEC_UNTIL_ENVIRONMENT: &str = r#""spec":{
    "volumes":[
        {"name":"kube-api-access-<access>","projected":{"sources":[
            {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
            {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}]}},
        {"name":"config","configMap":{"name":"<app>-config"}}],
    "containers":[
        {"name":"<app>","image":"<image>",
            "ports":[{"name":"http","containerPort":<port>,"protocol":"TCP"},
                {"name":"metrics","containerPort":9090,"protocol":"TCP"}],
            "env":["#;

/// Environment variables of the workloads.
const ENVIRONMENT: &[&str] = &[
    r#"{"name":"POD_NAME","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}"#,
    r#"{"name":"LOG_LEVEL","value":"info"}"#,
    r#"{"name":"REGION","value":"<region>"}"#,
    r#"{"name":"DB_URL","valueFrom":{"secretKeyRef":{"name":"<app>-db","key":"url"}}}"#,
    r#"{"name":"BUILD","value":"<release>"}"#,
    r#"{"name":"FEATURES","value":"beta-<team>,tracing"}"#,
];

const SPEC_AFTER_ENVIRONMENT: &str = r#"],
            "resources":{"limits":{"cpu":"<cpu>","memory":"<memory>"},"requests":{"cpu":"<cpu>","memory":"<memory>"}},
            "volumeMounts":[
                {"name":"kube-api-access-<access>","readOnly":true,
                    "mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"},
                {"name":"config","mountPath":"/etc/config"}],
            "livenessProbe":{"httpGet":{"path":"<probe>","port":<port>,"scheme":"HTTP"},"timeoutSeconds":1,
                "periodSeconds":10,"successThreshold":1,"failureThreshold":3},
            "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
            "imagePullPolicy":"IfNotPresent"},
        {"name":"<sidecar>","image":"registry.example.com/<sidecar-image>",
            "args":["--inbound","<port>","--outbound","4140"],"resources":{},
            "volumeMounts":[
                {"name":"kube-api-access-<access>","readOnly":true,
                    "mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],
            "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
            "imagePullPolicy":"IfNotPresent"}],
    "restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",
    "serviceAccountName":"<app>","nodeName":"<node>","securityContext":{},"schedulerName":"default-scheduler",
    "tolerations":[
        {"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},
        {"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
    "enableServiceLinks":true},"#;

const STATUS: &str = r#""status":{"phase":"Running",
    "conditions":[
        {"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"<started>"},
        {"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"<changed>"},
        {"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"<changed>"},
        {"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"<created>"}],
    "hostIP":"<host-ip>","podIP":"<ip>","podIPs":[{"ip":"<ip>"}],"startTime":"<created>",
    "containerStatuses":[
        {"name":"<app>","state":{"running":{"startedAt":"<changed>"}},"lastState":{},"ready":true,
            "restartCount":<restarts>,"image":"<image>","imageID":"sha256:<image-id>",
            "containerID":"containerd://<main-id>","started":true},
        {"name":"<sidecar>","state":{"running":{"startedAt":"<started>"}},"lastState":{},"ready":true,
            "restartCount":0,"image":"registry.example.com/<sidecar-image>",
            "imageID":"sha256:59afe19c2a4ba0ae3aa5b6f0a2a4c7d0d7a5b7d6a4f2e9c8b1d3f5a7092b4d6e",
            "containerID":"containerd://<sidecar-id>","started":true}],
    "qosClass":"Burstable"}"#;

#[cfg(test)]
mod tests;
