//! What is asked of an informer, and what it says: the words that the Go program and this one have in common.

use serde::{Deserialize, Serialize};

/// What an informer is about.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Options {
    /// Where the server is. Not a scenario's business.
    #[serde(skip_deserializing)]
    pub(crate) server: String,
    /// `ConfigMap` or `Pod`.
    pub(crate) kind: String,
    /// Only objects in this namespace, unless empty.
    pub(crate) namespace: String,
    /// Only objects with such labels.
    pub(crate) labels: String,
    /// Only objects with such fields.
    pub(crate) fields: String,
    /// The informer's resync period; 0 for never.
    pub(crate) resync_ms: u64,
    /// Whether the watch begins with the objects that are there; else they are listed.
    pub(crate) watch_list: bool,
    /// What is done to objects first: `count` counts, in an annotation, how often that was; `fail:NAME` fails for one.
    pub(crate) transform: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            server: String::new(),
            kind: "ConfigMap".into(),
            namespace: String::new(),
            labels: String::new(),
            fields: String::new(),
            resync_ms: 0,
            watch_list: true,
            transform: String::new(),
        }
    }
}

/// What an informer is asked for.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Command {
    New { options: Options },
    Handler(HandlerOptions),
    Remove { handler: String },
    Hold { handler: String },
    Release { handler: String },
    Start,
    Stop,
    Close,
    Stopped,
    Synced { handler: String },
    Index { index: String, label: String },
    List,
    Get { key: String },
    ByIndex { index: String, value: String },
    IndexKeys { index: String, value: String },
    IndexValues { index: String },
    StoreVersion,
}

/// A handler, and how it behaves.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct HandlerOptions {
    pub(crate) handler: String,
    /// Its own resync period; the informer's if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resync_ms: Option<u64>,
    /// It is told only about objects with such labels.
    pub(crate) filter: String,
    /// It panics when it is told about this object.
    pub(crate) panic_on: String,
}

/// What an informer answers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Nothing(()),
    Yes(bool),
    Text(String),
    Objects(Vec<Seen>),
    Texts(Vec<String>),
}

/// What is compared of an object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Seen {
    pub(crate) key: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    /// An annotation that every write changes.
    pub(crate) value: String,
    /// One letter for every time that the transform saw it.
    #[serde(default)]
    pub(crate) transformed: String,
}

/// A handler was called.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Notification {
    pub(crate) handler: String,
    #[serde(flatten)]
    pub(crate) call: Call,
}

/// What with.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Call {
    Add {
        #[serde(default)]
        initial: bool,
        new: Seen,
    },
    Update {
        old: Seen,
        new: Seen,
    },
    Delete {
        key: String,
        #[serde(default)]
        unknown: bool,
        #[serde(default)]
        old: Option<Seen>,
    },
    /// The watch error handler was called.
    Error {
        reason: String,
    },
}

impl Call {
    /// The key of the object.
    pub(crate) fn key(&self) -> &str {
        match self {
            Call::Add { new, .. } | Call::Update { new, .. } => &new.key,
            Call::Delete { key, .. } => key,
            Call::Error { .. } => "",
        }
    }

    /// An update from a version to the same one.
    pub(crate) fn is_resync(&self) -> bool {
        matches!(self, Call::Update { old, new } if old.version == new.version)
    }
}
