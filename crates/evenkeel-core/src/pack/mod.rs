//! Objects that rest packed: written as what they do not share with others of their kind.
//!
//! A [`Packer`] stands where objects go into a store that holds many of them. What it hands back is the same object: its
//! header is read without unpacking anything, and everything else of [`Obj`] unpacks what it needs and forgets it again.
//!
//! # How it is packed
//!
//! - **A dictionary** is learned from the objects as they come: whenever one has little in common with the dictionary, it is
//!   added to it, until the dictionary is large enough. What was packed with a shorter dictionary keeps that one.
//! - **Siblings**, such as the pods of one ReplicaSet, have nearly everything in common. The first of them is packed with the
//!   dictionary and leads: the others are packed with the leader as their base. So an object is unpacked in two steps at most.
//! - **Headers** of siblings share their labels, owners and finalizers.
//! - An object that does not get smaller rests as it came, in memory of its own.
//!
//! Everything an object needs to be unpacked is held by the object: a packer can be dropped at any time, and what the last
//! object needs goes with the object. The packer itself holds no object, only notes of who leads, which it tidies up.
//!
//! # What is checked
//!
//! A packed payload has a checksum over the bytes that it stands for. One that does not come back byte for byte is
//! [`DecodeError::Corrupt`](crate::DecodeError::Corrupt) with the key of the object, never another object.

mod delta;
mod index;
mod shared;

use std::sync::{Arc, Weak};

use rapidhash::v3::rapidhash_v3;

use self::delta::{Base, Writer};
use self::index::Index;
use self::shared::Pool;
use crate::codec::{Form, Payload};
use crate::header::{Common, Header};
use crate::obj::Obj;

/// A dictionary does not grow beyond this by adding an object to it.
const DICTIONARY: usize = 256 << 10;
/// Nor by adding more objects than this.
const SAMPLES: usize = 48;
/// An object that does not get this many times smaller is worth learning.
const WORTH_LEARNING: usize = 5;
/// The first few objects of a kind are not packed: where there are no more, there is nothing to gain.
const FIRST: usize = 4;
/// Objects smaller than this are not packed.
const SMALLEST: usize = 256;
/// Leaders are looked up every so many bytes; a dictionary, which is searched again and again, everywhere.
const SPARSE: usize = 8;

/// Packs the objects of one kind, one after the other.
///
/// ```
/// use std::sync::Arc;
/// use evenkeel_core::pack::Packer;
/// use evenkeel_core::{Obj, ResourceInfo};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let maps = Arc::new(ResourceInfo::of::<ConfigMap>());
/// let mut packer = Packer::default();
/// let text = "what many objects say in the same words, ".repeat(10);
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
    dictionary: Option<Learned>,
    leaders: Pool<Leader>,
    commons: Pool<Common>,
    /// The leader that was needed last, as it is when unpacked: siblings come in a row.
    recent: Option<Recent>,
    writer: Writer,
    context: Vec<u8>,
    out: Vec<u8>,
    stats: PackStats,
}

/// What a [`Packer`] has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackStats {
    /// How many objects it was given.
    pub objects: u64,
    /// How many of them rest packed.
    pub packed: u64,
    /// How many bytes their payloads had.
    pub bytes_in: u64,
    /// How many bytes they rest in.
    pub bytes_out: u64,
    /// How large the dictionary is.
    pub dictionary_bytes: usize,
}

/// What all objects of a kind are packed with.
pub(crate) struct Dictionary {
    bytes: Box<[u8]>,
}

/// A packed object whose siblings are packed with it as their base.
pub(crate) struct Leader {
    dictionary: Arc<Dictionary>,
    /// Of which kind of payload it is: siblings in another form have little in common.
    form: Form,
    /// How much of the bytes is its context, without which it cannot be unpacked; its object may be gone.
    context: usize,
    bytes: Box<[u8]>,
}

/// A packed payload.
#[derive(Clone)]
pub(crate) enum Packed {
    /// With the dictionary.
    Alone(Arc<Dictionary>, Arc<[u8]>),
    /// With the dictionary, and a base for others.
    Leader(Arc<Leader>),
    /// With a leader.
    Sibling(Arc<Leader>, Arc<[u8]>),
}

struct Learned {
    dictionary: Arc<Dictionary>,
    index: Index,
    samples: usize,
    /// What is to be learned next. Objects hold on to the dictionary that they were packed with, so it is not made anew for
    /// each of these, but when they are as much as it has: all dictionaries together are then no more than twice the last.
    pending: Vec<u8>,
}

struct Recent {
    leader: Weak<Leader>,
    bytes: Vec<u8>,
    index: Index,
}

impl Packer {
    /// The same object, packed if that makes it smaller, in memory of its own in any case.
    pub fn pack<K>(&mut self, object: Obj<K>) -> Obj<K> {
        object.repack(|header, payload| {
            header.share(&self.commons.shared(Arc::clone(header.common()), |common| common.hash()));
            let Some(plain) = payload.plain().cloned() else { return payload.clone() };
            let packed = self.payload(header, payload, &plain);
            self.stats.objects += 1;
            self.stats.bytes_in += plain.len() as u64;
            self.stats.bytes_out += packed.resting_bytes() as u64;
            packed
        })
    }

    /// What it has done so far.
    pub fn stats(&self) -> PackStats {
        let dictionary_bytes = self.dictionary.as_ref().map_or(0, |learned| learned.dictionary.bytes.len());
        PackStats { dictionary_bytes, ..self.stats }
    }

    fn payload(&mut self, header: &Header, payload: &Payload, plain: &[u8]) -> Payload {
        let form = payload.form();
        self.seen += 1;
        if plain.len() < SMALLEST || self.seen <= FIRST {
            return payload.detached();
        }
        self.context.clear();
        context(header).iter().for_each(|piece| self.context.extend_from_slice(piece));
        let family = family(header, form);
        let packed = self.as_sibling(family, form, plain).or_else(|| self.with_dictionary(family, form, plain));
        match packed {
            Some(packed) => {
                self.stats.packed += 1;
                Payload::packed(form, packed)
            }
            None => payload.detached(),
        }
    }

    /// Packs with the leader of the family, if there is one and it helps.
    fn as_sibling(&mut self, family: Option<u64>, form: Form, plain: &[u8]) -> Option<Packed> {
        let leader = self.leaders.get(family?).filter(|leader| leader.form == form)?;
        let is_recent = |recent: &Recent| std::ptr::eq(recent.leader.as_ptr(), Arc::as_ptr(&leader));
        if !self.recent.as_ref().is_some_and(is_recent) {
            let bytes = leader.unpack()?;
            let mut index = self.recent.take().map(|recent| recent.index).unwrap_or_default();
            index.reset(bytes.len() / SPARSE);
            index.add(&bytes, 0, SPARSE);
            self.recent = Some(Recent { leader: Arc::downgrade(&leader), bytes, index });
        }
        let Recent { bytes, index, .. } = self.recent.as_ref()?;
        self.out.clear();
        self.writer.write(Base { bytes, index }, &self.context, plain, &mut self.out);
        // A leader that has come to be unlike the rest gives way to another.
        (self.out.len() <= plain.len() / 4).then(|| Packed::Sibling(leader, self.out.as_slice().into()))
    }

    /// Packs with the dictionary, which learns from it. If it has a family, it leads it.
    fn with_dictionary(&mut self, family: Option<u64>, form: Form, plain: &[u8]) -> Option<Packed> {
        let learned = self.dictionary.get_or_insert_with(|| Learned::new(plain));
        self.out.clear();
        self.writer.write(learned.base(), &self.context, plain, &mut self.out);
        if self.out.len() > plain.len() / WORTH_LEARNING && learned.learn(plain) {
            self.out.clear();
            self.writer.write(learned.base(), &self.context, plain, &mut self.out);
        }
        if self.out.len() > plain.len() / 8 * 7 {
            return None;
        }
        let dictionary = Arc::clone(&learned.dictionary);
        let Some(family) = family else {
            return Some(Packed::Alone(dictionary, self.out.as_slice().into()));
        };
        let bytes = [self.context.as_slice(), &self.out].concat().into();
        let leader = Arc::new(Leader { dictionary, form, context: self.context.len(), bytes });
        self.leaders.put(family, &leader);
        Some(Packed::Leader(leader))
    }
}

impl Learned {
    fn new(plain: &[u8]) -> Self {
        let dictionary = Arc::new(Dictionary { bytes: [].into() });
        let mut learned = Learned { dictionary, index: Index::default(), samples: 0, pending: Vec::new() };
        learned.learn(plain);
        learned
    }

    /// Adds a text to the dictionary, if there is room for it. Answers with whether the dictionary has become another.
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
        self.index.add(&bytes, 0, 1);
        self.dictionary = Arc::new(Dictionary { bytes });
        true
    }

    fn base(&self) -> Base<'_> {
        Base { bytes: &self.dictionary.bytes, index: &self.index }
    }
}

impl Leader {
    fn unpack(&self) -> Option<Vec<u8>> {
        let (context, packed) = self.parts()?;
        delta::read(&self.dictionary.bytes, [context, &[]], packed)
    }

    /// Its context, and what is packed.
    fn parts(&self) -> Option<(&[u8], &[u8])> {
        self.bytes.split_at_checked(self.context)
    }
}

impl Packed {
    /// The payload as it came; `None` if it does not come back.
    pub(crate) fn unpack(&self, header: &Header) -> Option<Vec<u8>> {
        match self {
            Packed::Leader(leader) => leader.unpack(),
            Packed::Alone(dictionary, packed) => delta::read(&dictionary.bytes, context(header), packed),
            Packed::Sibling(leader, packed) => {
                let (theirs, leading) = leader.parts()?;
                let base = delta::read_unchecked(&leader.dictionary.bytes, [theirs, &[]], leading)?;
                delta::read(&base, context(header), packed)
            }
        }
    }

    /// How many bytes it rests in, without what it shares with others.
    pub(crate) fn resting_bytes(&self) -> usize {
        match self {
            Packed::Leader(leader) => leader.bytes.len(),
            Packed::Alone(_, packed) | Packed::Sibling(_, packed) => packed.len(),
        }
    }
}

/// What an object is known by stands in its header and need not be written again.
fn context(header: &Header) -> [&[u8]; 2] {
    [header.key().as_bytes(), header.own_texts().as_bytes()]
}

/// Whose siblings an object is one of: those with the same controller, or else, if it has labels, those with the same ones.
fn family(header: &Header, form: Form) -> Option<u64> {
    let same = match header.controller() {
        Some(controller) => rapidhash_v3(controller.uid.as_bytes()),
        None if header.labels().len() > 0 => header.common().hash(),
        None => return None,
    };
    Some(same ^ u64::from(form == Form::Json))
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
