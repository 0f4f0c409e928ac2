//! Progress of a run, on the terminal or in the log.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The remaining steps and their estimated durations.
#[derive(Default)]
pub(crate) struct Plan {
    steps: Vec<Step>,
}

struct Step {
    /// Steps with the same key do the same.
    key: String,
    guess: Duration,
    took: Option<Duration>,
}

/// Weight of the estimates at the start.
const TRUST: Duration = Duration::from_secs(30);

impl Plan {
    /// Adds a step with this key and its estimated duration.
    pub(crate) fn add(&mut self, key: impl Into<String>, guess: Duration) {
        self.steps.push(Step { key: key.into(), guess, took: None });
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Records the duration of the next step.
    fn done(&mut self, took: Duration) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.took.is_none()) {
            step.took = Some(took);
        }
    }

    /// Returns the remaining time: measured durations of equal steps, else estimates scaled by their error so far.
    pub(crate) fn left(&self) -> Duration {
        let done = || self.steps.iter().filter_map(|step| Some((step, step.took?)));
        let (taken, guessed) = done().fold((Duration::ZERO, Duration::ZERO), |(taken, guessed), (step, took)| {
            (taken + took, guessed + step.guess)
        });
        // Weighted, so that the first short steps do not decide.
        let scale = (taken + TRUST).as_secs_f64() / (guessed + TRUST).as_secs_f64();
        let expected = |step: &Step| match done().rfind(|(known, _)| known.key == step.key) {
            Some((_, took)) => took,
            None => step.guess.mul_f64(scale),
        };
        self.steps.iter().filter(|step| step.took.is_none()).map(expected).sum()
    }
}

/// Shows the progress on stderr: a bar on a terminal, a line per step elsewhere.
pub(crate) struct Progress {
    plan: Plan,
    begin: Instant,
    step: Option<(String, Instant)>,
    finished: usize,
    is_terminal: bool,
    drawn: Option<Instant>,
}

/// Refresh interval of the bar.
const DRAW: Duration = Duration::from_millis(200);

impl Progress {
    pub(crate) fn new(plan: Plan) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Progress { plan, begin: Instant::now(), step: None, finished: 0, is_terminal, drawn: None }
    }

    /// Starts a step.
    pub(crate) fn step(&mut self, label: String) {
        if !self.is_terminal {
            let (number, all, left) = (self.finished + 1, self.plan.len(), words(self.plan.left()));
            self.write(&format!(
                "[{number}/{all}] {label} ({} so far, about {left} left)\n",
                words(self.begin.elapsed())
            ));
        }
        self.step = Some((label, Instant::now()));
        self.drawn = None;
        self.tick();
    }

    /// Ends the step.
    pub(crate) fn done(&mut self) {
        if let Some((_, begin)) = self.step.take() {
            self.plan.done(begin.elapsed());
            self.finished += 1;
        }
    }

    /// Redraws the bar, if it is due.
    pub(crate) fn tick(&mut self) {
        let Some((label, begin)) = &self.step else { return };
        if !self.is_terminal || self.drawn.is_some_and(|drawn| drawn.elapsed() < DRAW) {
            return;
        }
        let left = self.plan.left().saturating_sub(begin.elapsed());
        let line = bar(self.begin.elapsed(), left, (self.finished + 1, self.plan.len()), label);
        self.write(&format!("\r\x1b[K{line}"));
        self.drawn = Some(Instant::now());
    }

    /// Prints a line above the bar.
    pub(crate) fn say(&mut self, text: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        self.write(&format!("{clear}{text}\n"));
        self.drawn = None;
    }

    fn write(&self, text: &str) {
        // A closed stderr is ignored.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            self.write("\r\x1b[K");
        }
    }
}

const WIDTH: usize = 28;

fn bar(elapsed: Duration, left: Duration, (number, all): (usize, usize), label: &str) -> String {
    let whole = (elapsed + left).as_secs_f64().max(f64::MIN_POSITIVE);
    let share = (elapsed.as_secs_f64() / whole).clamp(0.0, 1.0);
    let full = (share * WIDTH as f64) as usize;
    let bar: String = (0..WIDTH).map(|place| if place < full { '█' } else { '░' }).collect();
    let (percent, elapsed, left) = (share * 100.0, words(elapsed), words(left));
    format!("{bar} {percent:3.0} % {elapsed}, about {left} left · {number}/{all} {label}")
}

/// Formats a duration.
pub(crate) fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 100 { format!("{seconds} s") } else { format!("{} min", (seconds + 30) / 60) }
}

#[cfg(test)]
mod tests;
