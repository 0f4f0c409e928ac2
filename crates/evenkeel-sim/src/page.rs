//! A recorded run as a page: step by step, forward and back.
//!
//! The page is one file without references to others, so that it can be kept with the results of a build or attached to an issue. It
//! has the look of the live page.

use std::fs;
use std::io;
use std::path::Path;

use evenkeel_base::page::{FORMAT, ICON, LOOK};
use serde_json::{Value, json};

use crate::check::Failed;
use crate::run::Run;
use crate::trace::TraceLine;

/// The environment variable with the folder into which [`Scenario::check`](crate::Scenario::check) and the matrices write the page of a
/// failure.
pub(crate) const PAGES: &str = "EVENKEEL_SIM_PAGES";

const TEMPLATE: &str = include_str!("page/recorded.html");
const STYLE: &str = include_str!("page/recorded.css");
const SCRIPT: &str = include_str!("page/recorded.js");

impl Run {
    /// Returns the run as one HTML file: the timeline step by step, the processes side by side, and the objects after every step.
    ///
    /// Runs of [`Scenario::replay`](crate::Scenario::replay) and of failures have the objects.
    pub fn to_html(&self) -> String {
        let style = format!("{LOOK}{STYLE}");
        // A page without other files has no modules to import from.
        let is_import = |line: &&str| line.starts_with("import ");
        let script: Vec<&str> = SCRIPT.lines().filter(|line| !is_import(line)).collect();
        let script = format!("{}\n{}\n", FORMAT.replace("export function", "function"), script.join("\n"));
        let icon = ICON.trim().replace('#', "%23").replace('"', "'");
        // Within a script element, the end of one must not appear.
        let run = self.to_json().replace('<', "\\u003c");
        let parts = [("{{icon}}", icon), ("{{style}}", style), ("{{script}}", script), ("{{run}}", run)];
        let mut page = String::new();
        let mut rest = TEMPLATE;
        // The markers are in this order but for the icon, which is there twice.
        while let Some(start) = rest.find("{{") {
            let (before, marked) = rest.split_at(start);
            page.push_str(before);
            let part = parts.iter().find(|(marker, _)| marked.starts_with(marker));
            let (text, length) = part.map_or(("{{", 2), |(marker, text)| (text.as_str(), marker.len()));
            page.push_str(text);
            rest = marked.get(length..).unwrap_or_default();
        }
        page + rest
    }

    /// Returns the run as JSON: the lines of the timeline with virtual time in microseconds, process, life and step; the objects that
    /// each line has changed; faults, and the failure.
    pub fn to_json(&self) -> String {
        let lines = self.trace.lines();
        let failure = self.failure.as_ref().map(|failure| {
            let what = format!("invariant broken: {failure}");
            json!({
                "invariant": failure.invariant,
                "message": failure.message,
                "at": micros(failure.at),
                "step": failure.step,
                "line": lines.iter().position(|line| line.what == what),
            })
        });
        let shown = |line: &TraceLine| {
            json!({
                "at": micros(line.at), "step": line.step, "process": line.process_name(), "life": line.life, "what": line.what,
            })
        };
        let changes = self.recording.changes.iter().map(|change| {
            json!({"line": change.line, "resource": change.resource, "key": change.key, "object": change.object})
        });
        let faults = self.faults.iter().map(|(fault, count)| (fault.number().to_owned(), Value::from(*count)));
        json!({
            "scenario": &*self.recording.scenario,
            "replay": format!("{}:{}", self.recording.scenario, self.recording.spec),
            "processes": self.recording.processes.iter().map(|name| &**name).collect::<Vec<_>>(),
            "simulated": micros(self.simulated),
            "steps": self.steps,
            "requests": self.requests,
            "faults": faults.collect::<serde_json::Map<_, _>>(),
            "failure": failure,
            "lines": lines.iter().map(shown).collect::<Vec<_>>(),
            "changes": changes.collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// Returns the timeline in the trace event format, which Perfetto and the tracing page of Chromium open: a track for each process,
    /// with its lives as slices and its lines as instants.
    pub fn to_trace_events(&self) -> String {
        let mut tracks: Vec<&str> = Vec::new();
        let mut events = Vec::new();
        let mut lives: Vec<(usize, u32, u64)> = Vec::new();
        let end = micros(self.simulated);
        let slice = |(track, life, start): (usize, u32, u64), end: u64, events: &mut Vec<Value>| {
            let name = format!("life {life}");
            events.push(json!({"ph": "X", "pid": 1, "tid": track, "name": name, "ts": start, "dur": end - start}));
        };
        for line in self.trace.lines() {
            let (name, at) = (line.process_name(), micros(line.at));
            let track = tracks.iter().position(|track| *track == name).unwrap_or_else(|| {
                events.push(
                    json!({"ph": "M", "pid": 1, "tid": tracks.len(), "name": "thread_name", "args": {"name": name}}),
                );
                tracks.push(name);
                tracks.len() - 1
            });
            if line.what == "starts" {
                if let Some(index) = lives.iter().position(|(of, ..)| *of == track) {
                    slice(lives.remove(index), at, &mut events);
                }
                lives.push((track, line.life, at));
            }
            let step = json!({"step": line.step});
            events
                .push(json!({"ph": "i", "s": "t", "pid": 1, "tid": track, "name": line.what, "ts": at, "args": step}));
        }
        lives.into_iter().for_each(|life| slice(life, end, &mut events));
        json!({"displayTimeUnit": "ms", "traceEvents": events}).to_string()
    }
}

impl Failed {
    /// Writes the run as [one HTML file](Run::to_html).
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_page(&self, path: impl AsRef<Path>) -> io::Result<()> {
        fs::write(path, self.run.to_html())
    }

    /// Returns the name of the page in the folder of the environment.
    pub(crate) fn page_name(&self) -> String {
        let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
        format!("{}.html", self.scenario.chars().map(letter).collect::<String>())
    }

    /// Writes the page if the environment asks for it.
    pub(crate) fn write_requested_page(&self) {
        let Some(folder) = std::env::var_os(PAGES) else { return };
        let folder = Path::new(&folder);
        let written = fs::create_dir_all(folder).and_then(|()| self.write_page(folder.join(self.page_name())));
        if let Err(error) = written {
            panic!("{PAGES}: {}: {error}", folder.display());
        }
    }
}

fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
