//! The ready queue by itself: entries left by moves stay bounded.

use super::*;

fn tickets(ready: &ReadyQueue) -> usize {
    let in_queue = |band: &Band| match &band.queue {
        BandQueue::Plain(line) => line.tickets.len(),
        BandQueue::Fair(turns) => {
            let tickets = turns.lines.values().map(|line| line.tickets.len()).sum();
            assert_eq!(turns.tickets, tickets, "tickets are counted");
            assert_eq!(turns.order.len(), turns.lines.len(), "each tenant has one turn");
            tickets
        }
    };
    ready.bands().map(|(_, band)| in_queue(band)).sum()
}

fn ready(fair: bool) -> ReadyQueue {
    ReadyQueue::new(OrderRules { share: None, ageing: None, fair })
}

#[test]
fn void_tickets_stay_fewer_than_valid_ones() {
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let fair = rng.bool();
        let mut ready = ready(fair);
        let mut inside = vec![None; 500];
        for _ in 0..5_000 {
            let slot = rng.u32(..500);
            let (priority, tenant) = (rng.i32(-3..4), u64::from(slot % 5));
            match (&mut inside[slot as usize], rng.u8(..8)) {
                (_, 0) => {
                    if let Some((ticket, priority)) = ready.pop(Time::ZERO) {
                        assert_eq!(inside[ticket.slot as usize].take(), Some(priority), "a key is returned once");
                    }
                }
                (place @ None, _) => {
                    *place = Some(priority);
                    ready.push(slot, priority, tenant, Time::ZERO);
                }
                (Some(had), _) => {
                    assert_eq!(ready.raise(slot, priority, tenant, Time::ZERO), priority > *had);
                    *had = priority.max(*had);
                }
            }
            let live = inside.iter().flatten().count();
            assert_eq!(ready.len(), live);
            let bound = 2 * live + FEW_VOID * ready.bands().count();
            assert!(tickets(&ready) <= bound, "{} tickets for {live} keys", tickets(&ready));
        }
        while let Some((ticket, priority)) = ready.pop(Time::ZERO) {
            assert_eq!(inside[ticket.slot as usize].take(), Some(priority), "a key is returned once");
        }
        assert!(inside.iter().all(Option::is_none), "and none is left");
        assert_eq!(tickets(&ready), 0, "not even void ones");
    }
}

#[test]
fn a_repeatedly_raised_key_leaves_no_entries() {
    for fair in [false, true] {
        let mut ready = ready(fair);
        // A lower key stays in front, so that void tickets behind it are not popped.
        ready.push(0, i32::MIN, 0, Time::ZERO);
        ready.push(1, i32::MIN, 1, Time::ZERO);
        for priority in -10_000..10_000 {
            ready.raise(1, priority, 1, Time::ZERO);
            assert!(tickets(&ready) <= 2 + FEW_VOID && ready.bands().count() <= SPARE_BANDS + 2);
        }
        // Keys are added at the bottom and raised to the top repeatedly.
        for round in 0..10_000 {
            ready.push(2, i32::MIN, round % 3, Time::ZERO);
            ready.raise(2, i32::MAX, round % 3, Time::ZERO);
            assert_eq!(ready.pop(Time::ZERO).map(|(ticket, _)| ticket.slot), Some(2));
            assert!(tickets(&ready) <= 2 * 2 + FEW_VOID + 1);
        }
        assert_eq!(ready.len(), 2);
    }
}

#[test]
fn memory_is_freed_when_there_are_no_keys() {
    let mut ready = ready(false);
    for slot in 0..2 * FEW_SLOTS as Slot {
        ready.push(slot, 1, 0, Time::ZERO);
    }
    while ready.pop(Time::ZERO).is_some() {}
    ready.trim();
    assert_eq!(ready.priorities_by_slot.capacity(), 0);
    assert!(
        ready
            .bands()
            .all(|(_, band)| matches!(&band.queue, BandQueue::Plain(line) if line.tickets.capacity() <= 1_024))
    );
}
