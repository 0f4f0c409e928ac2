//! Prints the results as tables.

use std::fmt::Write as _;

use super::cases::Case;
use super::measures::{MEASURES, Measure};
use super::programs::{OURS, PROGRAMS};
use super::results::{Results, Spread};
use crate::server::wire::Wire;

/// Returns a table for each case and format, in aligned Markdown.
pub(crate) fn tables(results: &Results, cases: &[Case], programs: &[&'static str]) -> String {
    let mut out = String::new();
    for case in cases {
        for wire in &case.wires {
            let table = table(results, case, *wire, programs);
            if table.len() > 1 {
                let rounds = if case.rounds == 1 { "one round".to_owned() } else { format!("{} rounds", case.rounds) };
                // Writing to a string does not fail, here and below.
                let _ = writeln!(out, "\n### {}, {} ({rounds})\n", case.title, wire.name());
                out.push_str(&aligned(&table));
            }
        }
    }
    out
}

/// Returns the header and the rows of all measures with a figure.
fn table(results: &Results, case: &Case, wire: Wire, programs: &[&'static str]) -> Vec<Vec<String>> {
    let ran = results.columns(case.name, wire, programs);
    let head = ran.iter().map(|(_, _, heading)| heading.clone());
    let mut table = vec![[String::new()].into_iter().chain(head).collect::<Vec<_>>()];
    for measure in MEASURES {
        let cells: Vec<String> =
            ran.iter().map(|(program, form, _)| cell(results, case, wire, (program, *form), measure)).collect();
        if ran.iter().any(|(program, form, _)| results.has_figure(case.name, *form, program, measure.figure)) {
            table.push([measure.title.to_owned()].into_iter().chain(cells).collect());
        }
    }
    table
}

fn cell(results: &Results, case: &Case, wire: Wire, (program, form): (&str, Wire), measure: &Measure) -> String {
    let Some(value) = results.value(case.name, form, program, measure) else {
        return if results.failures_of(case, form, program) > 0 { "failed" } else { "–" }.to_owned();
    };
    let ratio = (measure.compared && program != OURS)
        .then(|| results.ratio(case.name, wire, (program, form), measure))
        .flatten();
    match ratio {
        Some(Spread { median, least, most }) if least == most => format!("{} · {}×", show(value.median), show(median)),
        Some(Spread { median, least, most }) => {
            format!("{} · {}× ({}–{})", show(value.median), show(median), show(least), show(most))
        }
        None => show(value.median),
    }
}

/// Formats a number with its significant digits.
pub(crate) fn show(value: f64) -> String {
    match value.abs() {
        size if size >= 10_000_000.0 => format!("{:.0}M", value / 1e6),
        size if size >= 1_000_000.0 => format!("{:.1}M", value / 1e6),
        size if size >= 10_000.0 => super::cases::thousands(value.round() as usize),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// Returns aligned Markdown of a header and its rows.
pub(crate) fn aligned(table: &[Vec<String>]) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let width =
        |column: usize| table.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (number, row) in table.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(out, "| {cell:<width$} ");
        }
        out.push_str("|\n");
        if number == 0 {
            for width in &widths {
                let _ = write!(out, "|{}", "-".repeat(width + 2));
            }
            out.push_str("|\n");
        }
    }
    out
}

/// Returns the legend: how to read the tables, and the programs.
pub(crate) fn legend(results: &Results, programs: &[&'static str]) -> String {
    let mut out = String::from(
        "Figures are medians of the rounds. After the dot: how many times better evenkeel is, the median of the ratios of \
         single rounds and, in parentheses, the minimum and maximum of them; below 1 evenkeel is worse.\n",
    );
    for (name, note) in PROGRAMS.iter().filter(|(name, _)| programs.contains(name)) {
        let version = results.version(name).unwrap_or("version unknown");
        let _ = writeln!(out, "- {name}: {version}; {note}");
    }
    for failure in results.failures() {
        let _ = writeln!(out, "- FAILED: {failure}");
    }
    out
}

/// Returns how the cost of an object grows with their number.
pub(crate) fn growth(results: &Results, cases: &[Case], measure: &Measure) -> String {
    let mut out = String::new();
    let [before, .., after] = cases else { return out };
    for wire in &after.wires {
        let value = |case: &Case| results.value(case.name, *wire, OURS, measure);
        if let (Some(few), Some(many)) = (value(before), value(after)) {
            let _ = writeln!(
                out,
                "{}, {}: {} with {}, {} with {}: {} times ({}–{})",
                measure.title,
                wire.name(),
                show(few.median),
                super::cases::thousands(before.objects),
                show(many.median),
                super::cases::thousands(after.objects),
                show(many.median / few.median),
                show(many.least / few.most),
                show(many.most / few.least),
            );
        }
    }
    out
}

#[cfg(test)]
mod tests;
