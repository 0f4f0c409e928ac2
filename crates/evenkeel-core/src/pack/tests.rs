use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

use super::*;
use crate::{DecodeError, ResourceInfo};

fn pods() -> Arc<ResourceInfo> {
    Arc::new(ResourceInfo::of::<Pod>())
}

/// A pod of a workload. The same numbers are the same pod.
fn json(workload: u32, number: u32) -> String {
    let uid = format!("{:08x}-{:04x}-4000-8000-{workload:012x}", number.wrapping_mul(2_654_435_761), number & 0xFFFF);
    let image =
        format!("registry.example.com/team-{}/service-{workload}:{}.{}", workload % 7, workload % 5, workload % 11);
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"service-{workload}-{number}","namespace":"team-{}","uid":"{uid}",
        "resourceVersion":"{}","creationTimestamp":"2026-01-02T03:04:05Z","labels":{{"app":"service-{workload}","tier":"web"}},
        "ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"service-{workload}","uid":"owner-{workload}","controller":true}}]}},
        "spec":{{"nodeName":"node-{}","restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","containers":[
        {{"name":"main","image":"{image}","imagePullPolicy":"IfNotPresent","ports":[{{"containerPort":8080,"protocol":"TCP"}}],
        "env":[{{"name":"POD_NAME","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}}]}}]}},
        "status":{{"phase":"Running","podIP":"10.{}.{}.{}","containerStatuses":[{{"name":"main","image":"{image}","ready":true,"restartCount":{}}}]}}}}"#,
        workload % 7,
        1000 + number,
        number % 50,
        workload % 200,
        number % 100,
        number % 250,
        number % 3,
    )
}

fn pod(info: &Arc<ResourceInfo>, workload: u32, number: u32) -> Obj<Pod> {
    Obj::from_json(info, json(workload, number)).unwrap()
}

#[test]
fn a_packed_object_is_the_same_object() {
    let info = pods();
    let mut packer = Packer::default();
    for workload in 0..40 {
        for number in 0..6 {
            let plain = pod(&info, workload, number);
            let packed = packer.pack(plain.clone());
            assert_eq!(packed.key(), plain.key());
            assert_eq!((packed.uid(), packed.resource_version()), (plain.uid(), plain.resource_version()));
            assert_eq!(packed.labels().collect::<Vec<_>>(), plain.labels().collect::<Vec<_>>());
            assert_eq!(packed.raw().unwrap(), plain.raw().unwrap());
            assert_eq!(packed.json().unwrap(), plain.json().unwrap());
            assert_eq!(packed.path("spec.nodeName").unwrap(), plain.path("spec.nodeName").unwrap());
            assert_eq!(packed.typed().unwrap(), plain.typed().unwrap());
            assert_eq!(packer.pack(packed.clone()).raw().unwrap(), plain.raw().unwrap(), "packed twice");
        }
    }
}

#[test]
fn siblings_cost_a_tenth_and_share_their_labels() {
    let info = pods();
    let mut packer = Packer::default();
    let packed: Vec<Obj<Pod>> = (0..400).map(|number| packer.pack(pod(&info, number / 20, number))).collect();
    let sizes: Vec<usize> = packed[200..].iter().map(Obj::payload_bytes).collect();
    let (mean, plain) = (sizes.iter().sum::<usize>() / sizes.len(), json(3, 3).len());
    assert!(mean < plain / 10, "{mean} of {plain}");
    assert!(Arc::ptr_eq(packed[201].header().shared(), packed[202].header().shared()));
    assert!(!Arc::ptr_eq(packed[201].header().shared(), packed[399].header().shared()));
    let stats = packer.stats();
    assert_eq!((stats.objects, stats.packed), (400, 400 - FIRST as u64));
    assert!(stats.dictionary_bytes < 20 * plain, "{stats:?}");
}

#[test]
fn objects_keep_their_dictionary_and_the_packer_keeps_no_object() {
    let info = pods();
    let mut packer = Packer::default();
    let mut packed: Vec<Obj<Pod>> = (0..50).map(|number| packer.pack(pod(&info, 1, number))).collect();
    let last = packed.pop().unwrap();
    drop(packed);
    assert_eq!(last.raw().unwrap(), json(1, 49), "its leader and all others were dropped");
    let next = packer.pack(pod(&info, 1, 50));
    drop(packer);
    drop(last);
    assert_eq!(next.raw().unwrap(), json(1, 50));
}

#[test]
fn dropped_leaders_are_removed_from_the_interner() {
    let info = pods();
    let mut packer = Packer::default();
    for workload in 0..5_000 {
        drop(packer.pack(pod(&info, workload, 0)));
    }
    assert!(packer.leaders.len() <= 1024 && packer.shared_headers.len() <= 1024);
}

#[test]
fn a_dissimilar_leader_is_replaced() {
    let info = pods();
    let mut packer = Packer::default();
    let warm: Vec<Obj<Pod>> = (0..20).map(|number| packer.pack(pod(&info, 7, number))).collect();
    let odd = |number: u32| {
        let text: String =
            (0..200).map(|word: u32| format!("{:x} ", word.wrapping_mul(0x9E37_79B9) ^ 0x5A5A)).collect();
        let mut value: serde_json::Value = serde_json::from_str(&json(7, number)).unwrap();
        value["metadata"]["annotations"] = serde_json::json!({"text": text});
        Obj::<Pod>::from_json(&info, value.to_string()).unwrap()
    };
    let first = packer.pack(odd(100));
    let second = packer.pack(odd(101));
    assert!(second.payload_bytes() < first.payload_bytes(), "it follows the one before it");
    assert!(second.payload_bytes() * 10 < second.raw().unwrap().len(), "{}", second.payload_bytes());
    assert_eq!(second.raw().unwrap(), odd(101).raw().unwrap());
    drop(warm);
}

#[test]
fn an_incompressible_object_stays_plain() {
    let info = pods();
    let mut packer = Packer::default();
    let mut dice = 7_u64;
    for number in 0..80 {
        let noise: String = (0..3_000)
            .map(|_| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b"ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ"[(dice >> 33) as usize % 40])
            })
            .collect();
        let json = format!(r#"{{"metadata":{{"name":"n{number}"}},"data":"{noise}"}}"#);
        let packed = packer.pack(Obj::<Pod>::from_json(&info, json.clone()).unwrap());
        assert!(packed.payload_bytes() <= json.len());
        assert_eq!(packed.raw().unwrap(), json);
    }
    assert!(packer.stats().dictionary_bytes <= DICTIONARY);
}

#[test]
fn dictionaries_are_bounded_by_the_objects_that_use_them() {
    let info = pods();
    let mut packer = Packer::default();
    let mut dice = 3_u64;
    let mut held = Vec::new();
    let mut dictionaries = std::collections::BTreeMap::new();
    for number in 0..60 {
        let words: Vec<String> = (0..300)
            .map(|_| {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("w{}", (dice >> 33) % 3_000)
            })
            .collect();
        let json = format!(r#"{{"metadata":{{"name":"n{number}"}},"data":"{}"}}"#, words.join(" "));
        held.push(packer.pack(Obj::<Pod>::from_json(&info, json).unwrap()));
        if let Some(learned) = &packer.dictionary {
            dictionaries.insert(Arc::as_ptr(&learned.dictionary), Arc::clone(&learned.dictionary));
        }
    }
    let all: usize = dictionaries.values().map(|dictionary| dictionary.bytes.len()).sum();
    assert!(dictionaries.len() > 2 && all <= 2 * packer.stats().dictionary_bytes, "{all}");
}

#[test]
fn a_damaged_packed_object_is_an_error_with_its_key() {
    let info = pods();
    let mut packer = Packer::default();
    let packed: Vec<Obj<Pod>> = (0..20).map(|number| packer.pack(pod(&info, 1, number))).collect();
    let damaged = packed[19].clone().repack(|_, payload| payload.damaged_for_test());
    for error in [
        damaged.typed().unwrap_err(),
        damaged.raw().unwrap_err(),
        damaged.json().unwrap_err(),
        damaged.path("spec.nodeName").unwrap_err(),
        damaged.annotation("a").unwrap_err(),
    ] {
        assert!(matches!(&error, DecodeError::Corrupt { key, .. } if key.as_str() == "team-1/service-1-19"), "{error}");
        assert_eq!(error.to_string(), "cannot unpack Pod team-1/service-1-19: its memory is damaged");
    }
    assert_eq!(damaged.key().as_str(), "team-1/service-1-19", "its header is as it was");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn objects_packed_in_any_order_unpack(order in prop::collection::vec((0_u32..12, 0_u32..30, any::<bool>()), 1..120)) {
        let info = pods();
        let mut packer = Packer::default();
        let mut held: Vec<(String, Obj<Pod>)> = Vec::new();
        for (workload, number, keep) in order {
            let text = json(workload, number);
            let packed = packer.pack(Obj::from_json(&info, text.clone()).unwrap());
            held.push((text, packed));
            if !keep {
                held.swap_remove(number as usize % held.len());
            }
        }
        for (text, packed) in held {
            prop_assert_eq!(packed.raw().unwrap(), text);
        }
    }
}
