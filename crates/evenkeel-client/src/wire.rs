//! [`Wire`]: the form that objects have on their way.

use std::fmt;
use std::str::FromStr;

use evenkeel_core::ResourceInfo;

use crate::rest::has_protobuf_form;

/// The form that objects have on their way: [`Config::wire`](crate::Config::wire) says it for a client,
/// [`Api::wire`](crate::Api::wire) for one kind, and sources of informers for themselves.
///
/// Protobuf takes less time and less room, at both ends. There are three things to know of it:
/// - Only built-in kinds have a protobuf form. Custom resources travel as JSON, whatever is said here; of their metadata
///   alone there is a protobuf form.
/// - A field that a server knows and this version of the library does not is lost on the way. So kinds that are only known
///   at run time ([`Client::dynamic`](crate::Client::dynamic)), whose point is that nothing is lost, travel as JSON unless
///   their own `Api` says otherwise.
/// - A server need not speak it. What an answer says of itself decides how it is read, and one that refuses protobuf is
///   asked for JSON: the same call once more, unless it may have been carried out or retries are off, and from then on all
///   calls to that API group by the same client.
///
/// Patches and what is applied are always sent as JSON, and so is what client-go has written by hand: bindings and
/// evictions of pods, the finalizing of namespaces, and scales of any kind.
///
/// ```
/// use evenkeel_client::Wire;
///
/// assert_eq!("protobuf".parse(), Ok(Wire::Protobuf));
/// assert_eq!(Wire::default().to_string(), "auto");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Informers ask for protobuf, which is where it pays, and everything else for JSON.
    #[default]
    Automatic,
    /// JSON, always.
    Json,
    /// Protobuf wherever there is a form for it, both ways.
    Protobuf,
}

impl Wire {
    /// What there is to choose from, as people write it.
    pub const NAMES: [&'static str; 3] = ["auto", "json", "protobuf"];

    fn name(self) -> &'static str {
        let [auto, json, protobuf] = Wire::NAMES;
        match self {
            Wire::Automatic => auto,
            Wire::Json => json,
            Wire::Protobuf => protobuf,
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Wire {
    type Err = UnknownWire;

    fn from_str(text: &str) -> Result<Self, UnknownWire> {
        let all = [Wire::Automatic, Wire::Json, Wire::Protobuf];
        all.into_iter().find(|wire| wire.name() == text).ok_or(UnknownWire)
    }
}

/// There is no [`Wire`] of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is \"auto\", \"json\" and \"protobuf\"")]
pub struct UnknownWire;

/// The form of one body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    Json,
    Protobuf,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Part {
    /// Whatever there is.
    #[default]
    All,
    /// The metadata of an object, or of those that a watch tells of.
    Metadata,
    /// The metadata of the objects of a list.
    MetadataList,
}

/// How a request is sent, and what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) part: Part,
    /// The form to ask for.
    pub(crate) accept: Form,
    /// The form to send in.
    pub(crate) send: Form,
}

impl Terms {
    /// The terms for objects of this kind, of which so much is wanted.
    pub(crate) fn new(wire: Wire, info: &ResourceInfo, part: Part) -> Self {
        let form = |is_possible| if wire == Wire::Protobuf && is_possible { Form::Protobuf } else { Form::Json };
        match part {
            Part::All => {
                let form = form(has_protobuf_form(info));
                Terms { part, accept: form, send: form }
            }
            // Metadata looks the same whatever the kind; what is sent along need not.
            Part::Metadata | Part::MetadataList => Terms { part, accept: form(true), send: Form::Json },
        }
    }

    /// The same without any protobuf.
    pub(crate) fn in_json(self) -> Self {
        Terms { part: self.part, accept: Form::Json, send: Form::Json }
    }
}
