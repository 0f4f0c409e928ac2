//! Delayed keys: a hierarchical timing wheel whose rings are linked through the entries.
//!
//! A key is in the ring of the highest base-64 digit in which its time differs from the time that the wheel has reached. When
//! the wheel reaches a ring of a higher digit, it spreads the keys over the rings of lower digits; a ring of the lowest digit is
//! one tick. A key needs no memory beside its entry, is moved a few times at most, and is returned at its exact time; keys of one
//! time are returned in insertion order.

use std::hash::Hash;

use super::keys::{Keys, NONE, Slot};
use super::time::Time;

const DIGIT_BITS: u32 = 6;
const DIGITS: usize = Time::BITS.div_ceil(DIGIT_BITS) as usize;
const RINGS: usize = 1 << DIGIT_BITS;

/// The largest ring that is searched for its first key.
const FEW: usize = 64;

pub(crate) struct TimingWheel {
    /// The tick that the wheel has reached: all times in it are not before.
    reached: u64,
    heads: Box<[[Slot; RINGS]; DIGITS]>,
    /// Rings that contain keys, as bits.
    occupied: [u64; DIGITS],
    /// The rest of a ring that is being spread.
    spreading: Slot,
    len: usize,
    /// A lower bound of the first due time.
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

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the due time of the first key, or a little before if there are very many about that time.
    #[inline]
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.not_before
    }

    /// Inserts a key that is due at `time`, which is after `now`.
    pub(crate) fn insert<K: Hash + Eq>(&mut self, keys: &mut Keys<K>, slot: Slot, time: Time, now: Time) {
        if self.len == 0 {
            self.reached = now.ticks();
        }
        let time = time.max(Time::from_ticks(self.reached));
        keys.entry_mut(slot).set_time(time);
        if self.spreading == NONE {
            self.put(keys, slot);
        } else {
            // Behind keys of the same time that are not spread yet.
            self.spreading = keys.link(self.spreading, slot);
        }
        self.len += 1;
        if self.not_before.is_none_or(|known| time < known) {
            self.not_before = Some(time);
        }
    }

    /// Removes a key before its time.
    pub(crate) fn remove<K: Hash + Eq>(&mut self, keys: &mut Keys<K>, slot: Slot) {
        let (digit, ring) = self.position(keys.entry(slot).time());
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

    /// Removes the next due key.
    ///
    /// Returns `None` if there is none, or if `effort`, which counts down, is used up; [`next_time`](Self::next_time) is then not
    /// after `now`.
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

    /// Returns the digit and ring of a time, unless its ring is being spread.
    ///
    /// The position is stable while the wheel advances: until the wheel reaches the ring, the highest digit in which it differs
    /// from the times in that ring is the same.
    fn position(&self, time: Time) -> (usize, usize) {
        let differs = (time.ticks() ^ self.reached) | 1;
        let digit = (u64::BITS - 1 - differs.leading_zeros()) / DIGIT_BITS;
        let ring = time.ticks() >> (digit * DIGIT_BITS) & (RINGS as u64 - 1);
        (digit as usize, ring as usize)
    }

    fn put<K: Hash + Eq>(&mut self, keys: &mut Keys<K>, slot: Slot) {
        let (digit, ring) = self.position(keys.entry(slot).time());
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

    /// Returns the first occupied ring and its first tick. All rings of a lower digit precede those of a higher one.
    fn first_ring(&self) -> Option<(usize, usize, u64)> {
        let digit = self.occupied.iter().position(|rings| *rings != 0)?;
        let ring = self.occupied[digit].trailing_zeros() as usize;
        let shift = digit as u32 * DIGIT_BITS;
        let above = self.reached >> shift >> DIGIT_BITS << DIGIT_BITS << shift;
        Some((digit, ring, above | (ring as u64) << shift))
    }

    /// Returns the due time of the first key of a ring, or the first tick of a ring that is too large to search.
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
