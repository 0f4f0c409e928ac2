//! The pipeline, drawn: from the server through reflectors, stores and queue to the workers, each with its numbers.

use std::collections::VecDeque;
use std::time::Duration;

use anstyle::Style;

use super::numbers::{Doing, Informer, Numbers};
use super::stage::WORKERS;
use crate::terminal::{BAD, CHANGED, FAINT, Line, PLAIN, STRONG};

/// What has to fit beside each other for the pipeline to be a picture.
const COLUMNS: [usize; 5] = [15, 22, 17, 12, 13];
/// Rates are those of the last so long.
const WINDOW: Duration = Duration::from_secs(1);

/// A part of the pipeline: what it is called, and what is going on in it.
struct Station {
    name: &'static str,
    facts: [(Style, String); 4],
}

/// The pipeline, in no more than this width if it is narrow. The workers finish so many Foos per second.
pub(super) fn lines(numbers: &Numbers, rate: u64, width: usize) -> Vec<Line> {
    let stations = stations(numbers, rate);
    if width > COLUMNS.iter().sum() { beside(&stations) } else { below(&stations) }
}

/// The pipeline, in the order in which news goes through it.
fn stations(numbers: &Numbers, rate: u64) -> [Station; 5] {
    let Numbers { foos, deployments, queue, .. } = numbers;
    let requests: u64 = numbers.requests.iter().sum();
    let plain = |text: String| (PLAIN, text);
    [
        Station {
            name: "API server",
            facts: [
                plain(format!("revision {}", numbers.revision)),
                plain(format!("requests {requests}")),
                plain(format!("watches {}", numbers.watchers)),
                plain(String::new()),
            ],
        },
        Station {
            name: "reflectors",
            facts: [
                (style(foos), format!("Foos {}", foos.doing.word())),
                (style(deployments), format!("Deployments {}", deployments.doing.word())),
                (if numbers.breaks > 0 { CHANGED } else { PLAIN }, format!("breaks {}", numbers.breaks)),
                (if numbers.relists() > 0 { CHANGED } else { PLAIN }, format!("relists {}", numbers.relists())),
            ],
        },
        Station {
            name: "stores",
            facts: [
                plain(format!("Foos {}", foos.objects)),
                plain(format!("Deployments {}", deployments.objects)),
                (FAINT, format!("at {}", foos.version)),
                (FAINT, format!("at {}", deployments.version)),
            ],
        },
        Station {
            name: "queue",
            facts: [
                plain(format!("ready {}", queue.ready)),
                plain(format!("waiting {}", queue.delayed)),
                (if queue.failing > 0 { BAD } else { PLAIN }, format!("failing {}", queue.failing)),
                plain(format!("retries {}", queue.retries)),
            ],
        },
        Station {
            name: "workers",
            facts: [
                plain(format!("busy {} of {WORKERS}", queue.in_flight)),
                plain(format!("{rate} per s")),
                plain(format!("done {}", numbers.reconciles())),
                plain(format!("events {}", numbers.events)),
            ],
        },
    ]
}

fn style(informer: &Informer) -> Style {
    match informer.doing {
        Doing::Watching => PLAIN,
        Doing::Listing => CHANGED,
        Doing::Waiting | Doing::Nothing => BAD,
    }
}

/// The stations beside each other, with arrows between.
fn beside(stations: &[Station; 5]) -> Vec<Line> {
    let mut head = Line::new();
    for (index, (station, width)) in stations.iter().zip(COLUMNS).enumerate() {
        head = head.with(STRONG, station.name);
        if index + 1 < stations.len() {
            let dashes = width.saturating_sub(station.name.len() + 3);
            head = head.with(FAINT, format!(" {}► ", "─".repeat(dashes)));
        }
    }
    let mut lines = vec![head];
    for row in 0..4 {
        let mut line = Line::new();
        for (station, width) in stations.iter().zip(COLUMNS) {
            if let Some((style, fact)) = station.facts.get(row) {
                line = line.with(*style, format!("{fact:<width$}"));
            }
        }
        lines.push(line);
    }
    lines
}

/// The stations below each other, where there is no room.
fn below(stations: &[Station; 5]) -> Vec<Line> {
    let line = |station: &Station| {
        let mut line = Line::new().with(STRONG, format!("{:<11}", station.name));
        for (style, fact) in station.facts.iter().filter(|(_, fact)| !fact.is_empty()) {
            line = line.with(*style, fact.as_str()).with(PLAIN, "  ");
        }
        line
    };
    stations.iter().map(line).collect()
}

/// How often something happens, from counts at various times.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Counts of the last second, and the last one before it.
    counts: VecDeque<(Duration, u64)>,
}

impl Rate {
    /// It has happened so often by now.
    pub(super) fn count(&mut self, now: Duration, count: u64) {
        self.counts.push_back((now, count));
        while self.counts.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW) {
            self.counts.pop_front();
        }
    }

    /// How often it happens now.
    pub(super) fn per_second(&self) -> u64 {
        let (Some((from, first)), Some((to, last))) = (self.counts.front(), self.counts.back()) else { return 0 };
        let seconds = to.saturating_sub(*from).as_secs_f64();
        if seconds <= 0.0 { 0 } else { (last.saturating_sub(*first) as f64 / seconds).round() as u64 }
    }
}

#[cfg(test)]
mod tests;
