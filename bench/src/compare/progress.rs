//! Where a run is, on the terminal or in the log.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// What is yet to be done, and how long it is likely to take.
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

/// How much the guesses are trusted at first.
const TRUST: Duration = Duration::from_secs(30);

impl Plan {
    /// Adds a step that does what this key names, and the time it takes if nothing better is known.
    pub(crate) fn add(&mut self, key: impl Into<String>, guess: Duration) {
        self.steps.push(Step { key: key.into(), guess, took: None });
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The next step has taken so long.
    fn done(&mut self, took: Duration) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.took.is_none()) {
            step.took = Some(took);
        }
    }

    /// How long all that is left will take: as long as the same took before, else as guessed, and so much faster or slower
    /// as guesses were wrong so far.
    pub(crate) fn left(&self) -> Duration {
        let done = || self.steps.iter().filter_map(|step| Some((step, step.took?)));
        let (taken, guessed) = done().fold((Duration::ZERO, Duration::ZERO), |(taken, guessed), (step, took)| {
            (taken + took, guessed + step.guess)
        });
        // A little that was guessed right to begin with, so that the first short steps do not decide.
        let scale = (taken + TRUST).as_secs_f64() / (guessed + TRUST).as_secs_f64();
        let expected = |step: &Step| match done().rfind(|(known, _)| known.key == step.key) {
            Some((_, took)) => took,
            None => step.guess.mul_f64(scale),
        };
        self.steps.iter().filter(|step| step.took.is_none()).map(expected).sum()
    }
}

/// Shows where a run is, on stderr: a bar on a terminal, a line per step anywhere else.
pub(crate) struct Progress {
    plan: Plan,
    begin: Instant,
    step: Option<(String, Instant)>,
    finished: usize,
    is_terminal: bool,
    drawn: Option<Instant>,
}

/// How often the bar is drawn.
const DRAW: Duration = Duration::from_millis(200);

impl Progress {
    pub(crate) fn new(plan: Plan) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Progress { plan, begin: Instant::now(), step: None, finished: 0, is_terminal, drawn: None }
    }

    /// A step begins.
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

    /// It has come to its end.
    pub(crate) fn done(&mut self) {
        if let Some((_, begin)) = self.step.take() {
            self.plan.done(begin.elapsed());
            self.finished += 1;
        }
    }

    /// Draws the bar anew, if it is time to.
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

    /// Says something that stays.
    pub(crate) fn say(&mut self, text: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        self.write(&format!("{clear}{text}\n"));
        self.drawn = None;
    }

    fn write(&self, text: &str) {
        // Whoever has closed it does not want to know.
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

/// A time as people say it.
pub(crate) fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 100 { format!("{seconds} s") } else { format!("{} min", (seconds + 30) / 60) }
}

#[cfg(test)]
mod tests;
