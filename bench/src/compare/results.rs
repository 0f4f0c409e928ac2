//! Results of the rounds, and ratios between programs.

use serde_json::{Value, json};

use super::cases::Case;
use super::measures::{MEASURES, Measure};
use super::programs::OURS;
use super::run::Figures;
use crate::server::wire::Wire;

/// Result of one run.
struct Entry {
    case: &'static str,
    wire: Wire,
    program: &'static str,
    round: usize,
    outcome: Result<Figures, String>,
}

/// Results so far.
#[derive(Default)]
pub(crate) struct Results {
    entries: Vec<Entry>,
}

/// Median and range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Returns the spread of these values, if there are any.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len().is_multiple_of(2) {
            true => (sorted.get(middle.checked_sub(1)?)? + sorted.get(middle)?) / 2.0,
            false => *sorted.get(middle)?,
        };
        Some(Spread { median, least: *sorted.first()?, most: *sorted.last()? })
    }
}

impl Results {
    pub(crate) fn add(
        &mut self,
        case: &Case,
        wire: Wire,
        program: &'static str,
        round: usize,
        outcome: Result<Figures, String>,
    ) {
        self.entries.push(Entry { case: case.name, wire, program, round, outcome });
    }

    /// Returns the number of failures of a program.
    pub(crate) fn failures_of(&self, case: &Case, wire: Wire, program: &str) -> usize {
        let entries = self.entries.iter().filter(|entry| entry.is(case.name, wire, program));
        entries.filter(|entry| entry.outcome.is_err()).count()
    }

    /// Returns all failures.
    pub(crate) fn failures(&self) -> Vec<String> {
        let failed = self.entries.iter().filter_map(|entry| {
            let error = entry.outcome.as_ref().err()?;
            let Entry { case, wire, program, round, .. } = entry;
            Some(format!("{program}, {case}, {}, round {}: {error}", wire.name(), round + 1))
        });
        failed.collect()
    }

    /// Returns the version that a program reports.
    pub(crate) fn version(&self, program: &str) -> Option<&str> {
        let own = self.entries.iter().filter(|entry| entry.program == program);
        own.filter_map(|entry| entry.outcome.as_ref().ok()?.get("program")?.as_str()).next()
    }

    /// Returns a figure of each round that has it.
    fn rounds(&self, case: &str, wire: Wire, program: &str, figure: &str) -> Vec<(usize, f64)> {
        let entries = self.entries.iter().filter(|entry| entry.is(case, wire, program));
        entries.filter_map(|entry| Some((entry.round, entry.outcome.as_ref().ok()?.get(figure)?.as_f64()?))).collect()
    }

    /// Whether a program has reported a figure in any round.
    pub(crate) fn has_figure(&self, case: &str, wire: Wire, program: &str, figure: &str) -> bool {
        !self.rounds(case, wire, program, figure).is_empty()
    }

    /// Returns a measure of a program, in its unit.
    pub(crate) fn value(&self, case: &str, wire: Wire, program: &str, measure: &Measure) -> Option<Spread> {
        let rounds = self.rounds(case, wire, program, measure.figure_of(program));
        Spread::of(rounds.into_iter().map(|(_, value)| value / measure.unit))
    }

    /// Returns how many times better evenkeel is: the spread over the ratios within each round.
    pub(crate) fn ratio(
        &self,
        case: &str,
        wire: Wire,
        (program, of): (&str, Wire),
        measure: &Measure,
    ) -> Option<Spread> {
        let ours = self.rounds(case, wire, OURS, measure.figure_of(OURS));
        let theirs = self.rounds(case, of, program, measure.figure_of(program));
        Spread::of(ours.iter().filter_map(|(round, own)| {
            let (_, their) = theirs.iter().find(|(other, _)| other == round)?;
            Some(if measure.more_is_better { own / their } else { their / own })
        }))
    }

    /// Returns the format in which a program is compared: the same, or JSON if it does not support it.
    pub(crate) fn form_of(&self, case: &str, wire: Wire, program: &str) -> Option<Wire> {
        let ran = |wire: Wire| self.entries.iter().any(|entry| entry.is(case, wire, program));
        [wire, Wire::Json].into_iter().find(|wire| ran(*wire))
    }

    /// Returns the columns of a table: each program that ran, the format in which it is compared, and the heading.
    pub(crate) fn columns(
        &self,
        case: &str,
        wire: Wire,
        programs: &[&'static str],
    ) -> Vec<(&'static str, Wire, String)> {
        let ran = programs.iter().filter_map(|program| Some((*program, self.form_of(case, wire, program)?)));
        let ran = ran.filter(|(program, form)| *program != OURS || *form == wire);
        ran.map(|(program, form)| match form == wire {
            true => (program, form, program.to_owned()),
            false => (program, form, format!("{program} ({})", form.name())),
        })
        .collect()
    }

    /// Returns the rows of the table of a case for `bench/report`: the value of every round, and null for a round without.
    fn rows(&self, case: &Case, wire: Wire, programs: &[&'static str]) -> Vec<Value> {
        let columns = self.columns(case.name, wire, programs);
        let measured = MEASURES.iter().filter(|measure| {
            columns.iter().any(|(program, form, _)| self.has_figure(case.name, *form, program, measure.figure))
        });
        let row = |measure: &Measure| {
            let mut values = json!({});
            for (program, form, heading) in &columns {
                let rounds = self.rounds(case.name, *form, program, measure.figure_of(program));
                let value = |round| rounds.iter().find(|(of, _)| *of == round).map(|(_, value)| value / measure.unit);
                if !rounds.is_empty() {
                    values[heading.as_str()] = json!((0..case.rounds).map(value).collect::<Vec<_>>());
                }
            }
            json!({
                "title": measure.title, "more": measure.more_is_better, "compared": measure.compared, "values": values,
            })
        };
        measured.map(row).collect()
    }

    /// Returns everything as JSON.
    pub(crate) fn json(&self, cases: &[Case], programs: &[&'static str]) -> Value {
        let mut groups = Vec::new();
        for case in cases {
            for wire in &case.wires {
                let mut group = json!({
                    "case": case.name, "title": case.title, "wire": wire.name(), "objects": case.objects,
                    "updates": case.updates, "rows": self.rows(case, *wire, programs),
                });
                for program in programs {
                    let entries = self.entries.iter().filter(|entry| entry.is(case.name, *wire, program));
                    let rounds: Vec<&Figures> = entries.filter_map(|entry| entry.outcome.as_ref().ok()).collect();
                    group["rounds"][program] = json!(rounds);
                    for measure in MEASURES {
                        if let Some(value) = self.value(case.name, *wire, program, measure) {
                            group["medians"][program][measure.figure] = json!(value.median * measure.unit);
                        }
                        let Some(form) = self.form_of(case.name, *wire, program).filter(|_| *program != OURS) else {
                            continue;
                        };
                        if let Some(ratio) = self.ratio(case.name, *wire, (program, form), measure) {
                            let Spread { median, least, most } = ratio;
                            group["better_than"][program][measure.figure] =
                                json!({"median": median, "least": least, "most": most});
                        }
                    }
                }
                groups.push(group);
            }
        }
        json!({"groups": groups, "failures": self.failures()})
    }
}

impl Entry {
    fn is(&self, case: &str, wire: Wire, program: &str) -> bool {
        (self.case, self.wire, self.program) == (case, wire, program)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::cases::{Scale, cases};
    use super::super::measures::measure;
    use super::*;

    /// Results of two rounds of 50 pods, in both formats.
    pub(crate) fn results() -> (Vec<Case>, Results) {
        let scale = Scale { objects: 50, updates: 100, latency: 0, rounds: 2 };
        let cases = cases(&["informer".into(), "small".into()], false, &[Wire::Json, Wire::Protobuf], scale).unwrap();
        let mut results = Results::default();
        let mut add = |case: &Case, wire, program, round, figures: Value| {
            let Value::Object(figures) = figures else { panic!("no object") };
            results.add(case, wire, program, round, Ok(figures));
        };
        for case in &cases {
            for (round, slow) in [(0, 1.0), (1, 3.0)] {
                let figures = |times: f64| {
                    json!({"program": "x 1.0", "sync_cpu_s": times * slow, "rss_steady_kb": times * case.objects as f64 * 1e3,
                        "events_per_s": 1e5 / times / slow, "typed_cpu_s": 0.5, "objects": case.objects})
                };
                add(case, Wire::Json, OURS, round, figures(1.0));
                add(case, Wire::Protobuf, OURS, round, figures(0.5));
                add(case, Wire::Json, "client-go", round, figures(10.0 + round as f64));
                add(case, Wire::Protobuf, "client-go", round, figures(8.0));
                add(case, Wire::Json, "kube-rs", round, figures(20.0));
            }
        }
        results.add(&cases[0], Wire::Json, "client-go-list", 0, Err("it hangs".into()));
        (cases, results)
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let (_, results) = results();
        let cpu = measure("sync_cpu_s");
        let ratio = |wire, program| results.ratio("informer", wire, program, cpu);
        // Ten and eleven times in each round, whatever the speed of the machine.
        let expected = Spread { median: 10.5, least: 10.0, most: 11.0 };
        assert_eq!(ratio(Wire::Json, ("client-go", Wire::Json)), Some(expected));
        assert_eq!(ratio(Wire::Protobuf, ("kube-rs", Wire::Json)).map(|ratio| ratio.median), Some(40.0));
        assert_eq!(ratio(Wire::Json, ("client-go-list", Wire::Json)), None);
        let events = results.ratio("informer", Wire::Json, ("kube-rs", Wire::Json), measure("events_per_s"));
        assert_eq!(events.map(|ratio| ratio.least), Some(20.0));
    }

    #[test]
    fn typed_cpu_includes_decoding_during_the_sync() {
        let (_, results) = results();
        let ratio = results.ratio("informer", Wire::Json, ("kube-rs", Wire::Json), measure("typed_cpu_s"));
        assert_eq!(ratio.map(|ratio| ratio.least), Some(40.0), "20 s to sync, half a second to decode");
    }

    #[test]
    fn a_program_without_protobuf_is_compared_in_json() {
        let (_, results) = results();
        assert_eq!(results.form_of("informer", Wire::Protobuf, "kube-rs"), Some(Wire::Json));
        assert_eq!(results.form_of("informer", Wire::Protobuf, "client-go"), Some(Wire::Protobuf));
        assert_eq!(results.form_of("large", Wire::Protobuf, "client-go"), None);
    }

    #[test]
    fn failures_are_counted_and_reported() {
        let (cases, results) = results();
        assert_eq!(results.failures(), ["client-go-list, informer, json, round 1: it hangs"]);
        assert_eq!(results.failures_of(&cases[0], Wire::Json, "client-go-list"), 1);
        assert_eq!(results.failures_of(&cases[0], Wire::Json, "client-go"), 0);
    }

    #[test]
    fn the_json_is_complete() {
        let (cases, results) = results();
        let all = results.json(&cases, &[OURS, "client-go", "kube-rs"]);
        let group = &all["groups"][0];
        assert_eq!((&group["case"], &group["wire"]), (&json!("informer"), &json!("json")));
        assert_eq!(group["medians"][OURS]["sync_cpu_s"], json!(2.0));
        assert_eq!(group["better_than"]["client-go"]["sync_cpu_s"]["most"], json!(11.0));
        assert_eq!(group["rounds"]["kube-rs"].as_array().map(Vec::len), Some(2));
        assert_eq!(all["failures"].as_array().map(Vec::len), Some(1));
        let row = &all["groups"][1]["rows"][0];
        assert_eq!((&row["title"], &row["more"]), (&json!("sync, CPU, s"), &json!(false)));
        assert_eq!(row["values"]["evenkeel"], json!([0.5, 1.5]));
        assert_eq!(row["values"]["kube-rs (json)"], json!([20.0, 60.0]));
    }

    #[test]
    fn a_spread_has_the_median_and_the_extremes() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([2.0]), Some(Spread { median: 2.0, least: 2.0, most: 2.0 }));
        assert_eq!(Spread::of([3.0, 1.0, f64::NAN]), Some(Spread { median: 2.0, least: 1.0, most: 3.0 }));
    }
}
