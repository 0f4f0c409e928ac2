//! The order in which keys that are ready are handed out.
//!
//! Keys of a higher priority go first, keys of one priority in the order in which they came; with fairness, the tenants of one
//! priority take turns. While keys of a lower priority are passed over, every so many-th hand-out goes to the one of them that
//! has waited longest, so that each gets its turn however much comes in above it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use super::keys::Slot;
use super::time::Time;

/// Identifies a key in a [`ReadyOrder`](crate::ReadyOrder), which receives it by `push` and returns it by `pop`.
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
pub(crate) struct OrderRules {
    /// One of so many hand-outs goes to those that are passed over.
    pub(crate) share: Option<NonZeroU32>,
    /// A key gains a point of priority whenever it has waited that long.
    pub(crate) ageing: Option<Duration>,
    pub(crate) fair: bool,
}

pub(crate) struct ReadyQueue {
    rules: OrderRules,
    /// The highest first. The default one is always there.
    bands: BTreeMap<Reverse<i32>, Band>,
    /// Since when the first key of each band has been waiting, if there are several bands.
    fronts: BTreeSet<(Time, Reverse<i32>)>,
    /// By slot, as far as there are any that differ from the default.
    places: Vec<SlotPriority>,
    len: usize,
    /// Hand-outs since the last one that went to the passed over.
    passed: u32,
    /// The priorities whose depths have changed, if somebody wants to know.
    changed: Option<Vec<i32>>,
}

/// The keys of one priority.
struct Band {
    lane: BandQueue,
    len: usize,
    /// Those that are not here yet, because a worker has them.
    held: usize,
}

/// What is remembered of a key.
#[derive(Clone, Copy, Default)]
struct SlotPriority {
    /// How often the key of this slot was moved.
    stamp: u32,
    priority: i32,
}

/// More bands than this are not kept if they are empty.
const SPARE_BANDS: usize = 8;

/// Places for so many slots are kept even if there are no keys.
const FEW_PLACES: usize = 4096;

impl ReadyQueue {
    pub(crate) fn new(rules: OrderRules) -> Self {
        ReadyQueue {
            rules,
            bands: BTreeMap::from([(Reverse(0), Band::new(rules.fair))]),
            fronts: BTreeSet::new(),
            places: Vec::new(),
            len: 0,
            passed: 0,
            changed: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many there are of a priority, those that workers have among them.
    pub(crate) fn depth(&self, priority: i32) -> usize {
        self.bands.get(&Reverse(priority)).map_or(0, |band| band.len + band.held)
    }

    /// The priorities that there are.
    pub(crate) fn priorities(&self) -> impl Iterator<Item = i32> {
        self.bands.keys().map(|priority| priority.0)
    }

    /// From now on, priorities are noted whose depths change.
    pub(crate) fn note_changes(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// One of the priorities that were noted, which is one no longer.
    pub(crate) fn pop_changed(&mut self) -> Option<i32> {
        self.changed.as_mut()?.pop()
    }

    /// The depth of a priority has changed.
    pub(crate) fn note(&mut self, priority: i32) {
        if let Some(changed) = &mut self.changed
            && changed.last() != Some(&priority)
        {
            changed.push(priority);
        }
    }

    /// Since when the key has been dirty that has been so for longest, as far as the fronts of the lines tell.
    pub(crate) fn oldest(&self) -> Option<Time> {
        if self.bands.len() == 1 { self.bands.values().next()?.front() } else { Some(self.fronts.first()?.0) }
    }

    /// Whether the order depends on what time it is.
    pub(crate) fn needs_time(&self) -> bool {
        self.bands.len() > 1 || self.rules.ageing.is_some()
    }

    pub(crate) fn push(&mut self, slot: Slot, priority: i32, tenant: u64, since: Time) {
        self.reserve(slot, priority, true);
        let stamp = self.places.get(slot as usize).map_or(0, |place| place.stamp);
        self.len += 1;
        self.update(priority, |band, _| {
            band.len += 1;
            band.lane.push(Ticket { slot, stamp, since }, tenant);
        });
    }

    /// A key of this priority will be here when its worker is done with it.
    pub(crate) fn hold(&mut self, priority: i32) {
        self.update(priority, |band, _| band.held += 1);
    }

    /// It will not be, or has another priority, or is here.
    pub(crate) fn release(&mut self, priority: i32) {
        self.update(priority, |band, _| band.held -= 1);
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
        self.update(had, |band, places| {
            band.len -= 1;
            band.lane.left(tenant, band.len, places);
        });
        true
    }

    pub(crate) fn pop(&mut self, now: Time) -> Option<(Ticket, i32)> {
        if self.len == 0 {
            return None;
        }
        let priority = if self.bands.len() == 1 { 0 } else { self.choose(now)? };
        let ticket = self.update(priority, |band, places| {
            band.len -= 1;
            band.lane.pop(places)
        })?;
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

    fn place(&mut self, slot: Slot) -> &mut SlotPriority {
        let slot = slot as usize;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, SlotPriority::default());
        }
        &mut self.places[slot]
    }

    /// Which priority is next.
    fn choose(&mut self, now: Time) -> Option<i32> {
        let first = self.best(now)?;
        // If each hand-out goes to the one that has waited longest, that may also be one of the highest priority.
        let all_are_equal = self.rules.share.is_some_and(|share| share.get() == 1);
        let oldest_below = self.fronts.iter().find(|(_, priority)| *priority != first || all_are_equal);
        let (Some((_, below)), Some(share)) = (oldest_below, self.rules.share) else {
            self.passed = 0;
            return Some(first.0);
        };
        self.passed += 1;
        if self.passed < share.get() {
            return Some(first.0);
        }
        self.passed = 0;
        Some(below.0)
    }

    /// The highest priority, with what its first key has gained by waiting.
    fn best(&self, now: Time) -> Option<Reverse<i32>> {
        let mut filled = self.bands.iter().filter(|(_, band)| band.len > 0);
        let Some(ageing) = self.rules.ageing else { return filled.next().map(|(priority, _)| *priority) };
        let step = ageing.as_nanos().max(1);
        let mut best = None;
        for (priority, band) in filled {
            let waited = now.since(band.front()?).as_nanos();
            let aged = i128::from(priority.0) + (waited / step) as i128;
            // The first of equals is the one that has waited less and matters more.
            if best.is_none_or(|(_, highest)| aged > highest) {
                best = Some((*priority, aged));
            }
        }
        best.map(|(priority, _)| priority)
    }

    /// Does something to the keys of one priority, and notes what has changed by that.
    fn update<T>(&mut self, priority: i32, update: impl FnOnce(&mut Band, &[SlotPriority]) -> T) -> T {
        let key = Reverse(priority);
        if self.bands.len() == 1 && priority != 0 {
            let default = self.bands.values().next().and_then(Band::front);
            self.fronts.extend(default.map(|front| (front, Reverse(0))));
        }
        let band = self.bands.entry(key).or_insert_with(|| Band::new(self.rules.fair));
        let before = band.front();
        let result = update(band, &self.places);
        let after = band.front();
        let is_empty = band.len == 0 && band.held == 0;
        if self.bands.len() > 1 {
            if before != after {
                before.map(|front| self.fronts.remove(&(front, key)));
                self.fronts.extend(after.map(|front| (front, key)));
            }
            if is_empty && priority != 0 && self.bands.len() > SPARE_BANDS {
                self.bands.remove(&key);
            }
        }
        self.note(priority);
        result
    }
}

impl Band {
    fn new(fair: bool) -> Self {
        let lane =
            if fair { BandQueue::Fair(TenantQueues::default()) } else { BandQueue::Plain(TicketQueue::default()) };
        Band { lane, len: 0, held: 0 }
    }

    /// Since when the first key has been waiting.
    fn front(&self) -> Option<Time> {
        Some(self.lane.front()?.since)
    }
}

/// The order of the keys of one priority.
enum BandQueue {
    Plain(TicketQueue),
    Fair(TenantQueues),
}

impl BandQueue {
    fn push(&mut self, ticket: Ticket, tenant: u64) {
        match self {
            BandQueue::Plain(line) => line.tickets.push_back(ticket),
            BandQueue::Fair(turns) => turns.push(ticket, tenant),
        }
    }

    fn front(&self) -> Option<&Ticket> {
        match self {
            BandQueue::Plain(line) => line.tickets.front(),
            BandQueue::Fair(turns) => turns.lines.get(turns.order.front()?)?.tickets.front(),
        }
    }

    fn pop(&mut self, places: &[SlotPriority]) -> Option<Ticket> {
        match self {
            BandQueue::Plain(line) => line.pop(places),
            BandQueue::Fair(turns) => turns.pop(places),
        }
    }

    /// A key has left for another lane, and `live` are still here.
    fn left(&mut self, tenant: u64, live: usize, places: &[SlotPriority]) {
        match self {
            BandQueue::Plain(line) => line.left(live, places),
            BandQueue::Fair(turns) => turns.left(tenant, live, places),
        }
    }
}

/// So many void tickets are not worth a search for them.
const FEW_VOID: usize = 64;

fn is_live(ticket: &Ticket, places: &[SlotPriority]) -> bool {
    places.get(ticket.slot as usize).map_or(0, |place| place.stamp) == ticket.stamp
}

/// First come, first served. The ticket at the front is always live.
#[derive(Default)]
struct TicketQueue {
    tickets: VecDeque<Ticket>,
}

impl TicketQueue {
    fn pop(&mut self, places: &[SlotPriority]) -> Option<Ticket> {
        let ticket = self.tickets.pop_front();
        self.clear_front(places);
        if self.tickets.capacity() > 1024 && self.tickets.len() < self.tickets.capacity() / 8 {
            self.tickets.shrink_to(self.tickets.len() * 2);
        }
        ticket
    }

    /// One of the tickets has become void. It stays, unless it is in front or more of them are void than not.
    fn left(&mut self, live: usize, places: &[SlotPriority]) {
        if self.tickets.len() > 2 * live + FEW_VOID {
            self.tickets.retain(|ticket| is_live(ticket, places));
        }
        self.clear_front(places);
    }

    fn clear_front(&mut self, places: &[SlotPriority]) {
        while self.tickets.front().is_some_and(|ticket| !is_live(ticket, places)) {
            self.tickets.pop_front();
        }
    }
}

/// One line for each tenant, none of them empty, and one key of each in turn.
#[derive(Default)]
struct TenantQueues {
    lines: HashMap<u64, TicketQueue>,
    /// The next one first.
    order: VecDeque<u64>,
    tickets: usize,
}

impl TenantQueues {
    fn push(&mut self, ticket: Ticket, tenant: u64) {
        let line = self.lines.entry(tenant).or_default();
        if line.tickets.is_empty() {
            self.order.push_back(tenant);
        }
        line.tickets.push_back(ticket);
        self.tickets += 1;
    }

    fn pop(&mut self, places: &[SlotPriority]) -> Option<Ticket> {
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

    fn left(&mut self, tenant: u64, live: usize, places: &[SlotPriority]) {
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
mod tests;
