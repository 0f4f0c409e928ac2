//! Columns of volumes, claims and storage classes.

use serde_json::Value;

use super::cell::{AGE, Column, NAME, Row, boolean, integer, join, marked_if_default, plain, text, text_of, texts};

pub(super) const VOLUME: &[Column] = &[
    NAME,
    text("Capacity", "How large it is.", |row| {
        row.get(&["spec", "capacity", "storage"]).map_or_else(|| "0".into(), |size| plain(size).into())
    }),
    text("Access Modes", "How it can be mounted.", |row| access_modes(row.list(&["spec", "accessModes"])).into()),
    text("Reclaim Policy", "What becomes of it when it is released.", |row| {
        row.text(&["spec", "persistentVolumeReclaimPolicy"]).into()
    }),
    text("Status", "Whether it is in use.", |row| storage_phase(row).into()),
    text("Claim", "The claim it is bound to.", |row| match row.get(&["spec", "claimRef"]) {
        Some(claim) => format!("{}/{}", text_of(claim, &["namespace"]), text_of(claim, &["name"])).into(),
        None => "".into(),
    }),
    text("StorageClass", "The class it is of.", |row| storage_class(row).into()),
    text("VolumeAttributesClass", "The class of its attributes.", |row| {
        row.text_or(&["spec", "volumeAttributesClassName"], "<unset>")
    }),
    text("Reason", "Why it is as it is.", |row| row.text(&["status", "reason"]).into()),
    AGE,
    text("VolumeMode", "Whether it is a file system or a block device.", |row| {
        row.text_or(&["spec", "volumeMode"], "<unset>")
    })
    .wide(),
];

pub(super) const CLAIM: &[Column] = &[
    NAME,
    text("Status", "Whether it is bound.", |row| storage_phase(row).into()),
    text("Volume", "The volume it is bound to.", |row| row.text(&["spec", "volumeName"]).into()),
    text("Capacity", "How large the volume is.", |row| match row.text(&["spec", "volumeName"]) {
        "" => "".into(),
        _ => row.get(&["status", "capacity", "storage"]).map_or_else(|| "0".into(), |size| plain(size).into()),
    }),
    text("Access Modes", "How the volume can be mounted.", |row| match row.text(&["spec", "volumeName"]) {
        "" => "".into(),
        _ => access_modes(row.list(&["status", "accessModes"])).into(),
    }),
    text("StorageClass", "The requested class.", |row| storage_class(row).into()),
    text("VolumeAttributesClass", "The requested class of attributes.", |row| {
        row.text_or(&["spec", "volumeAttributesClassName"], "<unset>")
    }),
    AGE,
    text("VolumeMode", "Whether a file system or a block device is requested.", |row| {
        row.text_or(&["spec", "volumeMode"], "<unset>")
    })
    .wide(),
];

fn storage_phase<'a>(row: &Row<'a>) -> &'a str {
    if row.is_terminating() { "Terminating" } else { row.text(&["status", "phase"]) }
}

fn storage_class<'a>(row: &Row<'a>) -> &'a str {
    match row.text(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]) {
        "" => row.text(&["spec", "storageClassName"]),
        class => class,
    }
}

/// Returns the short names of access modes, in their customary order.
fn access_modes(modes: &[Value]) -> String {
    let shown: Vec<&str> =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")]
            .iter()
            .filter(|(mode, _)| modes.iter().any(|given| given == mode))
            .map(|(_, short)| *short)
            .collect();
    shown.join(",")
}

pub(super) const STORAGE_CLASS: &[Column] = &[
    text("Name", "The name of the object, unique among its kind.", |row| {
        let annotation = |key| row.text(&["metadata", "annotations", key]) == "true";
        let is_default = annotation("storageclass.kubernetes.io/is-default-class")
            || annotation("storageclass.beta.kubernetes.io/is-default-class");
        marked_if_default(row, is_default)
    })
    .naming(),
    text("Provisioner", "Who makes the volumes.", |row| row.text(&["provisioner"]).into()),
    text("ReclaimPolicy", "What becomes of released volumes.", |row| row.text_or(&["reclaimPolicy"], "Delete")),
    text("VolumeBindingMode", "When volumes are made and bound.", |row| {
        row.text_or(&["volumeBindingMode"], "Immediate")
    }),
    text("AllowVolumeExpansion", "Whether volumes can grow.", |row| row.bool_or(&["allowVolumeExpansion"], false)),
    AGE,
];

pub(super) const ATTRIBUTES_CLASS: &[Column] =
    &[NAME, text("DriverName", "The driver it is for.", |row| row.text(&["driverName"]).into()), AGE];

pub(super) const ATTACHMENT: &[Column] = &[
    NAME,
    text("Attacher", "Who attaches the volume.", |row| row.text(&["spec", "attacher"]).into()).naming(),
    text("PV", "The volume.", |row| row.text(&["spec", "source", "persistentVolumeName"]).into()),
    text("Node", "The node it is attached to.", |row| row.text(&["spec", "nodeName"]).into()),
    boolean("Attached", "Whether it is attached.", |row| row.bool_or(&["status", "attached"], false)),
    AGE,
];

pub(super) const CSI_NODE: &[Column] =
    &[NAME, integer("Drivers", "How many drivers the node has.", |row| row.count(&["spec", "drivers"]).into()), AGE];

pub(super) const CSI_DRIVER: &[Column] = &[
    NAME,
    boolean("AttachRequired", "Whether volumes must be attached first.", |row| {
        row.bool_or(&["spec", "attachRequired"], true)
    }),
    boolean("PodInfoOnMount", "Whether mounts receive pod information.", |row| {
        row.bool_or(&["spec", "podInfoOnMount"], false)
    }),
    boolean("StorageCapacity", "Whether it reports how much room there is.", |row| {
        row.bool_or(&["spec", "storageCapacity"], false)
    }),
    text("TokenRequests", "The audiences of requested tokens.", |row| {
        if row.get(&["spec", "tokenRequests"]).is_none() {
            return "<unset>".into();
        }
        let requests = row.list(&["spec", "tokenRequests"]);
        join(requests, ",", |request| text_of(request, &["audience"])).into()
    }),
    boolean("RequiresRepublish", "Whether mounts are republished periodically.", |row| {
        row.bool_or(&["spec", "requiresRepublish"], false)
    }),
    text("Modes", "For how long its volumes live.", |row| match texts(row.list(&["spec", "volumeLifecycleModes"])) {
        none if none.is_empty() => "<none>".into(),
        modes => modes.into(),
    }),
    AGE,
];

pub(super) const STORAGE_CAPACITY: &[Column] = &[
    NAME,
    text("StorageClassName", "The class of storage.", |row| row.text(&["storageClassName"]).into()),
    text("Capacity", "How much room there is.", |row| {
        row.get(&["capacity"]).map_or_else(|| "<unset>".into(), |capacity| plain(capacity).into())
    }),
];
