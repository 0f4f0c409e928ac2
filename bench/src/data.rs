//! Objects of the load server, with the shape, size and variety of real clusters.
//!
//! Everything is a function of its number: the same number gives the same object, to every program and in every run.

mod documents;
mod endpoint_slices;
mod kinds;
mod pods;
mod secrets;

use fastrand::Rng;
use jiff::Timestamp;

/// Version of the first object; the nth has this one plus n.
pub(crate) const FIRST_VERSION: usize = 1_000;
/// Creation time of the first object, in seconds since 1970.
const EPOCH: i64 = 1_779_998_400;
/// Letters of generated names.
const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Data {
    /// Pods of many workloads, 5.8 KB of JSON each.
    Pods,
    /// Secrets whose values are random bytes, which do not compress.
    Secrets,
    /// EndpointSlices of services of all sizes.
    Endpointslices,
    /// A custom resource with objects of 100 KB; it has no protobuf.
    Documents,
    /// Twenty built-in kinds.
    Kinds,
}

impl Data {
    /// Returns its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Data::Pods => "pods",
            Data::Secrets => "secrets",
            Data::Endpointslices => "endpointslices",
            Data::Documents => "documents",
            Data::Kinds => "kinds",
        }
    }

    /// Returns the kinds of the set, with this total number of objects.
    pub(crate) fn kinds(self, objects: usize) -> Vec<(Kind, Box<dyn Objects>)> {
        match self {
            Data::Pods => vec![(PODS, Box::new(pods::Pods::new(objects)))],
            Data::Secrets => vec![(SECRETS, Box::new(secrets::Secrets(objects)))],
            Data::Endpointslices => vec![(ENDPOINT_SLICES, Box::new(endpoint_slices::EndpointSlices(objects)))],
            Data::Documents => vec![(DOCUMENTS, Box::new(documents::Documents(objects)))],
            Data::Kinds => kinds::kinds(objects),
        }
    }
}

/// Names and path of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) path: &'static str,
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    /// Custom resources have none.
    pub(crate) has_protobuf: bool,
}

impl Kind {
    const fn new(path: &'static str, api_version: &'static str, kind: &'static str) -> Self {
        Kind { path, api_version, kind, has_protobuf: true }
    }
}

const PODS: Kind = Kind::new("/api/v1/pods", "v1", "Pod");
const SECRETS: Kind = Kind::new("/api/v1/secrets", "v1", "Secret");
const ENDPOINT_SLICES: Kind =
    Kind::new("/apis/discovery.k8s.io/v1/endpointslices", "discovery.k8s.io/v1", "EndpointSlice");
const DOCUMENTS: Kind = Kind {
    path: "/apis/bench.evenkeel.dev/v1/documents",
    api_version: "bench.evenkeel.dev/v1",
    kind: "Document",
    has_protobuf: false,
};

/// Objects of one kind.
pub(crate) trait Objects: Send + Sync {
    fn len(&self) -> usize;

    /// Appends the members of an object's JSON without `kind` and `apiVersion`, which list items omit, and without
    /// the braces.
    fn write(&self, out: &mut String, number: usize);

    /// Appends the object changed by the nth update, after the update. Returns false if these objects do not change.
    fn write_update(&self, out: &mut String, update: usize) -> bool {
        let _ = (out, update);
        false
    }

    /// Returns the version of the initial list.
    fn list_version(&self) -> usize {
        FIRST_VERSION + self.len()
    }
}

/// Appends a template without its line breaks and indentation, each `<slot>` replaced by its value.
fn fill<'a>(out: &mut String, template: &str, slot: impl Fn(&str) -> &'a str) {
    for line in template.lines() {
        let mut pieces = line.trim_start().split('<');
        out.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (name, text) = piece.split_once('>').unwrap_or((piece, ""));
            out.push_str(slot(name));
            out.push_str(text);
        }
    }
}

fn one<T: Copy>(dice: &mut Rng, choices: &[T]) -> T {
    choices[dice.usize(0..choices.len())]
}

fn letters(dice: &mut Rng, length: usize) -> String {
    (0..length).map(|_| char::from(one(dice, SAFE))).collect()
}

fn hex(dice: &mut Rng, length: usize) -> String {
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        text.push_str(&format!("{:016x}", dice.u64(..)));
    }
    text.truncate(length);
    text
}

fn uid(dice: &mut Rng) -> String {
    let digits = hex(dice, 32);
    format!("{}-{}-4{}-8{}-{}", &digits[..8], &digits[8..12], &digits[13..16], &digits[17..20], &digits[20..])
}

fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
}

const TEAMS: &[&str] =
    &["atlas", "borealis", "cinder", "delta", "ember", "fjord", "granite", "harbor", "iris", "juniper"];
const STAGES: &[&str] = &["prod", "staging", "canary", "preview"];
const ROLES: &[&str] = &["api", "cron", "gateway", "indexer", "relay", "sync", "web", "worker"];
const REGIONS: &[&str] = &["eu-west-1", "eu-central-1", "us-east-1", "ap-south-1"];
const NOUNS: &[&str] = &[
    "account",
    "billing",
    "cart",
    "catalog",
    "checkout",
    "fraud",
    "inventory",
    "invoice",
    "ledger",
    "mail",
    "media",
    "order",
    "payment",
    "pricing",
    "profile",
    "quota",
    "report",
    "search",
    "session",
    "shipping",
    "stock",
    "tax",
    "upload",
    "wallet",
];

#[cfg(test)]
mod tests;
