//! [`Header`]: what an informer needs to know of every object, read without reading the rest.

use std::borrow::Cow;
use std::fmt;

use crate::decode::DecodeError;
use crate::json::{JsonError, JsonFault, Scanner};
use crate::key::ObjectKey;
use crate::version::ResourceVersion;

/// The identity and the bookkeeping of an object: everything of its metadata that the machinery itself looks at.
///
/// A header is read straight from the JSON; the payload, annotations and managed fields are checked and skipped, never
/// built. It is made for hundreds of thousands: all texts of one header share one allocation, and the key needs none unless it is long.
///
/// ```
/// use evenkeel_core::Header;
///
/// let header = Header::from_json(
///     br#"{"kind": "Pod", "metadata": {"namespace": "ns", "name": "web-0", "labels": {"app": "web"}}, "spec": {}}"#,
/// )?;
/// assert_eq!(header.key().as_str(), "ns/web-0");
/// assert_eq!(header.label("app"), Some("web"));
/// # Ok::<(), evenkeel_core::DecodeError>(())
/// ```
// The order of the fields is that of the memory: looking up an object touches its reference count and its key.
#[derive(Clone)]
#[repr(C)]
pub struct Header {
    key: ObjectKey,
    /// Every other text, end to end; the spans point into it.
    texts: Box<str>,
    api_version: Span,
    kind: Span,
    uid: Span,
    resource_version: Span,
    creation_timestamp: Span,
    deletion_timestamp: Span,
    generation: Option<i64>,
    /// Sorted by key.
    labels: Box<[(Span, Span)]>,
    finalizers: Box<[Span]>,
    owners: Box<[Owner]>,
}

/// A piece of a header's text.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    /// `ABSENT` for a text that is not there.
    length: u32,
}

const ABSENT: u32 = u32::MAX;

impl Span {
    const NONE: Span = Span { start: 0, length: ABSENT };

    fn of(self, texts: &str) -> Option<&str> {
        if self.length == ABSENT {
            return None;
        }
        let start = self.start as usize;
        texts.get(start..start + self.length as usize)
    }
}

#[derive(Clone, Copy)]
struct Owner {
    api_version: Span,
    kind: Span,
    name: Span,
    uid: Span,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

/// One owner of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRef<'a> {
    /// The owner's API version.
    pub api_version: &'a str,
    /// The owner's kind.
    pub kind: &'a str,
    /// The owner's name; it lives in the same namespace, or in none.
    pub name: &'a str,
    /// The owner's uid.
    pub uid: &'a str,
    /// Whether this owner is the one that controls the object.
    pub controller: bool,
    /// Whether the owner must not go before the object has gone.
    pub block_owner_deletion: bool,
}

impl Header {
    /// The members of an object that a header is read from, beside its metadata.
    pub(crate) const MEMBERS: &[&str] = &["apiVersion", "kind"];

    /// The members of its metadata that a header is read from.
    pub(crate) const METADATA: &[&str] = &[
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "labels",
        "finalizers",
        "ownerReferences",
    ];

    /// Reads the header of an object from its JSON, and checks that all of it is JSON.
    ///
    /// An object that has metadata but no name yields a header with an empty name: on its way to be created it may have
    /// none yet.
    pub fn from_json(json: &[u8]) -> Result<Self, DecodeError> {
        let mut scanner = Scanner::new(json)?;
        let header = Self::scan(&mut scanner)?;
        scanner.end()?;
        Ok(header)
    }

    /// Reads the header of the object that the scanner stands before, and leaves it behind the object.
    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Result<Self, DecodeError> {
        let mut draft = Draft::default();
        let mut has_metadata = false;
        scanner.object(|scanner, member| match member {
            "apiVersion" => draft.text(scanner, |draft| &mut draft.api_version),
            "kind" => draft.text(scanner, |draft| &mut draft.kind),
            "metadata" if has_metadata => Err(scanner.fault(JsonFault::DuplicateMember)),
            "metadata" => {
                if scanner.null()? {
                    return Ok(());
                }
                has_metadata = true;
                draft.metadata(scanner)
            }
            _ => Ok(()),
        })?;
        let header = draft.finish();
        if has_metadata { Ok(header) } else { Err(DecodeError::NoMetadata { kind: header.kind().map(Into::into) }) }
    }

    /// The header, if it has a name.
    pub(crate) fn named(self) -> Result<Self, DecodeError> {
        if self.key.name().is_empty() {
            return Err(DecodeError::NoName { kind: self.kind().map(Into::into) });
        }
        Ok(self)
    }

    /// The API version, if the object states it; items of typed lists do not.
    pub fn api_version(&self) -> Option<&str> {
        self.api_version.of(&self.texts)
    }

    /// The kind, if the object states it; items of typed lists do not.
    pub fn kind(&self) -> Option<&str> {
        self.kind.of(&self.texts)
    }

    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The uid; empty if there is none yet.
    pub fn uid(&self) -> &str {
        self.uid.of(&self.texts).unwrap_or_default()
    }

    /// The resource version as text; empty if there is none yet.
    pub fn resource_version(&self) -> &str {
        self.resource_version.of(&self.texts).unwrap_or_default()
    }

    /// The resource version as something that can be compared and kept.
    pub fn version(&self) -> ResourceVersion {
        ResourceVersion::new(self.resource_version())
    }

    /// The generation of the desired state, for kinds that count it.
    pub fn generation(&self) -> Option<i64> {
        self.generation
    }

    /// When the object was made, as the server wrote it.
    pub fn creation_timestamp(&self) -> Option<&str> {
        self.creation_timestamp.of(&self.texts)
    }

    /// When the object was asked to go, as the server wrote it; `None` while it is to stay.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.deletion_timestamp.of(&self.texts)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let texts = &*self.texts;
        let found = self.labels.binary_search_by(|(name, _)| name.of(texts).unwrap_or_default().cmp(key)).ok()?;
        self.labels.get(found)?.1.of(texts)
    }

    /// All labels, sorted by key.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let text = |span: Span| span.of(&self.texts).unwrap_or_default();
        self.labels.iter().map(move |(key, value)| (text(*key), text(*value)))
    }

    /// The finalizers, in their order.
    pub fn finalizers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.finalizers.iter().map(|span| span.of(&self.texts).unwrap_or_default())
    }

    /// The owners, in their order.
    pub fn owner_references(&self) -> impl ExactSizeIterator<Item = OwnerRef<'_>> {
        let text = |span: Span| span.of(&self.texts).unwrap_or_default();
        self.owners.iter().map(move |owner| OwnerRef {
            api_version: text(owner.api_version),
            kind: text(owner.kind),
            name: text(owner.name),
            uid: text(owner.uid),
            controller: owner.controller.unwrap_or_default(),
            block_owner_deletion: owner.block_owner_deletion.unwrap_or_default(),
        })
    }

    /// The owner that controls the object.
    pub fn controller(&self) -> Option<OwnerRef<'_>> {
        self.owner_references().find(|owner| owner.controller)
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("kind", &self.kind())
            .field("key", &self.key)
            .field("uid", &self.uid())
            .field("resource_version", &self.resource_version())
            .finish_non_exhaustive()
    }
}

/// A header in the making.
struct Draft<'a> {
    texts: String,
    name: Option<Cow<'a, str>>,
    namespace: Option<Cow<'a, str>>,
    api_version: Span,
    kind: Span,
    uid: Span,
    resource_version: Span,
    creation_timestamp: Span,
    deletion_timestamp: Span,
    generation: Option<i64>,
    labels: Vec<(Span, Span)>,
    finalizers: Vec<Span>,
    owners: Vec<Owner>,
}

impl Default for Draft<'_> {
    fn default() -> Self {
        Draft {
            texts: String::with_capacity(256),
            name: None,
            namespace: None,
            api_version: Span::NONE,
            kind: Span::NONE,
            uid: Span::NONE,
            resource_version: Span::NONE,
            creation_timestamp: Span::NONE,
            deletion_timestamp: Span::NONE,
            generation: None,
            labels: Vec::new(),
            finalizers: Vec::new(),
            owners: Vec::new(),
        }
    }
}

impl<'a> Draft<'a> {
    fn finish(self) -> Header {
        let name = self.name.as_deref().unwrap_or_default();
        Header {
            key: ObjectKey::new(self.namespace.as_deref(), name),
            texts: self.texts.into_boxed_str(),
            api_version: self.api_version,
            kind: self.kind,
            uid: self.uid,
            resource_version: self.resource_version,
            creation_timestamp: self.creation_timestamp,
            deletion_timestamp: self.deletion_timestamp,
            generation: self.generation,
            labels: self.labels.into_boxed_slice(),
            finalizers: self.finalizers.into_boxed_slice(),
            owners: self.owners.into_boxed_slice(),
        }
    }

    fn keep(&mut self, text: &str) -> Span {
        // Texts come from one object, whose size decoders limit far below 4 GiB; what would not fit is as good as absent.
        let (Ok(start), Ok(length)) = (u32::try_from(self.texts.len()), u32::try_from(text.len())) else {
            return Span::NONE;
        };
        self.texts.push_str(text);
        Span { start, length }
    }

    /// Reads a string, or null for none, into a field that must not have been read before.
    fn text(&mut self, scanner: &mut Scanner<'a>, field: fn(&mut Self) -> &mut Span) -> Result<(), JsonError> {
        if field(self).length != ABSENT {
            return Err(scanner.fault(JsonFault::DuplicateMember));
        }
        *field(self) = self.text_or_null(scanner)?;
        Ok(())
    }

    fn text_or_null(&mut self, scanner: &mut Scanner<'a>) -> Result<Span, JsonError> {
        if scanner.null()? {
            return Ok(Span::NONE);
        }
        let text = scanner.string()?;
        Ok(self.keep(&text))
    }

    fn metadata(&mut self, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
        scanner.object(|scanner, member| match member {
            "name" => once(scanner, &mut self.name),
            "namespace" => once(scanner, &mut self.namespace),
            "uid" => self.text(scanner, |draft| &mut draft.uid),
            "resourceVersion" => self.text(scanner, |draft| &mut draft.resource_version),
            "creationTimestamp" => self.text(scanner, |draft| &mut draft.creation_timestamp),
            "deletionTimestamp" => self.text(scanner, |draft| &mut draft.deletion_timestamp),
            "generation" => {
                if !scanner.null()? {
                    self.generation = Some(scanner.integer()?);
                }
                Ok(())
            }
            "labels" => self.labels(scanner),
            "finalizers" => self.finalizers(scanner),
            "ownerReferences" => self.owners(scanner),
            _ => Ok(()),
        })
    }

    fn labels(&mut self, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
        if scanner.null()? {
            return Ok(());
        }
        let mut labels = std::mem::take(&mut self.labels);
        scanner.object(|scanner, key| {
            let key = self.keep(key);
            // Go reads null as the empty string here, and servers written in it let it pass.
            let value = if scanner.null()? { Cow::Borrowed("") } else { scanner.string()? };
            let value = self.keep(&value);
            labels.push((key, value));
            Ok(())
        })?;
        let texts = self.texts.as_str();
        labels.sort_by(|(a, _), (b, _)| a.of(texts).cmp(&b.of(texts)));
        if labels.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a.of(texts) == b.of(texts))) {
            return Err(scanner.fault(JsonFault::DuplicateMember));
        }
        self.labels = labels;
        Ok(())
    }

    fn finalizers(&mut self, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
        if scanner.null()? {
            return Ok(());
        }
        let mut finalizers = std::mem::take(&mut self.finalizers);
        scanner.array(|scanner| {
            let text = scanner.string()?;
            finalizers.push(self.keep(&text));
            Ok(())
        })?;
        self.finalizers = finalizers;
        Ok(())
    }

    fn owners(&mut self, scanner: &mut Scanner<'a>) -> Result<(), JsonError> {
        if scanner.null()? {
            return Ok(());
        }
        let mut owners = std::mem::take(&mut self.owners);
        scanner.array(|scanner| {
            let mut owner = Owner {
                api_version: Span::NONE,
                kind: Span::NONE,
                name: Span::NONE,
                uid: Span::NONE,
                controller: None,
                block_owner_deletion: None,
            };
            scanner.object(|scanner, member| {
                let bool_or_null = |scanner: &mut Scanner<'a>| {
                    if scanner.null()? { Ok(None) } else { scanner.bool().map(Some) }
                };
                match member {
                    "apiVersion" => owner.api_version = self.text_or_null(scanner)?,
                    "kind" => owner.kind = self.text_or_null(scanner)?,
                    "name" => owner.name = self.text_or_null(scanner)?,
                    "uid" => owner.uid = self.text_or_null(scanner)?,
                    "controller" => owner.controller = bool_or_null(scanner)?,
                    "blockOwnerDeletion" => owner.block_owner_deletion = bool_or_null(scanner)?,
                    _ => {}
                }
                Ok(())
            })?;
            owners.push(owner);
            Ok(())
        })?;
        self.owners = owners;
        Ok(())
    }
}

fn once<'a>(scanner: &mut Scanner<'a>, field: &mut Option<Cow<'a, str>>) -> Result<(), JsonError> {
    if field.is_some() {
        return Err(scanner.fault(JsonFault::DuplicateMember));
    }
    if !scanner.null()? {
        *field = Some(scanner.string()?);
    }
    Ok(())
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
