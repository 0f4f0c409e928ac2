//! [`History`]: what the clients of a run have sent and received.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a client writes into an object. Every write has another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Tells the write apart from all others.
    pub value: String,
    /// The object has the label that [`Selection::Labelled`] selects.
    pub is_selected: bool,
}

/// A state of an object that a client saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectState {
    /// The resource version.
    pub version: u64,
    /// The uid.
    pub uid: String,
    /// What the last write wrote.
    pub content: Content,
}

/// The objects that a list or a watch selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All objects.
    All,
    /// Those with a label.
    Labelled,
    /// The one of this key.
    Named(String),
}

impl Selection {
    /// Returns whether an object of this key may be selected.
    pub fn covers(&self, key: &str) -> bool {
        match self {
            Selection::Named(name) => name == key,
            Selection::All | Selection::Labelled => true,
        }
    }

    /// Returns whether an object is selected.
    pub fn selects(&self, key: &str, content: &Content) -> bool {
        self.covers(key) && (*self != Selection::Labelled || content.is_selected)
    }
}

/// Which state a read requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The latest: no resource version.
    Latest,
    /// Any: resource version 0.
    Any,
    /// Not older than this version.
    NotOlderThan(u64),
}

/// A request for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Create it.
    Create(Content),
    /// Replace it, if it has the expected version.
    Update {
        /// What is written.
        content: Content,
        /// The version in the request; none replaces any.
        expected: Option<u64>,
    },
    /// Delete it, if it has the expected version.
    Delete {
        /// The version in the preconditions.
        expected: Option<u64>,
    },
    /// Read it.
    Get(Freshness),
}

/// The response to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The object after the request.
    Object(ObjectState),
    /// It is deleted.
    Deleted,
    /// It does not exist.
    NotFound,
    /// It exists already.
    AlreadyExists,
    /// It has another version.
    Conflict,
    /// The server has refused the request and done nothing.
    NotDone,
    /// The server has refused it with a code that no such request may have.
    Unexpected(u16),
    /// There was no response, or one that leaves open whether the request was done. It may still be done later.
    Unknown,
}

/// A request for one object, and its response. Times are numbers in the order of what the clients did.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Who sent it.
    pub client: String,
    /// The key of the object.
    pub key: String,
    /// What was sent.
    pub request: Request,
    /// When it was sent.
    pub sent: u64,
    /// When the response arrived, and the response. `None` if the client crashed before.
    pub received: Option<(u64, Reply)>,
}

/// A list, which may have arrived in pages.
#[derive(Clone, Debug)]
pub struct ListRecord {
    /// Who sent it.
    pub client: String,
    /// When the request for the first page was sent.
    pub sent: u64,
    /// When the first page arrived.
    pub received: u64,
    /// The requested state.
    pub freshness: Freshness,
    /// The requested objects.
    pub selection: Selection,
    /// The version of the list.
    pub version: u64,
    /// The objects by key.
    pub objects: BTreeMap<String, ObjectState>,
    /// The last key of the pages that arrived; `None` if all did.
    pub last_key: Option<String>,
}

impl ListRecord {
    /// Returns whether the list shows if an object of this key is selected.
    pub fn covers(&self, key: &str) -> bool {
        self.selection.covers(key) && self.last_key.as_deref().is_none_or(|last| key <= last)
    }
}

/// Where a watch starts.
#[derive(Clone, Debug)]
pub enum StreamStart {
    /// After a version. The client knows the objects at that version from a list or an earlier watch, or not.
    After(u64, Option<Known>),
    /// With the objects of a state.
    Initial(Freshness),
}

/// From where a client knows the objects at the start of a watch.
#[derive(Clone, Copy, Debug)]
pub enum Known {
    /// From the list with this number.
    List(usize),
    /// From the watch with this number.
    Stream(usize),
}

/// A frame of a watch.
#[derive(Clone, Debug)]
pub enum StreamFrame {
    /// An object is in the selection, and was not.
    Added(String, ObjectState),
    /// An object is in the selection, and was.
    Modified(String, ObjectState),
    /// An object is no longer in the selection. This is its last state there, with the version of the change.
    Deleted(String, ObjectState),
    /// All up to a version was sent.
    Bookmark {
        /// The version.
        version: u64,
        /// It ends the initial objects.
        ends_initial: bool,
    },
}

impl StreamFrame {
    /// Returns the version up to which a client has seen all, once it has this frame.
    pub fn version(&self) -> u64 {
        match self {
            StreamFrame::Added(_, object) | StreamFrame::Modified(_, object) | StreamFrame::Deleted(_, object) => {
                object.version
            }
            StreamFrame::Bookmark { version, .. } => *version,
        }
    }
}

/// A watch and its frames.
#[derive(Clone, Debug)]
pub struct StreamRecord {
    /// Who watched.
    pub client: String,
    /// When the request was sent.
    pub sent: u64,
    /// The watched objects.
    pub selection: Selection,
    /// Where it starts.
    pub start: StreamStart,
    /// What arrived. Frames without meaning for the client are left out.
    pub frames: Vec<StreamFrame>,
}

impl StreamRecord {
    /// Returns the number of the frames with the initial objects and the bookmark at their end: 0 without initial objects, `None` if
    /// they did not all arrive.
    pub fn initial_frames(&self) -> Option<usize> {
        match self.start {
            StreamStart::After(..) => Some(0),
            StreamStart::Initial(_) => {
                let is_end = |frame: &StreamFrame| matches!(frame, StreamFrame::Bookmark { ends_initial: true, .. });
                self.frames.iter().position(is_end).map(|end| end + 1)
            }
        }
    }
}

/// What the clients of a run have sent and received, in one order.
#[derive(Debug, Default)]
pub struct History {
    records: Mutex<Records>,
}

/// The content of a [`History`].
#[derive(Clone, Debug, Default)]
pub struct Records {
    time: u64,
    /// Requests for one object.
    pub operations: Vec<Operation>,
    /// Lists.
    pub lists: Vec<ListRecord>,
    /// Watches.
    pub streams: Vec<StreamRecord>,
}

impl Records {
    fn now(&mut self) -> u64 {
        self.time += 1;
        self.time
    }
}

impl History {
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of all records.
    pub fn records(&self) -> Records {
        self.lock().clone()
    }

    /// Returns a time after all records so far.
    pub fn now(&self) -> u64 {
        self.lock().now()
    }

    /// Records that a request is sent. Returns its number.
    pub fn sent(&self, client: &str, key: &str, request: Request) -> usize {
        let mut records = self.lock();
        let sent = records.now();
        let operation = Operation { client: client.to_owned(), key: key.to_owned(), request, sent, received: None };
        records.operations.push(operation);
        records.operations.len() - 1
    }

    /// Records the response to a request.
    pub fn received(&self, operation: usize, reply: Reply) {
        let mut records = self.lock();
        let now = records.now();
        if let Some(operation) = records.operations.get_mut(operation) {
            operation.received = Some((now, reply));
        }
    }

    /// Records a list or its first page. Returns its number.
    pub fn listed(&self, list: ListRecord) -> usize {
        let mut records = self.lock();
        records.lists.push(list);
        records.lists.len() - 1
    }

    /// Records a further page. `last_key` is `None` if it is the last one.
    pub fn continued(
        &self,
        list: usize,
        objects: impl IntoIterator<Item = (String, ObjectState)>,
        last_key: Option<String>,
    ) {
        if let Some(list) = self.lock().lists.get_mut(list) {
            list.objects.extend(objects);
            list.last_key = last_key;
        }
    }

    /// Records that a watch is requested. Returns its number.
    pub fn watches(&self, client: &str, selection: Selection, start: StreamStart) -> usize {
        let mut records = self.lock();
        let sent = records.now();
        records.streams.push(StreamRecord { client: client.to_owned(), sent, selection, start, frames: Vec::new() });
        records.streams.len() - 1
    }

    /// Records a frame of a watch.
    pub fn frame(&self, stream: usize, frame: StreamFrame) {
        if let Some(stream) = self.lock().streams.get_mut(stream) {
            stream.frames.push(frame);
        }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selection::All => f.write_str("all objects"),
            Selection::Labelled => f.write_str("labelled objects"),
            Selection::Named(name) => write!(f, "object {name}"),
        }
    }
}

impl fmt::Display for ObjectState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = if self.content.is_selected { "with" } else { "without" };
        write!(f, "version {} ({:?}, {label} the label)", self.version, self.content.value)
    }
}
