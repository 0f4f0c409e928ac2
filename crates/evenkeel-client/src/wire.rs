//! [`Wire`]: the encoding of objects in requests and responses.

use std::fmt;
use std::str::FromStr;

use evenkeel_core::ResourceInfo;
use evenkeel_core::codec::Codec;

use crate::rest::has_protobuf_form;

/// The encoding of objects in requests and responses. [`Config::wire`](crate::Config::wire) sets it for a client,
/// [`Api::wire`](crate::Api::wire) for one kind, and the source of an informer for itself.
///
/// Protobuf takes less time and less memory at both ends. It has three limits:
/// - Only built-in kinds have a protobuf encoding. Custom resources are sent as JSON, whatever is set here; their metadata
///   alone has a protobuf encoding.
/// - A field that the server knows and this version of the library does not is lost. Kinds that are only known at run time
///   ([`Client::dynamic`](crate::Client::dynamic)) must not lose fields: they are JSON unless their own `Api` sets protobuf.
/// - A server need not support it. The `Content-Type` of a response decides how it is decoded. A request that is rejected with
///   406 or 415 is repeated once in JSON, unless it may have been carried out or retries are off. The client then uses JSON for
///   that API group for an hour. After a protobuf response that cannot be decoded it uses JSON for that resource for ten
///   minutes.
///
/// Patches and applied objects are always sent as JSON. So is what client-go sends as JSON: bindings and evictions of pods,
/// the finalizing of namespaces, and scales of any kind.
///
/// ```
/// use evenkeel_client::Wire;
///
/// assert_eq!("protobuf".parse(), Ok(Wire::Protobuf));
/// assert_eq!(Wire::default().to_string(), "auto");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Protobuf for informers, which gain most from it, and JSON for everything else.
    #[default]
    Automatic,
    /// Always JSON.
    Json,
    /// Protobuf in both directions, for every kind that has a protobuf encoding.
    Protobuf,
}

impl Wire {
    /// The names that [`FromStr`] accepts.
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

/// The name of a [`Wire`] is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected \"auto\", \"json\" or \"protobuf\"")]
pub struct UnknownWire;

/// How much of an object the response contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ResponseShape {
    #[default]
    Full,
    /// The metadata of an object, or of the objects of a watch.
    Metadata,
    /// The metadata of the objects of a list.
    MetadataList,
}

/// The content negotiation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Negotiation {
    pub(crate) shape: ResponseShape,
    /// The preferred codec of the response.
    pub(crate) accept: Codec,
    /// The codec of the request's body.
    pub(crate) send: Codec,
}

impl Negotiation {
    /// The negotiation for objects of this kind.
    pub(crate) fn new(wire: Wire, info: &ResourceInfo, shape: ResponseShape) -> Self {
        let codec = |is_possible| if wire == Wire::Protobuf && is_possible { Codec::Protobuf } else { Codec::Json };
        match shape {
            ResponseShape::Full => {
                let codec = codec(has_protobuf_form(info));
                Negotiation { shape, accept: codec, send: codec }
            }
            // Metadata has the same encoding for every kind. The body of the request need not have one.
            ResponseShape::Metadata | ResponseShape::MetadataList => {
                Negotiation { shape, accept: codec(true), send: Codec::Json }
            }
        }
    }

    /// The same negotiation with JSON in both directions.
    pub(crate) fn in_json(self) -> Self {
        Negotiation { shape: self.shape, accept: Codec::Json, send: Codec::Json }
    }
}
