//! Encodes lists and events as API servers do, in JSON and protobuf.
//!
//! Objects are encoded once. A list is a head, items and a tail; an event is a head, the object and a tail; so the
//! same bytes serve both.

use std::fmt::Write as _;

use evenkeel_core::protobuf::{Message, to_vec};
use evenkeel_core::shard::ShardSelector;
use serde_json::{Value, json};

use super::http::Request;
use crate::Failure;
use crate::data::Kind;

/// Wire format of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Wire {
    Json,
    Protobuf,
}

/// Metadata of a list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListMetadata<'a> {
    pub(crate) version: usize,
    /// Where the next page starts.
    pub(crate) next: Option<usize>,
    /// The number of objects after this page; sharded lists do not tell.
    pub(crate) remaining: Option<usize>,
    /// The shard selector, if it was applied.
    pub(crate) selector: Option<&'a ShardSelector>,
}

/// Prefix of Kubernetes protobuf.
const MAGIC: &[u8] = b"k8s\0";
/// Empty encoding and content type at the end of the envelope, which servers write.
const NO_CONTENT_TYPE: &[u8] = &[0x1a, 0, 0x22, 0];
/// Tag of a list's items.
const ITEM: u8 = 0x12;

impl Wire {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Wire::Json => "json",
            Wire::Protobuf => "protobuf",
        }
    }

    /// Returns the format that the query of a command names; JSON by default.
    pub(super) fn named(request: &Request) -> Self {
        if request.get("wire") == Some("protobuf") { Wire::Protobuf } else { Wire::Json }
    }

    /// Returns the format for an Accept header, considering whether the kind has protobuf.
    pub(crate) fn accepted(accept: &str, kind: &Kind) -> Self {
        match kind.has_protobuf && accept.trim_start().starts_with("application/vnd.kubernetes.protobuf") {
            true => Wire::Protobuf,
            false => Wire::Json,
        }
    }

    pub(crate) fn content_type(self, watch: bool) -> &'static str {
        match (self, watch) {
            (Wire::Json, _) => "application/json",
            (Wire::Protobuf, false) => "application/vnd.kubernetes.protobuf",
            (Wire::Protobuf, true) => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// Appends a list item made of the members of its JSON.
    pub(crate) fn item(self, out: &mut Vec<u8>, kind: &Kind, members: &str) -> Result<(), Failure> {
        match self {
            Wire::Json => {
                out.push(b'{');
                out.extend_from_slice(members.as_bytes());
                out.extend_from_slice(b"},");
            }
            Wire::Protobuf => field(out, ITEM, &message(kind, members)?),
        }
        Ok(())
    }

    /// Returns the part of an item that is also part of an event.
    pub(crate) fn of_item(self, item: &[u8]) -> &[u8] {
        match self {
            Wire::Json => item.get(1..item.len().saturating_sub(2)).unwrap_or_default(),
            Wire::Protobuf => {
                let length = item.iter().skip(1).take_while(|byte| **byte >= 0x80).count() + 1;
                item.get(1 + length..).unwrap_or_default()
            }
        }
    }

    /// Returns the head of a list whose items have so many bytes.
    pub(crate) fn list_head(self, kind: &Kind, list: &ListMetadata<'_>, bytes: usize) -> Vec<u8> {
        let ListMetadata { version, next, remaining, selector } = *list;
        match self {
            Wire::Json => {
                let mut metadata = json!({"resourceVersion": version.to_string()});
                if let Some(next) = next {
                    metadata["continue"] = json!(next.to_string());
                }
                if let Some(remaining) = remaining {
                    metadata["remainingItemCount"] = json!(remaining);
                }
                if let Some(selector) = selector {
                    metadata["shardInfo"] = json!({"selector": selector.to_string()});
                }
                let Kind { kind, api_version, .. } = kind;
                let head =
                    format!(r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{metadata},"items":["#);
                head.into_bytes()
            }
            Wire::Protobuf => {
                let mut metadata = Vec::new();
                field(&mut metadata, 0x0a, b"");
                field(&mut metadata, 0x12, version.to_string().as_bytes());
                field(&mut metadata, 0x1a, next.map(|next| next.to_string()).unwrap_or_default().as_bytes());
                if let Some(remaining) = remaining {
                    metadata.push(0x20);
                    varint(&mut metadata, remaining);
                }
                if let Some(selector) = selector {
                    let mut info = Vec::new();
                    field(&mut info, 0x0a, selector.to_string().as_bytes());
                    field(&mut metadata, 0x2a, &info);
                }
                let mut list = Vec::new();
                field(&mut list, 0x0a, &metadata);
                let mut head = envelope(kind.api_version, &format!("{}List", kind.kind), list.len() + bytes);
                head.extend_from_slice(&list);
                head
            }
        }
    }

    /// Number of bytes of the last item that are omitted.
    pub(crate) fn surplus(self) -> usize {
        match self {
            Wire::Json => 1,
            Wire::Protobuf => 0,
        }
    }

    pub(crate) fn list_tail(self) -> &'static [u8] {
        match self {
            Wire::Json => b"]}\n",
            Wire::Protobuf => NO_CONTENT_TYPE,
        }
    }

    /// Appends the head of an event whose object has so many bytes, including the chunk header.
    pub(crate) fn event_head(self, out: &mut Vec<u8>, event: &str, kind: &Kind, bytes: usize) {
        let head = match self {
            Wire::Json => {
                let Kind { kind, api_version, .. } = kind;
                format!(r#"{{"type":"{event}","object":{{"kind":"{kind}","apiVersion":"{api_version}","#).into_bytes()
            }
            Wire::Protobuf => event_head(event, &envelope(kind.api_version, kind.kind, bytes), bytes),
        };
        chunk_head(out, head.len() + bytes + self.event_tail().len() - CHUNK_TAIL.len());
        out.extend_from_slice(&head);
    }

    /// Returns the tail of an event, including that of the chunk.
    pub(crate) fn event_tail(self) -> &'static [u8] {
        match self {
            Wire::Json => b"}}\n\r\n",
            Wire::Protobuf => &[0x1a, 0, 0x22, 0, b'\r', b'\n'],
        }
    }

    /// Appends a whole event with the object of these members.
    pub(crate) fn event(self, out: &mut Vec<u8>, event: &str, kind: &Kind, members: &str) -> Result<(), Failure> {
        let encoded;
        let object = match self {
            Wire::Json => members.as_bytes(),
            Wire::Protobuf => {
                encoded = message(kind, members)?;
                &encoded
            }
        };
        self.event_head(out, event, kind, object.len());
        out.extend_from_slice(object);
        out.extend_from_slice(self.event_tail());
        Ok(())
    }

    /// Returns a bookmark as a chunk.
    pub(crate) fn bookmark(self, kind: &Kind, version: usize, end_of_initial: bool) -> Vec<u8> {
        const END: &str = "k8s.io/initial-events-end";
        let mut out = Vec::new();
        let object = match self {
            Wire::Json => {
                let mut metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
                if end_of_initial {
                    metadata["annotations"] = json!({ END: "true" });
                }
                format!("\"metadata\":{metadata}").into_bytes()
            }
            Wire::Protobuf => {
                let (mut metadata, mut annotation, mut object) = (Vec::new(), Vec::new(), Vec::new());
                field(&mut metadata, 0x32, version.to_string().as_bytes());
                if end_of_initial {
                    field(&mut annotation, 0x0a, END.as_bytes());
                    field(&mut annotation, 0x12, b"true");
                    field(&mut metadata, 0x62, &annotation);
                }
                field(&mut object, 0x0a, &metadata);
                object
            }
        };
        self.event_head(&mut out, "BOOKMARK", kind, object.len());
        out.extend_from_slice(&object);
        out.extend_from_slice(self.event_tail());
        out
    }

    /// Returns the 410 event as a chunk.
    pub(crate) fn expired(self) -> Vec<u8> {
        let kind = Kind { path: "", api_version: "v1", kind: "Status", has_protobuf: true };
        let (message, reason, code) = ("too old resource version", "Expired", 410_usize);
        let mut out = Vec::new();
        let object = match self {
            Wire::Json => {
                format!(r#""metadata":{{}},"status":"Failure","message":"{message}","reason":"{reason}","code":{code}"#)
                    .into_bytes()
            }
            Wire::Protobuf => {
                let mut object = Vec::new();
                field(&mut object, 0x0a, b"");
                field(&mut object, 0x12, b"Failure");
                field(&mut object, 0x1a, message.as_bytes());
                field(&mut object, 0x22, reason.as_bytes());
                object.push(0x30);
                varint(&mut object, code);
                object
            }
        };
        self.event_head(&mut out, "ERROR", &kind, object.len());
        out.extend_from_slice(&object);
        out.extend_from_slice(self.event_tail());
        out
    }
}

/// Returns a Status in JSON.
pub(crate) fn status(message: &str, reason: &str, code: u16) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code
    })
}

pub(crate) const CHUNK_TAIL: &[u8] = b"\r\n";

/// Appends a chunk header.
pub(crate) fn chunk_head(out: &mut Vec<u8>, bytes: usize) {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(text, "{bytes:x}\r\n");
    out.extend_from_slice(text.as_bytes());
}

/// Encodes the object of these members, without its envelope.
fn message(kind: &Kind, members: &str) -> Result<Vec<u8>, Failure> {
    let value: Value = serde_json::from_str(&format!("{{{members}}}"))?;
    let message = Message::of_kind(kind.api_version, kind.kind);
    let message = message.ok_or_else(|| format!("there is no protobuf of {}", kind.kind))?;
    Ok(to_vec(message, &value)?)
}

/// Returns the envelope: prefix, kind and length.
fn envelope(api_version: &str, kind: &str, bytes: usize) -> Vec<u8> {
    let (mut meta, mut out) = (Vec::new(), MAGIC.to_vec());
    field(&mut meta, 0x0a, api_version.as_bytes());
    field(&mut meta, 0x12, kind.as_bytes());
    field(&mut out, 0x0a, &meta);
    out.push(0x12);
    varint(&mut out, bytes);
    out
}

/// Returns the frame length, the message of an event, and the envelope of its object.
fn event_head(event: &str, envelope: &[u8], bytes: usize) -> Vec<u8> {
    let object = envelope.len() + bytes + NO_CONTENT_TYPE.len();
    let mut raw = vec![0x0a];
    varint(&mut raw, object);
    let mut message = Vec::new();
    field(&mut message, 0x0a, event.as_bytes());
    message.push(0x12);
    varint(&mut message, raw.len() + object);
    let length = message.len() + raw.len() + object;
    let mut out = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    out.extend([message, raw, envelope.to_vec()].concat());
    out
}

/// Appends a field of bytes.
fn field(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
