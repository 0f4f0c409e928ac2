//! The protocol between the suite and an informer: commands, responses and notifications, shared with the Go program.

use serde::{Deserialize, Serialize};

/// Settings of an informer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Options {
    /// URL of the server. Set by the suite.
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
    /// Whether the initial list is a WatchList; else a list.
    pub(crate) watch_list: bool,
    /// Transform: `count` counts its calls in an annotation; `fail:NAME` fails for one object.
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

/// A command to an informer.
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

/// A handler and its behaviour.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct HandlerOptions {
    pub(crate) handler: String,
    /// Its own resync period; the informer's if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resync_ms: Option<u64>,
    /// It receives only objects with such labels.
    pub(crate) filter: String,
    /// It panics on a notification about this object.
    pub(crate) panic_on: String,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Response {
    Nothing(()),
    Yes(bool),
    Text(String),
    Objects(Vec<ObjectState>),
    Texts(Vec<String>),
}

/// The compared parts of an object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct ObjectState {
    pub(crate) key: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    /// An annotation that every write changes.
    pub(crate) value: String,
    /// One letter for every call of the transform.
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

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Call {
    Add {
        #[serde(default)]
        initial: bool,
        new: ObjectState,
    },
    Update {
        old: ObjectState,
        new: ObjectState,
    },
    Delete {
        key: String,
        #[serde(default)]
        unknown: bool,
        #[serde(default)]
        old: Option<ObjectState>,
    },
    /// The watch error handler was called.
    Error {
        reason: String,
    },
}

impl Call {
    /// Returns the key of the object.
    pub(crate) fn key(&self) -> &str {
        match self {
            Call::Add { new, .. } | Call::Update { new, .. } => &new.key,
            Call::Delete { key, .. } => key,
            Call::Error { .. } => "",
        }
    }

    /// Whether this is an update without a change of version.
    pub(crate) fn is_resync(&self) -> bool {
        matches!(self, Call::Update { old, new } if old.version == new.version)
    }
}
