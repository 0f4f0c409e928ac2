//! EndpointSlices of services of all sizes, from one endpoint to a full hundred.

use fastrand::Rng;

use super::{EPOCH, FIRST_VERSION, NOUNS, Objects, REGIONS, ROLES, STAGES, TEAMS, fill, letters, one, time, uid};

/// Endpoints per slice.
const SIZES: &[usize] = &[1, 2, 3, 3, 5, 8, 12, 40, 100];

pub(super) struct EndpointSlices(pub(super) usize);

impl Objects for EndpointSlices {
    fn len(&self) -> usize {
        self.0
    }

    fn write(&self, out: &mut String, number: usize) {
        let mut dice = Rng::with_seed(0xE5_11CE_0000_0000 | number as u64);
        let app = format!("{}-{}", one(&mut dice, NOUNS), one(&mut dice, ROLES));
        let namespace = format!("{}-{}", one(&mut dice, TEAMS), one(&mut dice, STAGES));
        let name = format!("{app}-{}{number}", letters(&mut dice, 5));
        let (own_uid, service, hash) = (uid(&mut dice), uid(&mut dice), letters(&mut dice, 10));
        let version = (FIRST_VERSION + number).to_string();
        let created = time(EPOCH + number as i64 * 23 + dice.i64(0..20));
        let region = one(&mut dice, REGIONS);
        let mut endpoints = String::new();
        for position in 0..one(&mut dice, SIZES) {
            endpoints.push_str(if position == 0 { "" } else { "," });
            let node = dice.u32(0..900);
            let ip = format!("10.{}.{}.{}", 64 + node / 250, 1 + node % 250, dice.u32(2..254));
            let node = format!("ip-10-{}-{}-{}.{region}.internal", node / 250, 1 + node % 250, 16 + node % 7);
            let zone = format!("{region}{}", one(&mut dice, &["a", "b", "c"]));
            let (pod, pod_uid) = (format!("{app}-{hash}-{}", letters(&mut dice, 5)), uid(&mut dice));
            let ready = if dice.u32(0..50) == 0 { "false" } else { "true" };
            fill(&mut endpoints, ENDPOINT, |slot| match slot {
                "ip" => &ip,
                "ready" => ready,
                "node" => &node,
                "zone" => &zone,
                "namespace" => &namespace,
                "pod" => &pod,
                _ => &pod_uid,
            });
        }
        fill(out, TEMPLATE, |slot| match slot {
            "name" => &name,
            "app" => &app,
            "namespace" => &namespace,
            "uid" => &own_uid,
            "service" => &service,
            "version" => &version,
            "created" => &created,
            _ => &endpoints,
        });
    }
}

const ENDPOINT: &str = r#"{"addresses":["<ip>"],"conditions":{"ready":<ready>,"serving":<ready>,"terminating":false},
    "targetRef":{"kind":"Pod","namespace":"<namespace>","name":"<pod>","uid":"<pod-uid>"},"nodeName":"<node>",
    "zone":"<zone>"}"#;

const TEMPLATE: &str = r#""metadata":{"name":"<name>","generateName":"<app>-","namespace":"<namespace>","uid":"<uid>",
    "resourceVersion":"<version>","generation":3,"creationTimestamp":"<created>",
    "labels":{"app":"<app>","endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io",
        "kubernetes.io/service-name":"<app>"},
    "annotations":{"endpoints.kubernetes.io/last-change-trigger-time":"<created>"},
    "ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"<app>","uid":"<service>","controller":true,
        "blockOwnerDeletion":true}],
    "managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"discovery.k8s.io/v1",
        "time":"<created>","fieldsType":"FieldsV1","fieldsV1":{"f:addressType":{},"f:endpoints":{},"f:metadata":{
            "f:annotations":{".":{},"f:endpoints.kubernetes.io/last-change-trigger-time":{}},"f:generateName":{},
            "f:labels":{".":{},"f:app":{},"f:endpointslice.kubernetes.io/managed-by":{},"f:kubernetes.io/service-name":{}},
            "f:ownerReferences":{".":{},"k:{\"uid\":\"<service>\"}":{}}},"f:ports":{}}}]},
    "addressType":"IPv4","endpoints":[<endpoints>],
    "ports":[{"name":"http","port":8080,"protocol":"TCP"},{"name":"metrics","port":9090,"protocol":"TCP"}]"#;
