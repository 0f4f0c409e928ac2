//! Plots the results as SVG, readable on light and dark backgrounds.

use std::fmt::Write as _;

use super::cases::{Case, thousands};
use super::measures::{MEASURES, Measure};
use super::programs::OURS;
use super::results::{Results, Spread};
use super::table::show;
use crate::data::Data;
use crate::server::wire::Wire;

const WIDTH: f64 = 900.0;
const PANEL: f64 = WIDTH / 3.0;
const ROW: f64 = 22.0;
/// Start of the bars in a panel, and the length of the longest.
const BAR_BEGIN: f64 = 92.0;
const BAR_LENGTH: f64 = 84.0;
/// Height of the growth chart.
const GROWTH: f64 = 230.0;

/// The panels, in rows of three.
const PANELS: &[(&str, &str, &str, Wire)] = &[
    ("CPU to sync, protobuf", "sync_cpu_s", "s", Wire::Protobuf),
    ("Steady memory, protobuf", "rss_steady_kb", "MB", Wire::Protobuf),
    ("Updates per second, protobuf", "events_per_s", "", Wire::Protobuf),
    ("CPU to sync, JSON", "sync_cpu_s", "s", Wire::Json),
    ("Steady memory, JSON", "rss_steady_kb", "MB", Wire::Json),
    ("Peak memory of a relist, JSON", "relist_peak_kb", "MB", Wire::Json),
];

const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#1f2328}.t{font-weight:600;font-size:13px}\
    .n{fill:#59636e}.a{stroke:#d1d9e0;fill:none}.w{stroke:#59636e;fill:none}.p0{fill:#0969da;stroke:#0969da}\
    .p1{fill:#8c959f;stroke:#8c959f}.p2{fill:#b6bec7;stroke:#b6bec7}.p3{fill:#c4843f;stroke:#c4843f}\
    .p4{fill:#d9a86c;stroke:#d9a86c}.l{fill:none;stroke-width:2}.b{stroke:none}.o{font-weight:600}\
    @media(prefers-color-scheme:dark){text{fill:#f0f6fc}.n{fill:#9198a1}.a{stroke:#3d444d}.w{stroke:#9198a1}\
    .p0{fill:#4493f8;stroke:#4493f8}.p1{fill:#7d8590;stroke:#7d8590}.p2{fill:#545d68;stroke:#545d68}}";

/// Draws all panels that have figures.
pub(crate) fn plot(results: &Results, cases: &[Case], programs: &[&'static str]) -> String {
    let mut body = String::new();
    let mut top = 10.0;
    let main = cases.iter().find(|case| case.data == Data::Pods && case.updates > 0).or(cases.first());
    if let Some(case) = main {
        let panels: Vec<Panel<'_>> =
            PANELS.iter().filter_map(|panel| Panel::new(results, case, programs, panel)).collect();
        // Writing to a string does not fail, here and below.
        let _ = write!(body, r#"<text class="t" x="0" y="{}">{}</text>"#, top + 12.0, escaped(&case.title));
        top += 26.0;
        for row in panels.chunks(3) {
            for (column, panel) in row.iter().enumerate() {
                panel.draw(&mut body, column as f64 * PANEL, top, programs);
            }
            let rows = row.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
            top += 34.0 + rows as f64 * ROW;
        }
    }
    top += growth(results, cases, programs, &mut body, top);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top:.0}\" role=\"img\">\
         <title>evenkeel beside its peers</title><style>{STYLE}</style>{body}</svg>\n"
    )
}

struct Panel<'a> {
    title: &'a str,
    unit: &'a str,
    bars: Vec<Bar>,
}

struct Bar {
    program: &'static str,
    label: String,
    value: Spread,
    ratio: Option<Spread>,
}

impl<'a> Panel<'a> {
    /// Returns none without a figure of evenkeel.
    fn new(
        results: &Results,
        case: &Case,
        programs: &[&'static str],
        (title, figure, unit, wire): &'a (&str, &str, &str, Wire),
    ) -> Option<Self> {
        let measure = measure(figure)?;
        results.value(case.name, *wire, OURS, measure)?;
        let bars = programs.iter().filter_map(|program| {
            let form = results.form_of(case.name, *wire, program)?;
            let value = results.value(case.name, form, program, measure)?;
            let ratio = results.ratio(case.name, *wire, (program, form), measure).filter(|_| *program != OURS);
            let label = if form == *wire { (*program).to_owned() } else { format!("{program}, JSON") };
            Some(Bar { program, label, value, ratio })
        });
        Some(Panel { title, unit, bars: bars.collect() })
    }

    fn draw(&self, out: &mut String, left: f64, top: f64, programs: &[&'static str]) {
        let most = self.bars.iter().map(|bar| bar.value.most).fold(f64::MIN_POSITIVE, f64::max);
        let length = |value: f64| value / most * BAR_LENGTH;
        let _ = write!(out, r#"<text class="t" x="{left:.0}" y="{:.0}">{}</text>"#, top + 14.0, escaped(self.title));
        for (number, bar) in self.bars.iter().enumerate() {
            let y = top + 24.0 + number as f64 * ROW;
            let (begin, value) = (left + BAR_BEGIN, bar.value);
            let class = class(programs, bar.program);
            let own = if bar.program == OURS { " class=\"o\"" } else { "" };
            let _ = write!(out, r#"<text{own} x="{left:.0}" y="{:.0}">{}</text>"#, y + 13.0, escaped(&bar.label));
            let width = length(value.median).max(1.0);
            let _ = write!(
                out,
                r#"<rect class="b {class}" x="{begin:.0}" y="{:.0}" width="{width:.1}" height="14" rx="2"/>"#,
                y + 2.0
            );
            if value.least < value.most {
                let (from, to) = (begin + length(value.least), begin + length(value.most));
                let _ = write!(out, r#"<path class="w" d="M{from:.1} {0:.0}H{to:.1}"/>"#, y + 9.0);
            }
            let figure = format!("{} {}", show(value.median), self.unit);
            let ratio = bar.ratio.map_or(String::new(), |ratio| format!(" · {}×", show(ratio.median)));
            let x = begin + length(value.most) + 6.0;
            let _ = write!(
                out,
                r#"<text x="{x:.1}" y="{:.0}">{}<tspan class="n">{}</tspan></text>"#,
                y + 13.0,
                figure.trim_end(),
                ratio
            );
        }
    }
}

/// Draws memory by number of pods, both logarithmic. Returns the height.
fn growth(results: &Results, cases: &[Case], programs: &[&'static str], out: &mut String, top: f64) -> f64 {
    let mut sizes: Vec<&Case> = cases.iter().filter(|case| case.data == Data::Pods && !case.light).collect();
    sizes.sort_by_key(|case| case.objects);
    let Some(measure) = measure("rss_steady_kb") else { return 0.0 };
    let wire = [Wire::Protobuf, Wire::Json]
        .into_iter()
        .find(|wire| sizes.iter().filter(|case| results.value(case.name, *wire, OURS, measure).is_some()).count() > 1);
    let Some(wire) = wire else { return 0.0 };
    let point = |case: &Case, program: &str| {
        let form = results.form_of(case.name, wire, program)?;
        Some((case.objects as f64, results.value(case.name, form, program, measure)?.median))
    };
    let lines: Vec<(&str, Vec<(f64, f64)>)> = programs
        .iter()
        .map(|program| (*program, sizes.iter().filter_map(|case| point(case, program)).collect()))
        .collect();
    let all = || lines.iter().flat_map(|(_, points)| points.iter().copied());
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| (least.min(value), most.max(value)))
    };
    let (fewest, most) = range(&mut all().map(|(objects, _)| objects));
    let (low, high) = range(&mut all().map(|(_, memory)| memory));
    // Whole powers of ten, for readable grid lines.
    let (low, high) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    let (left, right, upper, lower) = (60.0, WIDTH - 150.0, top + 34.0, top + GROWTH - 30.0);
    let x =
        |objects: f64| left + (objects / fewest).ln() / (most / fewest).ln().max(f64::MIN_POSITIVE) * (right - left);
    let y = |memory: f64| lower - (memory.log10() - low) / (high - low) * (lower - upper);
    let title = format!("Steady memory by number of pods, {}", wire.name());
    let _ = write!(out, r#"<text class="t" x="0" y="{:.0}">{title}</text>"#, top + 16.0);
    let mut power = low;
    while power <= high {
        let (at, text) = (y(10_f64.powf(power)), show(10_f64.powf(power)));
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let text = if power >= 0.0 { thousands(10_f64.powf(power) as usize) } else { text.to_owned() };
        let _ = write!(
            out,
            r#"<path class="a" d="M{left:.0} {at:.1}H{right:.0}"/><text class="n" x="0" y="{:.1}">{text} MB</text>"#,
            at + 4.0
        );
        power += 1.0;
    }
    for case in &sizes {
        let _ = write!(
            out,
            r#"<text class="n" text-anchor="middle" x="{:.1}" y="{:.0}">{}</text>"#,
            x(case.objects as f64),
            lower + 18.0,
            thousands(case.objects)
        );
    }
    let mut labels: Vec<(f64, &str)> = Vec::new();
    for (program, points) in &lines {
        let class = class(programs, program);
        let path: Vec<String> =
            points.iter().map(|(objects, memory)| format!("{:.1} {:.1}", x(*objects), y(*memory))).collect();
        if let Some((_, memory)) = points.last() {
            let _ = write!(out, r#"<path class="l {class}" style="fill:none" d="M{}"/>"#, path.join("L"));
            for (objects, memory) in points {
                let _ =
                    write!(out, r#"<circle class="b {class}" cx="{:.1}" cy="{:.1}" r="3"/>"#, x(*objects), y(*memory));
            }
            labels.push((y(*memory), program));
        }
    }
    // Labels at the ends of the lines, moved apart where they would overlap.
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut last = f64::MIN;
    for (at, program) in labels {
        let at = at.max(last + 15.0);
        last = at;
        let own = if program == OURS { " class=\"o\"" } else { "" };
        let _ = write!(out, r#"<text{own} x="{:.0}" y="{:.1}">{program}</text>"#, right + 10.0, at + 4.0);
    }
    GROWTH
}

fn measure(figure: &str) -> Option<&'static Measure> {
    MEASURES.iter().find(|measure| measure.figure == figure)
}

/// Returns the CSS class of a program; evenkeel is always the first.
fn class(programs: &[&'static str], program: &str) -> String {
    let others = programs.iter().filter(|name| **name != OURS);
    let number = others.take_while(|name| **name != program).count() + 1;
    if program == OURS { "p0".to_owned() } else { format!("p{}", number.min(4)) }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
