//! The order in which keys that are ready are handed out.
//!
//! Keys of a higher priority go first, keys of one priority in the order in which they came; with fairness, the tenants of one
//! priority take turns. While keys of a lower priority are passed over, every so many-th hand-out goes to the one of them that
//! has waited longest, so that each gets its turn however much comes in above it.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use super::keys::Slot;
use super::time::Time;

/// A key's place in the order of a [`Storage`](crate::Storage).
///
/// It comes from the queue with a key and goes back to the queue when that key is next.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(crate) slot: Slot,
    /// Tells this place from those that the key has had before: a ticket is void if its key has another stamp by now.
    pub(crate) stamp: u32,
    /// When the key became dirty.
    pub(crate) since: Time,
}

/// What may be chosen about the order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// One of so many hand-outs goes to those that are passed over.
    pub(crate) share: Option<NonZeroU32>,
    /// A key gains a point of priority whenever it has waited that long.
    pub(crate) ageing: Option<Duration>,
    pub(crate) fair: bool,
}

pub(crate) struct Ready {
    rules: Rules,
    /// The highest first. There is always one.
    bands: Vec<Band>,
    /// By slot, as far as there are any that differ from the default.
    places: Vec<Place>,
    len: usize,
    /// Hand-outs since the last one that went to the passed over.
    passed: u32,
}

struct Band {
    priority: i32,
    lane: Lane,
    len: usize,
}

/// What is remembered of a key.
#[derive(Clone, Copy, Default)]
struct Place {
    /// How often the key of this slot was moved.
    stamp: u32,
    priority: i32,
}

/// More bands than this are not kept if they are empty.
const SPARE_BANDS: usize = 8;

/// Places for so many slots are kept even if there are no keys.
const FEW_PLACES: usize = 4096;

impl Ready {
    pub(crate) fn new(rules: Rules) -> Self {
        Ready { rules, bands: vec![Band::new(0, rules.fair)], places: Vec::new(), len: 0, passed: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many there are of each priority, the highest first.
    pub(crate) fn by_priority(&self) -> impl Iterator<Item = (i32, usize)> {
        self.bands.iter().filter(|band| band.len > 0).map(|band| (band.priority, band.len))
    }

    /// Since when the key has been dirty that has been so for longest, as far as the fronts of the lines tell.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.bands.iter().filter_map(|band| Some(band.lane.front()?.since)).min()
    }

    /// Whether the order depends on what time it is.
    pub(crate) fn needs_time(&self) -> bool {
        self.bands.len() > 1 || self.rules.ageing.is_some()
    }

    pub(crate) fn push(&mut self, slot: Slot, priority: i32, tenant: u64, since: Time) {
        self.reserve(slot, priority, true);
        let stamp = self.places.get(slot as usize).map_or(0, |place| place.stamp);
        let band = self.band(priority);
        band.len += 1;
        band.lane.push(Ticket { slot, stamp, since }, tenant);
        self.len += 1;
    }

    /// Moves a key that is here to the end of a higher priority. False if that is not higher than the one it has.
    pub(crate) fn raise(&mut self, slot: Slot, priority: i32, tenant: u64, since: Time) -> bool {
        let had = self.reserved(slot);
        if had >= priority {
            return false;
        }
        let place = self.place(slot);
        place.stamp = place.stamp.wrapping_add(1);
        self.push(slot, priority, tenant, since);
        self.len -= 1;
        if let Ok(at) = self.position(had) {
            let band = &mut self.bands[at];
            band.len -= 1;
            band.lane.left(tenant, band.len, &self.places);
        }
        true
    }

    pub(crate) fn pop(&mut self, now: Time) -> Option<(Ticket, i32)> {
        if self.len == 0 {
            return None;
        }
        let at = if self.bands.len() == 1 { 0 } else { self.choose(now)? };
        let band = &mut self.bands[at];
        let ticket = band.lane.pop(&self.places)?;
        let priority = band.priority;
        band.len -= 1;
        self.len -= 1;
        Some((ticket, priority))
    }

    /// Remembers what priority a key is to have: the highest of those it was given.
    pub(crate) fn reserve(&mut self, slot: Slot, priority: i32, is_first: bool) {
        // Most keys have the default priority, and nothing is remembered of them.
        if priority == 0 && self.places.len() <= slot as usize {
            return;
        }
        let place = self.place(slot);
        place.priority = if is_first { priority } else { place.priority.max(priority) };
    }

    /// The priority that is remembered.
    pub(crate) fn reserved(&self, slot: Slot) -> i32 {
        self.places.get(slot as usize).map_or(0, |place| place.priority)
    }

    /// Gives back what was needed for slots, when there are no keys. Then there are no tickets either, not even void ones.
    pub(crate) fn trim(&mut self) {
        if self.places.capacity() > FEW_PLACES {
            self.places = Vec::new();
        }
    }

    fn place(&mut self, slot: Slot) -> &mut Place {
        let slot = slot as usize;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, Place::default());
        }
        &mut self.places[slot]
    }

    /// Which band is next.
    fn choose(&mut self, now: Time) -> Option<usize> {
        let first = self.best(now)?;
        // If each hand-out goes to the one that has waited longest, that may also be one of the highest priority.
        let all_are_equal = self.rules.share.is_some_and(|share| share.get() == 1);
        let oldest_below = (self.bands.iter().enumerate())
            .filter(|(at, _)| *at != first || all_are_equal)
            .filter_map(|(at, band)| Some((band.lane.front()?.since, at)))
            .min();
        let (Some((_, below)), Some(share)) = (oldest_below, self.rules.share) else {
            self.passed = 0;
            return Some(first);
        };
        self.passed += 1;
        if self.passed < share.get() {
            return Some(first);
        }
        self.passed = 0;
        Some(below)
    }

    /// The band of the highest priority, with what its first key has gained by waiting.
    fn best(&self, now: Time) -> Option<usize> {
        let Some(ageing) = self.rules.ageing else { return self.bands.iter().position(|band| band.len > 0) };
        let step = ageing.as_nanos().max(1);
        let aged = |band: &Band| {
            let waited = now.since(band.lane.front()?.since).as_nanos();
            Some(i128::from(band.priority) + (waited / step) as i128)
        };
        // The first of equals is the one that has waited less and matters more.
        let mut best = None;
        for (at, band) in self.bands.iter().enumerate() {
            if let Some(priority) = aged(band)
                && best.is_none_or(|(_, highest)| priority > highest)
            {
                best = Some((at, priority));
            }
        }
        best.map(|(at, _)| at)
    }

    fn position(&self, priority: i32) -> Result<usize, usize> {
        self.bands.binary_search_by(|band| priority.cmp(&band.priority))
    }

    fn band(&mut self, priority: i32) -> &mut Band {
        let at = match self.position(priority) {
            Ok(at) => at,
            Err(_) => {
                if self.bands.len() > SPARE_BANDS {
                    self.bands.retain(|band| band.len > 0);
                }
                let at = self.position(priority).unwrap_or_else(|at| at);
                self.bands.insert(at, Band::new(priority, self.rules.fair));
                at
            }
        };
        &mut self.bands[at]
    }
}

impl Band {
    fn new(priority: i32, fair: bool) -> Self {
        let lane = if fair { Lane::Fair(Turns::default()) } else { Lane::Plain(Line::default()) };
        Band { priority, lane, len: 0 }
    }
}

/// The keys of one priority.
enum Lane {
    Plain(Line),
    Fair(Turns),
}

impl Lane {
    fn push(&mut self, ticket: Ticket, tenant: u64) {
        match self {
            Lane::Plain(line) => line.tickets.push_back(ticket),
            Lane::Fair(turns) => turns.push(ticket, tenant),
        }
    }

    fn front(&self) -> Option<&Ticket> {
        match self {
            Lane::Plain(line) => line.tickets.front(),
            Lane::Fair(turns) => turns.lines.get(turns.order.front()?)?.tickets.front(),
        }
    }

    fn pop(&mut self, places: &[Place]) -> Option<Ticket> {
        match self {
            Lane::Plain(line) => line.pop(places),
            Lane::Fair(turns) => turns.pop(places),
        }
    }

    /// A key has left for another lane, and `live` are still here.
    fn left(&mut self, tenant: u64, live: usize, places: &[Place]) {
        match self {
            Lane::Plain(line) => line.left(live, places),
            Lane::Fair(turns) => turns.left(tenant, live, places),
        }
    }
}

/// So many void tickets are not worth a search for them.
const FEW_VOID: usize = 64;

fn is_live(ticket: &Ticket, places: &[Place]) -> bool {
    places.get(ticket.slot as usize).map_or(0, |place| place.stamp) == ticket.stamp
}

/// First come, first served. The ticket at the front is always live.
#[derive(Default)]
struct Line {
    tickets: VecDeque<Ticket>,
}

impl Line {
    fn pop(&mut self, places: &[Place]) -> Option<Ticket> {
        let ticket = self.tickets.pop_front();
        self.clear_front(places);
        if self.tickets.capacity() > 1024 && self.tickets.len() < self.tickets.capacity() / 8 {
            self.tickets.shrink_to(self.tickets.len() * 2);
        }
        ticket
    }

    /// One of the tickets has become void. It stays, unless it is in front or more of them are void than not.
    fn left(&mut self, live: usize, places: &[Place]) {
        if self.tickets.len() > 2 * live + FEW_VOID {
            self.tickets.retain(|ticket| is_live(ticket, places));
        }
        self.clear_front(places);
    }

    fn clear_front(&mut self, places: &[Place]) {
        while self.tickets.front().is_some_and(|ticket| !is_live(ticket, places)) {
            self.tickets.pop_front();
        }
    }
}

/// One line for each tenant, none of them empty, and one key of each in turn.
#[derive(Default)]
struct Turns {
    lines: HashMap<u64, Line>,
    /// The next one first.
    order: VecDeque<u64>,
    tickets: usize,
}

impl Turns {
    fn push(&mut self, ticket: Ticket, tenant: u64) {
        let line = self.lines.entry(tenant).or_default();
        if line.tickets.is_empty() {
            self.order.push_back(tenant);
        }
        line.tickets.push_back(ticket);
        self.tickets += 1;
    }

    fn pop(&mut self, places: &[Place]) -> Option<Ticket> {
        let tenant = self.order.pop_front()?;
        let line = self.lines.get_mut(&tenant)?;
        let before = line.tickets.len();
        let ticket = line.pop(places);
        self.tickets -= before - line.tickets.len();
        if line.tickets.is_empty() {
            self.lines.remove(&tenant);
        } else {
            self.order.push_back(tenant);
        }
        ticket
    }

    fn left(&mut self, tenant: u64, live: usize, places: &[Place]) {
        if self.tickets > 2 * live + FEW_VOID {
            self.lines.retain(|_, line| {
                line.tickets.retain(|ticket| is_live(ticket, places));
                !line.tickets.is_empty()
            });
            self.order.retain(|tenant| self.lines.contains_key(tenant));
            self.tickets = live;
        } else if let Some(line) = self.lines.get_mut(&tenant) {
            let before = line.tickets.len();
            line.clear_front(places);
            self.tickets -= before - line.tickets.len();
            if line.tickets.is_empty() {
                self.lines.remove(&tenant);
                self.order.retain(|other| *other != tenant);
            }
        }
    }
}

#[cfg(test)]
#[path = "ready_tests.rs"]
mod tests;
