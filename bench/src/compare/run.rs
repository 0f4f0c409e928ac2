//! Runs one program.

use std::process::Stdio;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::cases::Case;
use super::programs::Program;
use crate::Failure;
use crate::outside;
use crate::processes::{LoadServer, Process, lines, wait};
use crate::server::wire::Wire;

/// Idle time after which a program has settled: longer than the two quiet seconds after which programs measure their
/// memory.
const QUIET: Duration = Duration::from_millis(3_500);
const NEXT_TO_NONE: Duration = Duration::from_millis(100);
/// Distance of single updates, so that each finds an idle program.
const GAP: Duration = Duration::from_millis(3);

/// Figures by name.
pub(crate) type Figures = Map<String, Value>;

/// A running program.
struct Run<'a> {
    process: Process,
    server: &'a LoadServer,
    errors: Receiver<String>,
    /// Its messages so far.
    messages: Vec<String>,
    until: Instant,
    tick: &'a mut dyn FnMut(),
}

/// Runs a program: it syncs and, as the case requires, relists, receives a storm of updates and single ones, and
/// reads. Returns its figures.
pub(crate) fn run(
    program: &Program,
    server: &LoadServer,
    case: &Case,
    wire: Wire,
    tick: &mut dyn FnMut(),
) -> Result<Figures, Failure> {
    let mut command = program.command(server.url(), case, wire);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (opened, cpu) = (server.watches()?.opened, server.cpu()?);
    let mut process = Process(command.spawn()?);
    // Read while it runs: a full pipe would block the program.
    let (output, errors) = (lines(process.0.stdout.take()), lines(process.0.stderr.take()));
    // A hundred times what any of them needs for an object, plus a fixed part.
    let patience = Duration::from_secs(120) + Duration::from_millis(3) * (case.objects + case.updates) as u32;
    let mut run = Run { process, server, errors, messages: Vec::new(), until: Instant::now() + patience, tick };
    let driven = run.drive(case, opened);
    let used = server.cpu()?.saturating_sub(cpu);
    run.listen();
    let Run { process, messages, errors, .. } = run;
    drop(process);
    let messages: Vec<String> = messages.into_iter().chain(errors.iter()).collect();
    let printed = output.iter().filter_map(|line| serde_json::from_str::<Figures>(&line).ok()).last();
    let messages = messages[messages.len().saturating_sub(5)..].join("; ");
    match (driven, printed) {
        (Ok(mut figures), Some(printed)) => {
            figures.extend(printed);
            figures.insert("server_cpu_s".to_owned(), json!(used.as_secs_f64()));
            derive(&mut figures);
            Ok(figures)
        }
        (Err(error), _) => Err(format!("{error}: {messages}").into()),
        (Ok(_), None) => Err(format!("it printed no figures: {messages}").into()),
    }
}

impl Run<'_> {
    /// Drives the program and measures it from the outside.
    fn drive(&mut self, case: &Case, opened: usize) -> Result<Figures, Failure> {
        let mut figures = Figures::new();
        if case.updates > 0 {
            let opened = self.settled(opened)?;
            let process = self.process.0.id();
            let (before, cpu) = (outside::memory(process, "VmRSS")?, outside::cpu(process)?);
            outside::forget_peak(process)?;
            self.server.ask::<Value>("POST", "/relist")?;
            self.settled(opened)?;
            let peak = outside::memory(process, "VmHWM")?;
            let cpu = outside::cpu(process)?.saturating_sub(cpu).as_secs_f64();
            figures.insert("relist_steady_kb".to_owned(), json!(before));
            figures.insert("relist_peak_kb".to_owned(), json!(peak));
            figures.insert("relist_peak_over_steady".to_owned(), json!(peak as f64 / before as f64));
            figures.insert("relist_cpu_s".to_owned(), json!(cpu));
            self.server.ask::<Value>("POST", &format!("/storm?updates={}", case.updates))?;
        }
        if case.latency > 0 {
            self.wait_for_message("updated, ")?;
            // Separates the storm from the single updates.
            self.pause(Duration::from_millis(500));
            let (after, events, gap) = (case.updates, case.latency, GAP.as_micros());
            self.server.ask::<Value>("POST", &format!("/trickle?after={after}&events={events}&gap_us={gap}"))?;
        }
        while self.process.0.try_wait()?.is_none() {
            self.look("it does not end")?;
        }
        if case.latency > 0 {
            figures.insert("written_ns".to_owned(), self.server.ask("GET", "/written")?);
        }
        Ok(figures)
    }

    /// Waits until a watch beyond the first `opened` has received everything and the program is idle. Returns the
    /// number of watches opened.
    fn settled(&mut self, opened: usize) -> Result<usize, Failure> {
        let (mut since, mut used) = (Instant::now(), Duration::ZERO);
        loop {
            self.look("it does not settle")?;
            self.alive()?;
            let (watches, cpu) = (self.server.watches()?, outside::cpu(self.process.0.id())?);
            if cpu > used + NEXT_TO_NONE || watches.opened == opened || watches.waiting == 0 {
                (since, used) = (Instant::now(), cpu);
            } else if since.elapsed() > QUIET {
                return Ok(watches.opened);
            }
        }
    }

    /// Waits for a message that starts like this.
    fn wait_for_message(&mut self, begin: &str) -> Result<(), Failure> {
        while !self.messages.iter().any(|message| message.starts_with(begin)) {
            self.look("it does not get all updates")?;
            self.alive()?;
        }
        Ok(())
    }

    fn pause(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            wait(self.tick);
        }
    }

    fn alive(&mut self) -> Result<(), Failure> {
        self.process.0.try_wait()?.map_or(Ok(()), |status| Err(format!("it ended early, {status}").into()))
    }

    /// Sleeps briefly, up to the time limit.
    fn look(&mut self, trouble: &str) -> Result<(), Failure> {
        self.listen();
        if Instant::now() > self.until {
            return Err(format!("it hangs: {trouble}").into());
        }
        wait(self.tick);
        Ok(())
    }

    fn listen(&mut self) {
        self.messages.extend(self.errors.try_iter());
    }
}

/// Adds derived figures.
fn derive(figures: &mut Figures) {
    let get = |figures: &Figures, name: &str| figures.get(name).and_then(Value::as_f64);
    if get(figures, "updates").is_none_or(|updates| updates == 0.0) {
        // No storm, which differs from one that took no time.
        figures.retain(|name, _| !name.starts_with("storm_") && name != "events_per_s" && name != "updates");
    }
    let objects = get(figures, "objects").unwrap_or(1.0).max(1.0);
    let add = |figures: &mut Figures, name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            figures.insert(name.to_owned(), json!(value));
        }
    };
    let per_object = get(figures, "sync_cpu_s").map(|cpu| cpu * 1e6 / objects);
    add(figures, "sync_cpu_us_per_object", per_object);
    let bytes = get(figures, "rss_steady_kb").map(|kib| kib * 1024.0 / objects);
    add(figures, "steady_bytes_per_object", bytes);
    let per_event = get(figures, "storm_cpu_s").zip(get(figures, "updates")).map(|(cpu, events)| cpu * 1e6 / events);
    add(figures, "storm_cpu_us_per_event", per_event);
    for (sum, sync, typed) in [
        ("sync_and_typed_cpu_s", "sync_cpu_s", "typed_cpu_s"),
        ("sync_and_typed_wall_s", "sync_wall_s", "typed_wall_s"),
    ] {
        let value = get(figures, sync).zip(get(figures, typed)).map(|(sync, typed)| sync + typed);
        add(figures, sum, value);
    }
    let times = |value: Option<Value>| match value {
        Some(Value::Array(times)) => times.iter().filter_map(Value::as_u64).collect(),
        _ => Vec::new(),
    };
    // Thousands of single times are not part of the figures.
    let (written, handled) = (times(figures.remove("written_ns")), times(figures.remove("handled_ns")));
    let latencies = latencies(&written, &handled);
    add(figures, "latency_p50_us", quantile(&latencies, 0.5));
    add(figures, "latency_p99_us", quantile(&latencies, 0.99));
}

/// Returns the latencies of single updates, in microseconds, sorted.
fn latencies(written: &[u64], handled: &[u64]) -> Vec<f64> {
    let mut latencies: Vec<f64> =
        written.iter().zip(handled).map(|(written, handled)| (*handled as f64 - *written as f64) / 1e3).collect();
    latencies.sort_by(f64::total_cmp);
    latencies
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

#[cfg(test)]
mod tests;
