//! The order of ready keys.
//!
//! Keys of a higher priority are handed out first, keys of one priority in the order of their adds; with fairness, round-robin by
//! tenant. While lower priorities are passed over, one of `share` hand-outs takes the oldest key among them, so that no key
//! starves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use super::keys::Slot;
use super::time::Time;

/// Identifies a key in a [`ReadyOrder`](crate::compat::ReadyOrder), which receives it by `push` and returns it by `pop`.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(crate) slot: Slot,
    /// The move that issued the ticket: a ticket is void if its key has moved since.
    pub(crate) stamp: u32,
    /// When the key became dirty.
    pub(crate) since: Time,
}

/// The rules of the order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderRules {
    /// One of so many hand-outs takes a key of a lower priority.
    pub(crate) share: Option<NonZeroU32>,
    /// A key gains one priority for each such wait.
    pub(crate) ageing: Option<Duration>,
    pub(crate) fair: bool,
}

pub(crate) struct ReadyQueue {
    rules: OrderRules,
    /// The band of the default priority.
    default: Band,
    /// The other bands, the highest priority first.
    others: BTreeMap<Reverse<i32>, Band>,
    /// The age of the first key of each band, if there are others than the default one.
    fronts: BTreeSet<(Time, Reverse<i32>)>,
    /// By slot, as far as any differ from the default.
    priorities_by_slot: Vec<SlotPriority>,
    len: usize,
    /// Hand-outs since the last one of a lower priority.
    passed: u32,
    /// Priorities whose depth has changed, if changes are tracked.
    changed: Option<Vec<i32>>,
}

/// The keys of one priority.
struct Band {
    queue: BandQueue,
    len: usize,
    /// Keys in flight that will be ready again in this priority.
    held: usize,
}

/// The priority of a slot.
#[derive(Clone, Copy, Default)]
struct SlotPriority {
    /// Moves of the key of this slot.
    stamp: u32,
    priority: i32,
}

/// Empty bands that are kept.
const SPARE_BANDS: usize = 8;

/// Slots whose priorities are kept even without keys.
const FEW_SLOTS: usize = 4096;

impl ReadyQueue {
    pub(crate) fn new(rules: OrderRules) -> Self {
        ReadyQueue {
            rules,
            default: Band::new(rules.fair),
            others: BTreeMap::new(),
            fronts: BTreeSet::new(),
            priorities_by_slot: Vec::new(),
            len: 0,
            passed: 0,
            changed: None,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the depth of a priority, including keys in flight that were added again.
    pub(crate) fn depth(&self, priority: i32) -> usize {
        let band = if priority == 0 { Some(&self.default) } else { self.others.get(&Reverse(priority)) };
        band.map_or(0, |band| band.len + band.held)
    }

    /// Returns all priorities.
    pub(crate) fn priorities(&self) -> impl Iterator<Item = i32> {
        self.bands().map(|(priority, _)| priority.0)
    }

    /// Returns all bands, the highest priority first.
    fn bands(&self) -> impl Iterator<Item = (Reverse<i32>, &Band)> {
        let high = self.others.range(..Reverse(0)).map(|(priority, band)| (*priority, band));
        let low = self.others.range(Reverse(0)..).map(|(priority, band)| (*priority, band));
        high.chain([(Reverse(0), &self.default)]).chain(low)
    }

    /// Starts to track priorities whose depth changes.
    pub(crate) fn note_changes(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// Removes and returns a priority whose depth has changed.
    pub(crate) fn pop_changed(&mut self) -> Option<i32> {
        self.changed.as_mut()?.pop()
    }

    /// Records that the depth of a priority has changed.
    #[inline]
    pub(crate) fn note(&mut self, priority: i32) {
        if let Some(changed) = &mut self.changed
            && changed.last() != Some(&priority)
        {
            changed.push(priority);
        }
    }

    /// Returns when the oldest key among the fronts of the bands became dirty.
    pub(crate) fn oldest(&self) -> Option<Time> {
        if self.others.is_empty() { self.default.front() } else { Some(self.fronts.first()?.0) }
    }

    /// Returns whether the order depends on the time.
    #[inline]
    pub(crate) fn needs_time(&self) -> bool {
        !self.others.is_empty() || self.rules.ageing.is_some()
    }

    /// Returns the slots of at most `count` keys that are next, as far as that is simple to tell.
    pub(crate) fn upcoming(&self, count: usize) -> impl Iterator<Item = Slot> {
        let tickets = match &self.default.queue {
            BandQueue::Plain(line) => Some(line.tickets.iter()),
            BandQueue::Fair(_) => None,
        };
        tickets.into_iter().flatten().take(count).map(|ticket| ticket.slot)
    }

    #[inline]
    pub(crate) fn push(&mut self, slot: Slot, priority: i32, tenant: u64, since: Time) {
        self.reserve(slot, priority, true);
        let stamp = self.priorities_by_slot.get(slot as usize).map_or(0, |slot_priority| slot_priority.stamp);
        self.len += 1;
        self.update(priority, |band, _| {
            band.len += 1;
            band.queue.push(Ticket { slot, stamp, since }, tenant);
        });
    }

    /// Counts a key in flight that will be ready in this priority.
    pub(crate) fn hold(&mut self, priority: i32) {
        self.update(priority, |band, _| band.held += 1);
    }

    /// Undoes [`hold`](Self::hold).
    pub(crate) fn release(&mut self, priority: i32) {
        self.update(priority, |band, _| band.held -= 1);
    }

    /// Moves a ready key to the end of a higher priority. Returns false if the priority is not higher.
    pub(crate) fn raise(&mut self, slot: Slot, priority: i32, tenant: u64, since: Time) -> bool {
        let had = self.reserved(slot);
        if had >= priority {
            return false;
        }
        let slot_priority = self.slot_priority(slot);
        slot_priority.stamp = slot_priority.stamp.wrapping_add(1);
        self.push(slot, priority, tenant, since);
        self.len -= 1;
        self.update(had, |band, priorities_by_slot| {
            band.len -= 1;
            band.queue.left(tenant, band.len, priorities_by_slot);
        });
        true
    }

    /// Removes a ready key.
    pub(crate) fn remove(&mut self, slot: Slot, tenant: u64) {
        let priority = self.reserved(slot);
        let slot_priority = self.slot_priority(slot);
        slot_priority.stamp = slot_priority.stamp.wrapping_add(1);
        self.len -= 1;
        self.update(priority, |band, priorities_by_slot| {
            band.len -= 1;
            band.queue.left(tenant, band.len, priorities_by_slot);
        });
    }

    #[inline]
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Ticket, i32)> {
        if self.len == 0 {
            return None;
        }
        let priority = if self.others.is_empty() { 0 } else { self.choose(now)? };
        let ticket = self.update(priority, |band, priorities_by_slot| {
            band.len -= 1;
            band.queue.pop(priorities_by_slot)
        })?;
        self.len -= 1;
        Some((ticket, priority))
    }

    /// Records the priority of a key: the highest of those given.
    #[inline]
    pub(crate) fn reserve(&mut self, slot: Slot, priority: i32, is_first: bool) {
        // Most keys have the default priority, which is not stored.
        if priority == 0 && self.priorities_by_slot.len() <= slot as usize {
            return;
        }
        let slot_priority = self.slot_priority(slot);
        slot_priority.priority = if is_first { priority } else { slot_priority.priority.max(priority) };
    }

    /// Returns the recorded priority.
    #[inline]
    pub(crate) fn reserved(&self, slot: Slot) -> i32 {
        self.priorities_by_slot.get(slot as usize).map_or(0, |slot_priority| slot_priority.priority)
    }

    /// Frees memory when there are no keys, and so no tickets, not even void ones.
    pub(crate) fn trim(&mut self) {
        if self.priorities_by_slot.capacity() > FEW_SLOTS {
            self.priorities_by_slot = Vec::new();
        }
    }

    fn slot_priority(&mut self, slot: Slot) -> &mut SlotPriority {
        let slot = slot as usize;
        if self.priorities_by_slot.len() <= slot {
            self.priorities_by_slot.resize(slot + 1, SlotPriority::default());
        }
        &mut self.priorities_by_slot[slot]
    }

    /// Returns the next priority.
    fn choose(&mut self, now: Time) -> Option<i32> {
        let first = self.best(now)?;
        // With a share of 1 the oldest key may also be of the highest priority.
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

    /// Returns the highest priority, with the gain of its first key by ageing.
    fn best(&self, now: Time) -> Option<Reverse<i32>> {
        let mut filled = self.bands().filter(|(_, band)| band.len > 0);
        let Some(ageing) = self.rules.ageing else { return filled.next().map(|(priority, _)| priority) };
        let step = ageing.as_nanos().max(1);
        let mut best = None;
        for (priority, band) in filled {
            let waited = now.since(band.front()?).as_nanos();
            let aged = i128::from(priority.0) + (waited / step) as i128;
            // Of equals, the first has the higher priority and less age.
            if best.is_none_or(|(_, highest)| aged > highest) {
                best = Some((priority, aged));
            }
        }
        best.map(|(priority, _)| priority)
    }

    /// Updates a band, and its front and depth.
    #[inline]
    fn update<T>(&mut self, priority: i32, update: impl FnOnce(&mut Band, &[SlotPriority]) -> T) -> T {
        if priority == 0 && self.others.is_empty() {
            let result = update(&mut self.default, &self.priorities_by_slot);
            self.note(priority);
            return result;
        }
        if self.others.is_empty() {
            self.fronts.extend(self.default.front().map(|front| (front, Reverse(0))));
        }
        let key = Reverse(priority);
        let band = match priority {
            0 => &mut self.default,
            _ => self.others.entry(key).or_insert_with(|| Band::new(self.rules.fair)),
        };
        let before = band.front();
        let result = update(band, &self.priorities_by_slot);
        let after = band.front();
        let is_empty = band.len == 0 && band.held == 0;
        if before != after {
            before.map(|front| self.fronts.remove(&(front, key)));
            self.fronts.extend(after.map(|front| (front, key)));
        }
        if is_empty && priority != 0 && self.others.len() >= SPARE_BANDS {
            self.others.remove(&key);
        }
        self.note(priority);
        result
    }
}

impl Band {
    fn new(fair: bool) -> Self {
        let queue =
            if fair { BandQueue::Fair(TenantQueues::default()) } else { BandQueue::Plain(TicketQueue::default()) };
        Band { queue, len: 0, held: 0 }
    }

    /// Returns when the first key became dirty.
    fn front(&self) -> Option<Time> {
        Some(self.queue.front()?.since)
    }
}

/// The order of the keys of one priority.
enum BandQueue {
    Plain(TicketQueue),
    Fair(TenantQueues),
}

impl BandQueue {
    #[inline]
    fn push(&mut self, ticket: Ticket, tenant: u64) {
        match self {
            BandQueue::Plain(line) => line.tickets.push_back(ticket),
            BandQueue::Fair(tenants) => tenants.push(ticket, tenant),
        }
    }

    fn front(&self) -> Option<&Ticket> {
        match self {
            BandQueue::Plain(line) => line.tickets.front(),
            BandQueue::Fair(tenants) => tenants.lines.get(tenants.order.front()?)?.tickets.front(),
        }
    }

    #[inline]
    fn pop(&mut self, priorities_by_slot: &[SlotPriority]) -> Option<Ticket> {
        match self {
            BandQueue::Plain(line) => line.pop(priorities_by_slot),
            BandQueue::Fair(tenants) => tenants.pop(priorities_by_slot),
        }
    }

    /// Records that a key moved to another band, and `live` keys remain.
    fn left(&mut self, tenant: u64, live: usize, priorities_by_slot: &[SlotPriority]) {
        match self {
            BandQueue::Plain(line) => line.left(live, priorities_by_slot),
            BandQueue::Fair(tenants) => tenants.left(tenant, live, priorities_by_slot),
        }
    }
}

/// Void tickets that are tolerated.
const FEW_VOID: usize = 64;

fn is_live(ticket: &Ticket, priorities_by_slot: &[SlotPriority]) -> bool {
    priorities_by_slot.get(ticket.slot as usize).map_or(0, |slot_priority| slot_priority.stamp) == ticket.stamp
}

/// First in, first out. The front ticket is always live.
#[derive(Default)]
struct TicketQueue {
    tickets: VecDeque<Ticket>,
}

impl TicketQueue {
    #[inline]
    fn pop(&mut self, priorities_by_slot: &[SlotPriority]) -> Option<Ticket> {
        let ticket = self.tickets.pop_front();
        self.clear_front(priorities_by_slot);
        if self.tickets.capacity() > 1024 && self.tickets.len() < self.tickets.capacity() / 8 {
            self.tickets.shrink_to(self.tickets.len() * 2);
        }
        ticket
    }

    /// Records that a ticket became void. Void tickets are removed at the front, and everywhere if they outnumber live ones.
    fn left(&mut self, live: usize, priorities_by_slot: &[SlotPriority]) {
        if self.tickets.len() > 2 * live + FEW_VOID {
            self.tickets.retain(|ticket| is_live(ticket, priorities_by_slot));
        }
        self.clear_front(priorities_by_slot);
    }

    fn clear_front(&mut self, priorities_by_slot: &[SlotPriority]) {
        while self.tickets.front().is_some_and(|ticket| !is_live(ticket, priorities_by_slot)) {
            self.tickets.pop_front();
        }
    }
}

/// One non-empty line per tenant, served round-robin.
#[derive(Default)]
struct TenantQueues {
    lines: HashMap<u64, TicketQueue>,
    /// The next tenant first.
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

    fn pop(&mut self, priorities_by_slot: &[SlotPriority]) -> Option<Ticket> {
        let tenant = self.order.pop_front()?;
        let line = self.lines.get_mut(&tenant)?;
        let before = line.tickets.len();
        let ticket = line.pop(priorities_by_slot);
        self.tickets -= before - line.tickets.len();
        if line.tickets.is_empty() {
            self.lines.remove(&tenant);
        } else {
            self.order.push_back(tenant);
        }
        ticket
    }

    fn left(&mut self, tenant: u64, live: usize, priorities_by_slot: &[SlotPriority]) {
        if self.tickets > 2 * live + FEW_VOID {
            self.lines.retain(|_, line| {
                line.tickets.retain(|ticket| is_live(ticket, priorities_by_slot));
                !line.tickets.is_empty()
            });
            self.order.retain(|tenant| self.lines.contains_key(tenant));
            self.tickets = live;
        } else if let Some(line) = self.lines.get_mut(&tenant) {
            let before = line.tickets.len();
            line.clear_front(priorities_by_slot);
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
