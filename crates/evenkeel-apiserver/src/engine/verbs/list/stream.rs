//! A list as text: JSON, indented JSON, YAML, and each of them as a Table.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use evenkeel_core::Status;
use serde_json::{Value, json};

use super::CHUNK;
use crate::engine::indent::Indenter;
use crate::engine::view::View;
use crate::engine::{encode, response};
use crate::http_types::{Body, ConnectionCut, FrameStream};
use crate::negotiate::{Media, Representation, Transform};
use crate::store::Record;

/// A list that is encoded while it is read, one chunk at a time. The records are shared with the store, so an unread list of
/// any length costs one pointer per object and one chunk.
pub(super) struct ListStream {
    view: View,
    /// The text before the first item.
    head: Bytes,
    /// The text after the last item.
    tail: Bytes,
    records: std::vec::IntoIter<Arc<Record>>,
    text: ListText,
    first: bool,
    done: bool,
}

/// The encoding of the items.
enum ListText {
    Json,
    /// Indented JSON, and the compact chunk that is being indented: deep objects grow by two orders of magnitude.
    Pretty(Indenter, Bytes),
    /// YAML. The member of the list with the items has this name.
    Yaml(&'static str),
}

impl ListStream {
    pub(super) fn new(view: View, metadata: Value, records: Vec<Arc<Record>>) -> Result<Self, Status> {
        let (member, empty) = empty_list(&view, &metadata);
        let (text, head, tail) = match view.representation.media {
            Media::Yaml if records.is_empty() => {
                (ListText::Yaml(member), encode(empty.into(), view.representation)?, Bytes::new())
            }
            Media::Yaml => {
                let whole = encode(empty.into(), view.representation)?;
                let whole = std::str::from_utf8(&whole).unwrap_or_default();
                // Only members of the list itself start a line.
                let (head, tail) = whole.rsplit_once(&format!("{member}: []\n")).unwrap_or((whole, ""));
                let head = format!("{head}{member}:\n");
                (ListText::Yaml(member), head.into(), Bytes::copy_from_slice(tail.as_bytes()))
            }
            _ => {
                let head = empty.strip_suffix("]}").unwrap_or(&empty).to_owned();
                let text = match view.representation.pretty {
                    true => ListText::Pretty(Indenter::default(), Bytes::new()),
                    false => ListText::Json,
                };
                (text, head.into(), Bytes::from_static(b"]}"))
            }
        };
        Ok(ListStream { view, head, tail, records: records.into_iter(), text, first: true, done: false })
    }

    /// Returns the response: a short list whole, a long one as a stream.
    pub(super) fn into_response(mut self) -> http::Response<Body> {
        let representation = self.view.representation;
        let short = self.records.as_slice().iter().map(|record| record.json().len()).sum::<usize>() < CHUNK / 2;
        if !short {
            return response::with_body(representation, Body::stream(self));
        }
        let first = self.next_chunk().unwrap_or_default();
        let Some(second) = self.next_chunk() else {
            return response::ok(representation, first);
        };
        let mut whole = [first, second].concat();
        while let Some(chunk) = self.next_chunk() {
            whole.extend_from_slice(&chunk);
        }
        response::ok(representation, Bytes::from(whole))
    }

    /// Returns the next chunk, or `None` after the last one.
    fn next_chunk(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.text, ListText::Json) {
            ListText::Json => self.json_chunk(),
            ListText::Pretty(mut indenter, mut compact) => {
                let mut chunk = Vec::with_capacity(CHUNK + CHUNK / 8);
                while chunk.len() < CHUNK {
                    if compact.is_empty() {
                        match self.json_chunk() {
                            Some(next) => compact = next,
                            None => break,
                        }
                    }
                    let read = indenter.write(&compact, &mut chunk, CHUNK);
                    compact.advance(read);
                }
                self.text = ListText::Pretty(indenter, compact);
                (!chunk.is_empty()).then(|| chunk.into())
            }
            ListText::Yaml(member) => {
                let chunk = self.yaml_chunk(member);
                self.text = ListText::Yaml(member);
                chunk
            }
        }
    }

    fn json_chunk(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let size = CHUNK.min(self.records.as_slice().iter().take(256).map(|record| record.json().len() + 8).sum());
        let mut chunk = Vec::with_capacity(size + self.head.len() + 64);
        chunk.extend_from_slice(&std::mem::take(&mut self.head));
        while let Some(record) = self.records.next() {
            if !std::mem::take(&mut self.first) {
                chunk.push(b',');
            }
            self.item(&record, &mut chunk);
            if chunk.len() >= CHUNK {
                return Some(chunk.into());
            }
        }
        self.done = true;
        chunk.extend_from_slice(&self.tail);
        Some(chunk.into())
    }

    fn yaml_chunk(&mut self, member: &'static str) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut chunk = std::mem::take(&mut self.head).to_vec();
        let heading = format!("{member}:\n");
        while let Some(record) = self.records.next() {
            let mut item = Vec::new();
            self.item(&record, &mut item);
            let wrapped = [format!("{{\"{member}\":[").as_bytes(), &item, b"]}"].concat();
            let yaml = Representation { media: Media::Yaml, ..Representation::JSON };
            let text = encode(wrapped.into(), yaml).unwrap_or_default();
            chunk.extend_from_slice(text.strip_prefix(heading.as_bytes()).unwrap_or(&text));
            if chunk.len() >= CHUNK {
                return Some(chunk.into());
            }
        }
        self.done = true;
        chunk.extend_from_slice(&self.tail);
        Some(chunk.into())
    }

    /// Appends an item, or the row of a Table, as JSON.
    fn item(&self, record: &Record, out: &mut Vec<u8>) {
        match self.view.representation.transform {
            Transform::None => self.view.item(record, out),
            Transform::Table(_) => out.extend_from_slice(self.view.row(record, None).to_string().as_bytes()),
            _ => out.extend_from_slice(&self.view.metadata(record, None)),
        }
    }
}

/// Returns the name of the member with the items, and the list without items as JSON, which ends with that member.
fn empty_list(view: &View, metadata: &Value) -> (&'static str, String) {
    if let Transform::Table(_) = view.representation.transform {
        return ("rows", view.table(Vec::new(), json!(metadata), true).to_string());
    }
    let (api_version, kind) = view.list_kind_in_form();
    let (kind, api_version) = (Value::from(kind), Value::from(api_version));
    ("items", format!("{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{metadata},\"items\":[]}}"))
}

impl FrameStream for ListStream {
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionCut>>> {
        Poll::Ready(self.next_chunk().map(Ok))
    }
}
