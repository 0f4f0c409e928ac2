use std::collections::HashSet;

use k8s_openapi::api::core::v1::Pod;

use super::*;

fn pod(write: impl FnOnce(&mut String)) -> (usize, Pod) {
    let mut text = String::from("{");
    write(&mut text);
    text.push('}');
    (text.len(), serde_json::from_str(&text).unwrap())
}

#[test]
fn pods_have_a_realistic_size() {
    let pods = Pods::new(2_000);
    let (mut keys, mut bytes) = (HashSet::new(), 0);
    for number in 0..pods.len() {
        let (length, pod) = pod(|out| pods.write(out, number));
        keys.insert((pod.metadata.namespace, pod.metadata.name, pod.metadata.uid));
        bytes += length;
    }
    assert_eq!(keys.len(), pods.len());
    let mean = bytes / pods.len();
    assert!((5_700..6_000).contains(&mean), "{mean} bytes");
}

#[test]
fn updates_hit_every_pod_in_turn_with_rising_versions() {
    let pods = Pods::new(50);
    let mut keys = HashSet::new();
    for update in 0..100 {
        let (_, pod) = pod(|out| assert!(pods.write_update(out, update)));
        assert_eq!(pod.metadata.resource_version, Some((pods.list_version() + 1 + update).to_string()));
        keys.insert(pod.metadata.uid);
        assert_eq!(keys.len(), pods.len().min(update + 1));
    }
}

#[test]
fn an_update_changes_the_status_and_not_the_pod() {
    let pods = Pods::new(1);
    let (_, before) = pod(|out| pods.write(out, 0));
    let (_, after) = pod(|out| assert!(pods.write_update(out, 0)));
    assert_eq!(before.metadata.uid, after.metadata.uid);
    assert_eq!(before.spec, after.spec);
    assert_ne!(before.status, after.status);
}
