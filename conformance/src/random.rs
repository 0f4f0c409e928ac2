//! Random scenarios.

use std::fmt::Write;

use crate::Failure;
use crate::scenario::Scenario;

/// Generates `count` scenarios. The same seed gives the same ones.
pub(crate) fn scenarios(seed: u64, count: u64) -> Result<Vec<Scenario>, Failure> {
    (0..count)
        .map(|number| {
            let seed = seed.wrapping_mul(1_000_003).wrapping_add(number);
            let text = ScriptWriter::new(seed).write();
            let name = format!("random-{seed}");
            Scenario::random(&name, number % 2 == 0, &text)
                .map_err(|error| format!("{name} is invalid: {error}\n{text}").into())
        })
        .collect()
}

/// Writes a script, and tracks the state at each point of it.
struct ScriptWriter {
    dice: fastrand::Rng,
    script: String,
    alive: Vec<&'static str>,
    handlers: Vec<String>,
    handlers_made: usize,
    outages: usize,
}

/// Each outage doubles the backoff of the clients, twice.
const MOST_OUTAGES: usize = 2;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "other/a", "other/b"];
const LABELS: [&str; 3] = ["app=web", "app=db", "app=-"];

impl ScriptWriter {
    fn new(seed: u64) -> Self {
        ScriptWriter {
            dice: fastrand::Rng::with_seed(seed),
            script: String::new(),
            alive: Vec::new(),
            handlers: Vec::new(),
            handlers_made: 0,
            outages: 0,
        }
    }

    fn write(mut self) -> String {
        self.push("index app app");
        self.changes(6);
        self.add_handler();
        self.push("start");
        self.push("synced");
        for _ in 0..self.dice.usize(3..6) {
            self.changes(6);
            match self.dice.u8(0..9) {
                0..=2 if self.outages < MOST_OUTAGES => self.outage(true),
                3 if self.outages < MOST_OUTAGES => self.outage(false),
                4 => {
                    self.push("barrier");
                    self.push("cut");
                }
                5 => {
                    // Which notifications are initial must not depend on timing.
                    self.push("barrier");
                    self.add_handler();
                }
                6 => self.remove_handler(),
                7 => {
                    let events = self.dice.u8(1..4);
                    self.push(&format!("fault drop-watch:events={events},times=1"));
                    // After so many events a new watch starts. One more, and the new watch has had an event.
                    for _ in 0..=events {
                        self.push("barrier");
                    }
                }
                _ => {
                    self.push("barrier");
                    self.push("query index-keys app web");
                    self.push("query index-values app");
                }
            }
            self.changes(3);
            self.push("barrier");
        }
        self.push("query index-keys app web");
        self.push("query index-keys app db");
        self.script
    }

    fn push(&mut self, step: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.script, "{step}");
    }

    fn changes(&mut self, most: usize) {
        for _ in 0..self.dice.usize(0..=most) {
            let name = NAMES[self.dice.usize(..NAMES.len())];
            let label = LABELS[self.dice.usize(..LABELS.len())];
            if !self.alive.contains(&name) {
                self.alive.push(name);
                let label = label.strip_suffix('-').map_or(label, |_| "");
                self.push(&format!("create {name} {label}"));
            } else if self.dice.u8(0..3) > 0 {
                self.push(&format!("update {name} {label}"));
            } else {
                self.alive.retain(|other| *other != name);
                self.push(&format!("delete {name}"));
            }
        }
    }

    /// The server is down while objects change, with or without losing its history.
    fn outage(&mut self, forgets: bool) {
        self.outages += 1;
        self.push("barrier");
        self.push("outage");
        self.changes(8);
        if self.dice.bool() {
            self.add_handler();
        }
        if forgets {
            self.push("compact");
        }
        self.push("recover");
    }

    fn add_handler(&mut self) {
        self.handlers_made += 1;
        let name = format!("h{}", self.handlers_made);
        self.push(&format!("handler {name}"));
        self.handlers.push(name);
    }

    fn remove_handler(&mut self) {
        if self.handlers.len() > 1 {
            let handler = self.handlers.swap_remove(self.dice.usize(..self.handlers.len()));
            // Delivers everything before the handler is removed.
            self.push("barrier");
            self.push(&format!("remove {handler}"));
        }
    }
}
