//! The figures of all rounds, and the ratios between them.

use serde_json::{Value, json};

use super::programs::Program;
use super::round::Figures;

/// A line of the table.
struct Measure {
    title: &'static str,
    /// Under which name a program tells it.
    name: &'static str,
    /// What a unit of the table is in units of the program.
    unit: f64,
    more_is_better: bool,
}

const fn less(title: &'static str, name: &'static str, unit: f64) -> Measure {
    Measure { title, name, unit, more_is_better: false }
}

const MEASURES: &[Measure] = &[
    less("sync, wall, s", "sync_wall_s", 1.0),
    less("sync, CPU, s", "sync_cpu_s", 1.0),
    less("sync, peak memory, MB", "rss_peak_kb", MEGABYTE),
    less("steady memory, MB", "rss_steady_kb", MEGABYTE),
    less("memory after a forced collection, MB", "rss_gc_kb", MEGABYTE),
    less("relist, CPU, s", "relist_cpu_s", 1.0),
    less("relist, peak memory, MB", "relist_peak_kb", MEGABYTE),
    less("relist, peak over steady", "relist_peak_over_steady", 1.0),
    Measure { title: "storm, events/s", name: "events_per_s", unit: 1.0, more_is_better: true },
    less("storm, wall, s", "storm_wall_s", 1.0),
    less("storm, CPU, s", "storm_cpu_s", 1.0),
];

/// In KiB.
const MEGABYTE: f64 = 1e6 / 1024.0;

/// What the rounds have shown so far.
pub(crate) struct Results {
    names: Vec<String>,
    /// For each program, the figures of each round.
    rounds: Vec<Vec<Figures>>,
}

impl Results {
    pub(crate) fn new(programs: &[Program]) -> Self {
        let names: Vec<String> = programs.iter().map(|program| program.name.clone()).collect();
        Results { rounds: vec![Vec::new(); names.len()], names }
    }

    pub(crate) fn add(&mut self, program: usize, figures: Figures) {
        self.rounds[program].push(figures);
    }

    fn values(&self, program: usize, measure: &Measure) -> Vec<f64> {
        let figures = self.rounds[program].iter().filter_map(|figures| figures.get(measure.name)?.as_f64());
        figures.map(|value| value / measure.unit).collect()
    }

    /// How many times better the first program was than another one, in each round.
    fn ratios(&self, other: usize, measure: &Measure) -> Vec<f64> {
        let (ours, theirs) = (self.values(0, measure), self.values(other, measure));
        let pairs = ours.into_iter().zip(theirs);
        pairs.map(|(ours, theirs)| if measure.more_is_better { ours / theirs } else { theirs / ours }).collect()
    }

    /// Prints medians and, in parentheses, the least and the most; then how many times better the first program is than
    /// each of the others.
    pub(crate) fn print(&self) {
        print!("{:<37}", "median (least–most)");
        for name in &self.names {
            print!(" {name:>25}");
        }
        for name in self.names.iter().skip(1) {
            print!(" {:>25}", format!("better than {name}"));
        }
        println!();
        for measure in MEASURES {
            print!("{:<37}", measure.title);
            for program in 0..self.names.len() {
                print!(" {:>25}", spread(&self.values(program, measure), ""));
            }
            for other in 1..self.names.len() {
                print!(" {:>25}", spread(&self.ratios(other, measure), "×"));
            }
            println!();
        }
    }

    /// All of it in one value, added to what is said of the run.
    pub(crate) fn json(&self, mut run: Value) -> Value {
        for (program, name) in self.names.iter().enumerate() {
            run["rounds"][name] = json!(self.rounds[program]);
            for measure in MEASURES {
                let values = self.values(program, measure);
                if !values.is_empty() {
                    run["medians"][name][measure.name] = json!(median(&values) * measure.unit);
                }
                let ratios = self.ratios(program, measure);
                if program > 0 && !ratios.is_empty() {
                    run["better_than"][name][measure.name] = json!(median(&ratios));
                }
            }
        }
        run
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] }
}

fn spread(values: &[f64], sign: &str) -> String {
    if values.is_empty() {
        return "–".to_owned();
    }
    let (least, most) =
        values.iter().fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
    let digits = |value: f64| match value.abs() {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    let show = |value: f64| format!("{value:.*}", digits(value));
    format!("{}{sign} ({}–{})", show(median(values)), show(least), show(most))
}
