//! Custom ready orders that break their contract.

use std::hash::BuildHasher;
use std::time::Duration;

use rapidhash::quality::RandomState;

use crate::machine::ready_queue::OrderRules;
use crate::machine::*;

/// Returns each ticket once, and the first one again whenever it has no other.
#[derive(Default)]
struct Repeating {
    tickets: Vec<Ticket>,
    first: Option<Ticket>,
    repeats: usize,
}

impl ReadyOrder<u32> for Repeating {
    fn push(&mut self, _: &u32, ticket: Ticket) {
        self.first.get_or_insert(ticket);
        self.tickets.push(ticket);
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.tickets.pop().or_else(|| {
            self.repeats += 1;
            self.first.filter(|_| self.repeats % 2 == 1)
        })
    }
}

#[test]
fn a_duplicate_ticket_of_a_ready_order_is_ignored() {
    let settings = MachineSettings {
        rules: OrderRules { share: None, ageing: None, fair: false },
        ready_order: Some(Box::new(Repeating::default())),
        tenant: None,
        on_readd: OnReadd::Keep,
        memory: Duration::ZERO,
    };
    let hasher = RandomState::default();
    let mut machine = QueueMachine::new(settings, hasher);
    for key in [1, 2] {
        machine.add(hasher.hash_one(key), key, 0, Time::ZERO);
        let TakeResult::Taken(taken) = machine.take(Time::ZERO) else { panic!("nothing for {key}") };
        assert_eq!(taken.key, key);
        // Once while the key is in flight, and once when it is unknown.
        assert!(matches!(machine.take(Time::ZERO), TakeResult::Empty));
        machine.finish(taken.slot, taken.run, Time::ZERO);
        assert!(matches!(machine.take(Time::ZERO), TakeResult::Empty));
        assert_eq!((machine.len(), machine.processing()), (0, 0));
    }
}
