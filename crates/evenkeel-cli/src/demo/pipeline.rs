//! Draws the pipeline: server, reflectors, stores, queue and workers with their metrics.

use std::collections::VecDeque;
use std::time::Duration;

use anstyle::Style;

use super::environment::WORKERS;
use super::numbers::{Activity, Informer, Numbers};
use crate::terminal::{BAD, CHANGED, FAINT, Line, PLAIN, STRONG};

/// Column widths of the wide layout.
const COLUMNS: [usize; 5] = [15, 22, 17, 12, 13];
/// Window of the rates.
const WINDOW: Duration = Duration::from_secs(1);

/// A environment of the pipeline: title and metrics.
struct PipelineStage {
    name: &'static str,
    facts: [(Style, String); 4],
}

/// Returns the pipeline as lines of at most this width. `rate` is the number of reconciles per second.
pub(super) fn lines(numbers: &Numbers, rate: u64, width: usize) -> Vec<Line> {
    let stages = stages(numbers, rate);
    if width > COLUMNS.iter().sum() { beside(&stages) } else { below(&stages) }
}

/// Returns the stages in the order of the data flow.
fn stages(numbers: &Numbers, rate: u64) -> [PipelineStage; 5] {
    let Numbers { foos, deployments, queue, .. } = numbers;
    let requests: u64 = numbers.requests.iter().sum();
    let plain = |text: String| (PLAIN, text);
    [
        PipelineStage {
            name: "API server",
            facts: [
                plain(format!("revision {}", numbers.revision)),
                plain(format!("requests {requests}")),
                plain(format!("watches {}", numbers.watchers)),
                plain(String::new()),
            ],
        },
        PipelineStage {
            name: "reflectors",
            facts: [
                (style(foos), format!("Foos {}", foos.doing.word())),
                (style(deployments), format!("Deployments {}", deployments.doing.word())),
                (if numbers.breaks > 0 { CHANGED } else { PLAIN }, format!("breaks {}", numbers.breaks)),
                (if numbers.relists() > 0 { CHANGED } else { PLAIN }, format!("relists {}", numbers.relists())),
            ],
        },
        PipelineStage {
            name: "stores",
            facts: [
                plain(format!("Foos {}", foos.objects)),
                plain(format!("Deployments {}", deployments.objects)),
                (FAINT, format!("at {}", foos.version)),
                (FAINT, format!("at {}", deployments.version)),
            ],
        },
        PipelineStage {
            name: "queue",
            facts: [
                plain(format!("ready {}", queue.ready)),
                plain(format!("waiting {}", queue.delayed)),
                (if queue.failing > 0 { BAD } else { PLAIN }, format!("failing {}", queue.failing)),
                plain(format!("retries {}", queue.retries)),
            ],
        },
        PipelineStage {
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
        Activity::Watching => PLAIN,
        Activity::Listing => CHANGED,
        Activity::Waiting | Activity::Nothing => BAD,
    }
}

/// Draws the stages side by side, with arrows.
fn beside(stages: &[PipelineStage; 5]) -> Vec<Line> {
    let mut head = Line::new();
    for (index, (stage, width)) in stages.iter().zip(COLUMNS).enumerate() {
        head = head.with(STRONG, stage.name);
        if index + 1 < stages.len() {
            let dashes = width.saturating_sub(stage.name.len() + 3);
            head = head.with(FAINT, format!(" {}► ", "─".repeat(dashes)));
        }
    }
    let mut lines = vec![head];
    for row in 0..4 {
        let mut line = Line::new();
        for (stage, width) in stages.iter().zip(COLUMNS) {
            if let Some((style, fact)) = stage.facts.get(row) {
                line = line.with(*style, format!("{fact:<width$}"));
            }
        }
        lines.push(line);
    }
    lines
}

/// Draws the stages one below the other, on narrow terminals.
fn below(stages: &[PipelineStage; 5]) -> Vec<Line> {
    let line = |stage: &PipelineStage| {
        let mut line = Line::new().with(STRONG, format!("{:<11}", stage.name));
        for (style, fact) in stage.facts.iter().filter(|(_, fact)| !fact.is_empty()) {
            line = line.with(*style, fact.as_str()).with(PLAIN, "  ");
        }
        line
    };
    stages.iter().map(line).collect()
}

/// Rate of a counter.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Values of the last second, and the last one before it.
    counts: VecDeque<(Duration, u64)>,
}

impl Rate {
    /// Records the value of the counter.
    pub(super) fn count(&mut self, now: Duration, count: u64) {
        self.counts.push_back((now, count));
        while self.counts.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW) {
            self.counts.pop_front();
        }
    }

    /// Returns the current rate.
    pub(super) fn per_second(&self) -> u64 {
        let (Some((from, first)), Some((to, last))) = (self.counts.front(), self.counts.back()) else { return 0 };
        let seconds = to.saturating_sub(*from).as_secs_f64();
        if seconds <= 0.0 { 0 } else { (last.saturating_sub(*first) as f64 / seconds).round() as u64 }
    }
}

#[cfg(test)]
mod tests;
