//! Keys that wait for their time: a hierarchical timing wheel, whose rings run through the entries themselves.
//!
//! A key is put into the ring of the highest digit, to the base of 64, in which its time differs from the time that the wheel
//! has reached. When the wheel comes to a ring of a higher digit, the keys in it are spread over the rings of the lower
//! ones; a ring of the lowest digit is one moment. So a key costs no memory beside its entry, is moved a few times at most,
//! and comes out at its exact time; keys of the same time come out in the order in which they were put in.

use std::hash::Hash;

use super::keys::{Keys, NONE, Slot};
use super::time::Time;

const DIGIT_BITS: u32 = 6;
const DIGITS: usize = Time::BITS.div_ceil(DIGIT_BITS) as usize;
const RINGS: usize = 1 << DIGIT_BITS;

/// A ring with more keys than this is not searched for the first of them.
const FEW: usize = 64;

pub(crate) struct TimingWheel {
    /// What has been reached: all times in the wheel are at or after it.
    reached: u64,
    heads: Box<[[Slot; RINGS]; DIGITS]>,
    /// Which rings have keys in them.
    occupied: [u64; DIGITS],
    /// What is left of a ring whose keys are being spread.
    spreading: Slot,
    len: usize,
    /// No key is due before that.
    not_before: Option<Time>,
}

impl TimingWheel {
    pub(crate) fn new() -> Self {
        TimingWheel {
            reached: 0,
            heads: Box::new([[NONE; RINGS]; DIGITS]),
            occupied: [0; DIGITS],
            spreading: NONE,
            len: 0,
            not_before: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// When to look again: the time of the first key or, if there are very many about that time, a little before.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.not_before
    }

    /// Puts in a key until `time`, which is after `now`.
    pub(crate) fn insert<K: Hash + Eq>(&mut self, keys: &mut Keys<K>, slot: Slot, time: Time, now: Time) {
        if self.len == 0 {
            self.reached = now.ticks();
        }
        let time = time.max(Time::from_ticks(self.reached));
        keys.entry_mut(slot).set_time(time);
        if self.spreading == NONE {
            self.put(keys, slot);
        } else {
            // Behind keys of the same time that have yet to be put where they belong.
            self.spreading = keys.link(self.spreading, slot);
        }
        self.len += 1;
        if self.not_before.is_none_or(|known| time < known) {
            self.not_before = Some(time);
        }
    }

    /// Takes out a key before its time.
    pub(crate) fn remove<K: Hash + Eq>(&mut self, keys: &mut Keys<K>, slot: Slot) {
        let (digit, ring) = self.place(keys.entry(slot).time());
        if self.spreading == slot {
            self.spreading = keys.unlink(slot, slot);
        } else if self.heads[digit][ring] == slot {
            self.take_head(keys, digit, ring);
        } else {
            keys.unlink(NONE, slot);
        }
        self.len -= 1;
        if self.len == 0 {
            self.not_before = None;
        }
    }

    /// Takes out the next key that is due.
    ///
    /// None if there is none, or if `effort`, which counts down, is used up; then [`next_time`](Self::next_time) is not after
    /// `now`.
    pub(crate) fn pop_due<K: Hash + Eq>(&mut self, keys: &mut Keys<K>, now: Time, effort: &mut usize) -> Option<Slot> {
        if self.not_before.is_none_or(|time| time > now) {
            return None;
        }
        while *effort > 0 {
            *effort -= 1;
            if self.spreading != NONE {
                let slot = self.spreading;
                self.spreading = keys.unlink(slot, slot);
                self.put(keys, slot);
                continue;
            }
            let Some((digit, ring, begin)) = self.first_ring() else {
                self.not_before = None;
                return None;
            };
            if begin > now.ticks() {
                self.not_before = Some(self.first_time(keys, digit, ring, begin));
                return None;
            }
            self.reached = begin;
            if digit == 0 {
                self.len -= 1;
                if self.len == 0 {
                    self.not_before = None;
                }
                return Some(self.take_head(keys, digit, ring));
            }
            self.spreading = std::mem::replace(&mut self.heads[digit][ring], NONE);
            self.occupied[digit] &= !(1 << ring);
        }
        None
    }

    /// Where a key of that time is, unless its ring is being spread.
    ///
    /// This does not change when the wheel moves on: as long as it has not come to a ring, the highest digit in which it
    /// differs from the times in that ring is the same.
    fn place(&self, time: Time) -> (usize, usize) {
        let differs = (time.ticks() ^ self.reached) | 1;
        let digit = (u64::BITS - 1 - differs.leading_zeros()) / DIGIT_BITS;
        let ring = time.ticks() >> (digit * DIGIT_BITS) & (RINGS as u64 - 1);
        (digit as usize, ring as usize)
    }

    fn put<K: Hash + Eq>(&mut self, keys: &mut Keys<K>, slot: Slot) {
        let (digit, ring) = self.place(keys.entry(slot).time());
        self.heads[digit][ring] = keys.link(self.heads[digit][ring], slot);
        self.occupied[digit] |= 1 << ring;
    }

    fn take_head<K: Hash + Eq>(&mut self, keys: &mut Keys<K>, digit: usize, ring: usize) -> Slot {
        let slot = self.heads[digit][ring];
        self.heads[digit][ring] = keys.unlink(slot, slot);
        if self.heads[digit][ring] == NONE {
            self.occupied[digit] &= !(1 << ring);
        }
        slot
    }

    /// The ring of the earliest keys, and when its time begins. All of a lower digit is before all of a higher one.
    fn first_ring(&self) -> Option<(usize, usize, u64)> {
        let digit = self.occupied.iter().position(|rings| *rings != 0)?;
        let ring = self.occupied[digit].trailing_zeros() as usize;
        let shift = digit as u32 * DIGIT_BITS;
        let above = self.reached >> shift >> DIGIT_BITS << DIGIT_BITS << shift;
        Some((digit, ring, above | (ring as u64) << shift))
    }

    /// The time of the first key of a ring, or when its time begins if there are too many to look at each.
    fn first_time<K: Hash + Eq>(&self, keys: &Keys<K>, digit: usize, ring: usize, begin: u64) -> Time {
        let head = self.heads[digit][ring];
        let mut first = keys.entry(head).time();
        let mut slot = head;
        for _ in 0..FEW {
            match keys.entry(slot).next() {
                Some(next) if next != head => slot = next,
                _ => return first,
            }
            first = first.min(keys.entry(slot).time());
        }
        Time::from_ticks(begin)
    }
}

#[cfg(test)]
mod tests;
