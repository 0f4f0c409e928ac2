//! [`Coverage`]: which faults have met which phases of clients.

use std::collections::BTreeMap;
use std::fmt;

use crate::fault::{Fault, RequestClass};

/// What a client does, as its requests show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ClientPhase {
    /// It lists, and waits for all objects or the first page.
    FirstPage,
    /// It waits for a later page.
    NextPage,
    /// It watches, and waits for the objects as the first events.
    WatchList,
    /// It watches from a version, or has received the objects.
    Streaming,
    /// It reads one object.
    Reading,
    /// It writes.
    Writing,
    /// It reads or writes the lease of an election.
    Election,
    /// No request is in flight: it works, backs off or is idle.
    Waiting,
}

impl ClientPhase {
    /// All phases.
    pub const ALL: [ClientPhase; 8] = [
        ClientPhase::FirstPage,
        ClientPhase::NextPage,
        ClientPhase::WatchList,
        ClientPhase::Streaming,
        ClientPhase::Reading,
        ClientPhase::Writing,
        ClientPhase::Election,
        ClientPhase::Waiting,
    ];

    pub(crate) fn of(class: RequestClass) -> Self {
        match class {
            RequestClass::Get => ClientPhase::Reading,
            RequestClass::List { .. } => ClientPhase::FirstPage,
            RequestClass::Page => ClientPhase::NextPage,
            RequestClass::Watch => ClientPhase::Streaming,
            RequestClass::WatchList { .. } => ClientPhase::WatchList,
            RequestClass::Write | RequestClass::NamedWrite => ClientPhase::Writing,
        }
    }

    fn title(self) -> &'static str {
        match self {
            ClientPhase::FirstPage => "list",
            ClientPhase::NextPage => "page",
            ClientPhase::WatchList => "watch list",
            ClientPhase::Streaming => "watch",
            ClientPhase::Reading => "get",
            ClientPhase::Writing => "write",
            ClientPhase::Election => "lease",
            ClientPhase::Waiting => "waiting",
        }
    }
}

/// How often each fault has met each phase of a client.
///
/// A fault of a request counts in the phase in which the request was sent, one of a process or of the server in every phase that a client
/// is in.
///
/// `Display` is a table. A dot is a cell that cannot be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<(Fault, ClientPhase), u64>);

impl Coverage {
    /// Returns how often a fault has met a phase.
    pub fn count(&self, fault: Fault, phase: ClientPhase) -> u64 {
        self.0.get(&(fault, phase)).copied().unwrap_or_default()
    }

    /// Returns whether a fault can meet a phase.
    pub fn is_reachable(fault: Fault, phase: ClientPhase) -> bool {
        let is_of = |class: &RequestClass| fault.is_of_request(*class);
        if !RequestClass::ALL.iter().any(is_of) {
            return true;
        }
        let classes = RequestClass::ALL.iter().filter(|class| match phase {
            ClientPhase::Election => matches!(class, RequestClass::Get | RequestClass::NamedWrite),
            phase => ClientPhase::of(**class) == phase,
        });
        classes.into_iter().any(is_of)
    }

    pub(crate) fn add(&mut self, fault: Fault, phase: ClientPhase) {
        *self.0.entry((fault, phase)).or_default() += 1;
    }

    /// Adds what other runs have shown.
    pub fn merge(&mut self, other: &Coverage) {
        for (cell, count) in &other.0 {
            *self.0.entry(*cell).or_default() += count;
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<22}", "")?;
        for phase in ClientPhase::ALL {
            write!(f, "{:>11}", phase.title())?;
        }
        for fault in Fault::ALL {
            write!(f, "\n{:<5}{:<17}", fault.number(), format!("{fault:?}"))?;
            for phase in ClientPhase::ALL {
                match (self.count(fault, phase), Coverage::is_reachable(fault, phase)) {
                    (0, false) => write!(f, "{:>11}", "·")?,
                    (count, _) => write!(f, "{count:>11}")?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fau_1_a_fault_is_counted_where_it_meets_a_client() {
        let mut coverage = Coverage::default();
        coverage.add(Fault::PageExpires, ClientPhase::NextPage);
        let mut total = coverage.clone();
        total.merge(&coverage);
        assert_eq!(total.count(Fault::PageExpires, ClientPhase::NextPage), 2);
        assert_eq!(total.count(Fault::PageExpires, ClientPhase::FirstPage), 0);
        let table = total.to_string();
        let row = table.lines().find(|line| line.starts_with("F-9 ")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().skip(2).collect();
        assert_eq!(cells, ["·", "2", "·", "·", "·", "·", "·", "·"]);
    }

    #[test]
    fn fau_1_cells_that_cannot_be_reached_are_known() {
        use ClientPhase::{Election, FirstPage, Streaming, Waiting, WatchList};
        assert!(
            Coverage::is_reachable(Fault::WatchEnds, Streaming) && !Coverage::is_reachable(Fault::WatchEnds, Election)
        );
        assert!(Coverage::is_reachable(Fault::Crash, Waiting) && Coverage::is_reachable(Fault::Crash, WatchList));
        assert!(Coverage::is_reachable(Fault::Rival, Election) && !Coverage::is_reachable(Fault::Rival, FirstPage));
    }
}
