//! A failure as an ordinary test.

use std::fmt::Write as _;

use evenkeel_apiserver::{FaultSpecError, Faults, Rule};

use crate::check::{Failed, RunSpec};
use crate::decisions::{ChoiceSource, Stream, Tape};
use crate::run::{Failure, Run, RunPlan};
use crate::scenario::Scenario;

/// At most this many lines of the timeline are part of the test.
const LINES: usize = 30;

impl Scenario {
    /// Runs the scenario once with fault rules of the API server, and records it. Nothing else goes wrong, and the order of tasks is the
    /// plain one. The user of a request is its process:
    ///
    /// ```
    /// # fn scenario() -> evenkeel_sim::Scenario { evenkeel_sim::Scenario::new("empty") }
    /// # fn main() -> Result<(), evenkeel_sim::FaultSpecError> {
    /// let run = scenario().run_with_fault_rules(&["commit-then-drop:user=controller,verb=create,resource=secrets,times=1"])?;
    /// assert!(run.failure.is_none(), "{}", run.trace);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// `Faults::parse` of evenkeel's API server lists what a rule may say. Rules hold until faults stop.
    ///
    /// # Errors
    /// A text that is no rule.
    pub fn run_with_fault_rules(&self, rules: &[impl AsRef<str>]) -> Result<Run, FaultSpecError> {
        let rules = rules.iter().map(|rule| Faults::parse(rule.as_ref())).collect::<Result<Vec<Rule>, _>>()?;
        let plain = ChoiceSource::Tape(Tape::default());
        let plan = RunPlan { rules: &rules, is_recorded: true, ..RunPlan::new(plain) };
        Ok(self.compare(plan, &mut None))
    }

    /// Returns rules that break the same invariant as a run of which only requests fail, if there are such rules.
    pub(crate) fn verified_rules(&self, spec: &RunSpec, run: &Run, failure: &Failure) -> Option<Vec<String>> {
        let RunSpec::Tape { tape, .. } = spec else { return None };
        if tape.0.keys().any(|(stream, _)| !matches!(stream, Stream::Profile | Stream::Fault)) {
            return None;
        }
        let rules = run.recording.requests.complete()?;
        let repeated = self.run_with_fault_rules(rules).ok()?.failure?;
        (repeated.invariant == failure.invariant).then(|| rules.to_vec())
    }
}

impl Failed {
    /// Returns the source of a test that fails as this run did, and passes when the code is mended. `scenario` is an expression that
    /// builds the scenario.
    ///
    /// If only requests fail, the test names them in [fault rules](Scenario::run_with_fault_rules), and a crash or a stale restart by
    /// the number of a write: both hold when the code changes. Otherwise it has the tape, which
    /// [diverges](crate::ReplayError::Diverged) when the code changes before the last fault. Then the test says so.
    pub fn regression_test(&self, scenario: &str) -> String {
        let mut source = String::new();
        // Writing to a text does not fail.
        let _ = self.write_test(&mut source, scenario);
        source
    }

    fn write_test(&self, out: &mut String, scenario: &str) -> std::fmt::Result {
        let name = words(&format!("{} {}", self.scenario, self.failure.invariant));
        writeln!(out, "// Found by simulation. {}", one_line(&self.failure.to_string()))?;
        writeln!(out, "//")?;
        let lines = self.run.trace.lines();
        let first = lines.len().saturating_sub(LINES);
        if first > 0 {
            writeln!(out, "//   …")?;
        }
        for line in lines.get(first..).unwrap_or_default() {
            writeln!(out, "// {}", one_line(&line.to_string()))?;
        }
        writeln!(out, "#[test]\nfn {name}() {{")?;
        match &self.rules {
            Some(rules) => {
                writeln!(out, "    let rules = [")?;
                rules.iter().try_for_each(|rule| writeln!(out, "        {rule:?},"))?;
                writeln!(out, "    ];\n    let run = {scenario}.run_with_fault_rules(&rules).unwrap();")?;
            }
            None => writeln!(out, "    let run = {scenario}.replay({:?}).unwrap();", self.spec.to_string())?,
        }
        writeln!(out, "    assert!(run.failure.is_none(), \"{{}}\", run.trace);\n}}")
    }
}

/// Returns a text as the name of a function.
fn words(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        match letter.to_ascii_lowercase() {
            letter @ ('a'..='z' | '0'..='9') => name.push(letter),
            _ if name.ends_with('_') || name.is_empty() => {}
            _ => name.push('_'),
        }
    }
    let name = name.trim_end_matches('_');
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("run_{name}") } else { name.to_owned() }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
