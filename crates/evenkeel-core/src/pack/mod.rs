//! Delta encoding of cached objects against similar objects of their kind.
//!
//! A store of many objects passes each through a [`Packer`]. The result is the same object: its header stays decoded, and the
//! other methods of [`Obj`] unpack the payload for the duration of the call.
//!
//! # Encoding
//!
//! - **Dictionary**: the packer learns a dictionary from the objects. It adds an object that has little in common with the
//!   dictionary, up to a size limit. Objects that were packed with a shorter dictionary keep that one.
//! - **Siblings**, such as the pods of one ReplicaSet, have nearly everything in common. The first one, the leader, is packed with
//!   the dictionary; the others are packed with the leader as their base. Unpacking takes two steps at most.
//! - **Headers** of siblings share their labels, owners and finalizers.
//! - An object that does not get smaller keeps its plain bytes, in memory of its own.
//!
//! Each object holds references to all it needs for unpacking. A packer can be dropped at any time, and a dictionary is freed with
//! the last object that uses it. The packer itself holds weak references only.
//!
//! # Guarantees
//!
//! A packed payload has a checksum of the original bytes. A mismatch is [`DecodeError::Corrupt`](crate::DecodeError::Corrupt) with
//! the key of the object, never the contents of another object.

mod delta_encoding;
mod interner;
mod word_index;

use std::sync::{Arc, OnceLock, Weak};

use rapidhash::v3::rapidhash_v3;

use self::delta_encoding::{BaseIndex, DeltaBase, DeltaWriter, MAX_EXPANSION};
use self::interner::WeakInterner;
use self::word_index::WordIndex;
use crate::header::{Header, SharedHeader};
use crate::obj::Obj;
use crate::obj::{Payload, PayloadFormat};

/// The size limit of a dictionary.
const DICTIONARY: usize = 256 << 10;
/// The limit on the number of objects in a dictionary.
const SAMPLES: usize = 48;
/// An object that compresses less than this many times is added to the dictionary.
const WORTH_LEARNING: usize = 5;
/// The first objects of a kind are not packed: a small store gains nothing.
const FIRST: usize = 4;
/// Objects smaller than this are not packed.
const SMALLEST: usize = 256;

/// Packs the objects of one kind.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_core::pack::Packer;
/// use evenkeel_core::{Obj, ResourceInfo};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let maps = Arc::new(ResourceInfo::of::<ConfigMap>());
/// let mut packer = Packer::default();
/// let text = "what many objects have in common, ".repeat(14);
/// let packed: Vec<Obj<ConfigMap>> = (0..100)
///     .map(|number| {
///         let json = format!(r#"{{"metadata":{{"name":"m{number}"}},"data":{{"text":"{text}","number":"{number}"}}}}"#);
///         Ok(packer.pack(Obj::from_json(&maps, json)?))
///     })
///     .collect::<Result<_, evenkeel_core::DecodeError>>()?;
/// assert_eq!(packed[70].path("data.number")?.unwrap().text(), "70");
/// assert!(packed[70].payload_bytes() < 100 && packed[70].raw()?.len() > 400);
/// # Ok::<(), evenkeel_core::DecodeError>(())
/// ```
#[derive(Default)]
pub struct Packer {
    seen: usize,
    dictionary: Option<LearnedDictionary>,
    leaders: WeakInterner<FamilyLeader>,
    shared_headers: WeakInterner<SharedHeader>,
    /// The last leader, unpacked: siblings arrive in a row.
    recent: Option<RecentLeader>,
    writer: DeltaWriter,
    context: Vec<u8>,
    out: Vec<u8>,
    stats: PackStats,
}

/// Counters of a [`Packer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackStats {
    /// The number of objects passed to the packer.
    pub objects: u64,
    /// The number of objects that were packed.
    pub packed: u64,
    /// The size of the payloads before packing.
    pub bytes_in: u64,
    /// The size of the payloads after packing.
    pub bytes_out: u64,
    /// The size of the dictionary.
    pub dictionary_bytes: usize,
}

/// The base of all objects of a kind.
pub(crate) struct Dictionary {
    bytes: Box<[u8]>,
}

/// A packed object that is the base of its siblings.
pub(crate) struct FamilyLeader {
    dictionary: Arc<Dictionary>,
    /// The format of the payload: siblings in another format have little in common.
    format: PayloadFormat,
    /// The length of the context at the start of the bytes. It is needed for unpacking, and the object may be dropped.
    context: usize,
    bytes: Box<[u8]>,
}

/// A packed payload.
#[derive(Clone)]
pub(crate) enum Packed {
    /// Encoded against the dictionary.
    Alone(Arc<Dictionary>, Box<[u8]>),
    /// Encoded against the dictionary, and the base of siblings.
    Leader(Arc<FamilyLeader>),
    /// Encoded against a leader.
    Sibling(Arc<FamilyLeader>, Box<[u8]>),
}

struct LearnedDictionary {
    dictionary: Arc<Dictionary>,
    index: WordIndex,
    samples: usize,
    /// Additions to the dictionary. Objects keep the dictionary they were packed with, so a new dictionary is built only when the
    /// additions are as large as the old one: all dictionaries together are at most twice the size of the last.
    pending: Vec<u8>,
}

struct RecentLeader {
    leader: Weak<FamilyLeader>,
    bytes: Vec<u8>,
    index: OnceLock<WordIndex>,
}

impl Packer {
    /// Returns the same object, packed if that makes it smaller, and in memory of its own in any case.
    pub fn pack<K>(&mut self, object: Obj<K>) -> Obj<K> {
        object.repack(|header, payload| {
            header.share(&self.shared_headers.intern(Arc::clone(header.shared()), |shared| shared.hash()));
            let Some(plain) = payload.plain().cloned() else { return payload.clone() };
            let packed = self.payload(header, payload, &plain);
            self.stats.objects += 1;
            self.stats.bytes_in += plain.len() as u64;
            self.stats.bytes_out += packed.encoded_len() as u64;
            packed
        })
    }

    /// Returns the counters.
    pub fn stats(&self) -> PackStats {
        let dictionary_bytes = self.dictionary.as_ref().map_or(0, |learned| learned.dictionary.bytes.len());
        PackStats { dictionary_bytes, ..self.stats }
    }

    fn payload(&mut self, header: &Header, payload: &Payload, plain: &[u8]) -> Payload {
        let format = payload.format();
        self.seen += 1;
        if plain.len() < SMALLEST || self.seen <= FIRST {
            return payload.detached();
        }
        self.context.clear();
        context(header).iter().for_each(|piece| self.context.extend_from_slice(piece));
        let family = family(header, format);
        let packed = self.as_sibling(family, format, plain).or_else(|| self.with_dictionary(family, format, plain));
        match packed {
            Some(packed) => {
                self.stats.packed += 1;
                Payload::packed(format, packed)
            }
            None => payload.detached(),
        }
    }

    /// Packs with the leader of the family, if there is one and the result is small.
    fn as_sibling(&mut self, family: Option<u64>, format: PayloadFormat, plain: &[u8]) -> Option<Packed> {
        let leader = self.leaders.get(family?).filter(|leader| leader.format == format)?;
        let is_recent = |recent: &RecentLeader| std::ptr::eq(recent.leader.as_ptr(), Arc::as_ptr(&leader));
        if !self.recent.as_ref().is_some_and(is_recent) {
            // The checksum is that of the sibling: a damaged leader unpacks the same way the next time, or the sibling is damaged.
            let buffer = self.recent.take().map(|recent| recent.bytes).unwrap_or_default();
            let bytes = leader.unpack_unchecked(buffer)?;
            self.recent = Some(RecentLeader { leader: Arc::downgrade(&leader), bytes, index: OnceLock::new() });
        }
        let RecentLeader { bytes, index, .. } = self.recent.as_ref()?;
        self.out.clear();
        let base = DeltaBase { bytes, index: BaseIndex::Sparse(index) };
        self.writer.write(base, &self.context, plain, &mut self.out);
        // A leader that has little in common with the object is replaced by another.
        (self.out.len() <= plain.len() / 4 && is_readable(plain, &self.out))
            .then(|| Packed::Sibling(leader, self.out.as_slice().into()))
    }

    /// Packs with the dictionary, and adds the object to it if worthwhile. An object with a family becomes its leader.
    fn with_dictionary(&mut self, family: Option<u64>, format: PayloadFormat, plain: &[u8]) -> Option<Packed> {
        let learned = self.dictionary.get_or_insert_with(|| LearnedDictionary::new(plain));
        self.out.clear();
        self.writer.write(learned.base(), &self.context, plain, &mut self.out);
        if self.out.len() > plain.len() / WORTH_LEARNING && learned.learn(plain) {
            self.out.clear();
            self.writer.write(learned.base(), &self.context, plain, &mut self.out);
        }
        if self.out.len() > plain.len() / 8 * 7 || !is_readable(plain, &self.out) {
            return None;
        }
        let dictionary = Arc::clone(&learned.dictionary);
        let Some(family) = family else {
            return Some(Packed::Alone(dictionary, self.out.as_slice().into()));
        };
        let bytes = [self.context.as_slice(), &self.out].concat().into();
        let leader = Arc::new(FamilyLeader { dictionary, format, context: self.context.len(), bytes });
        self.leaders.put(family, &leader);
        Some(Packed::Leader(leader))
    }
}

impl LearnedDictionary {
    fn new(plain: &[u8]) -> Self {
        let dictionary = Arc::new(Dictionary { bytes: [].into() });
        let mut learned =
            LearnedDictionary { dictionary, index: WordIndex::default(), samples: 0, pending: Vec::new() };
        learned.learn(plain);
        learned
    }

    /// Adds a text to the dictionary, unless it is full. Returns whether the dictionary was rebuilt.
    fn learn(&mut self, plain: &[u8]) -> bool {
        let known = &self.dictionary.bytes;
        if self.samples == SAMPLES || known.len() + self.pending.len() + plain.len() > DICTIONARY {
            return false;
        }
        self.samples += 1;
        self.pending.extend_from_slice(plain);
        if self.pending.len() < known.len() {
            return false;
        }
        let bytes: Box<[u8]> = [known, self.pending.as_slice()].concat().into();
        self.pending = Vec::new();
        self.index.reset(bytes.len());
        self.index.add(&bytes, 0..bytes.len(), 1);
        self.dictionary = Arc::new(Dictionary { bytes });
        true
    }

    fn base(&self) -> DeltaBase<'_> {
        DeltaBase { bytes: &self.dictionary.bytes, index: BaseIndex::Dense(&self.index) }
    }
}

impl FamilyLeader {
    fn unpack(&self) -> Option<Vec<u8>> {
        let (context, packed) = self.parts()?;
        delta_encoding::read(&self.dictionary.bytes, [context, &[]], packed)
    }

    /// Unpacks into a buffer, without a look at the checksum.
    fn unpack_unchecked(&self, buffer: Vec<u8>) -> Option<Vec<u8>> {
        let (context, packed) = self.parts()?;
        delta_encoding::read_unchecked(&self.dictionary.bytes, [context, &[]], packed, buffer)
    }

    /// Returns the context and the packed bytes.
    fn parts(&self) -> Option<(&[u8], &[u8])> {
        self.bytes.split_at_checked(self.context)
    }
}

impl Packed {
    /// Returns the payload as received, or `None` if its memory is damaged.
    pub(crate) fn unpack(&self, header: &Header) -> Option<Vec<u8>> {
        match self {
            Packed::Leader(leader) => leader.unpack(),
            Packed::Alone(dictionary, packed) => delta_encoding::read(&dictionary.bytes, context(header), packed),
            Packed::Sibling(leader, packed) => {
                let base = leader.unpack_unchecked(Vec::new())?;
                delta_encoding::read(&base, context(header), packed)
            }
        }
    }

    /// Returns the size in memory, without what is shared with other objects.
    pub(crate) fn encoded_len(&self) -> usize {
        match self {
            Packed::Leader(leader) => leader.bytes.len(),
            Packed::Alone(_, packed) | Packed::Sibling(_, packed) => packed.len(),
        }
    }
}

/// Returns whether the encoding of a text is within the limit of the decoder.
fn is_readable(plain: &[u8], encoded: &[u8]) -> bool {
    plain.len() <= MAX_EXPANSION * encoded.len()
}

/// Returns the identity of an object, which the header contains and the payload need not repeat.
fn context(header: &Header) -> [&[u8]; 2] {
    [header.key().as_bytes(), header.own_texts().as_bytes()]
}

/// Returns the family of an object: objects with the same controller, or else with the same labels.
fn family(header: &Header, format: PayloadFormat) -> Option<u64> {
    let same = match header.controller() {
        Some(controller) => rapidhash_v3(controller.uid.as_bytes()),
        None if header.labels().len() > 0 => header.shared().hash(),
        None => return None,
    };
    Some(same ^ u64::from(format == PayloadFormat::Json))
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
