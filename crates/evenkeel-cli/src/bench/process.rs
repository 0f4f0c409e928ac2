//! What this process has used, as Linux tells it.

use std::time::Duration;
use std::{fs, io};

use tokio::time::Instant;

use crate::Failure;

/// A point in wall and processor time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    wall: Instant,
    cpu: Duration,
}

impl Moment {
    pub(super) fn now() -> Result<Self, Failure> {
        Ok(Moment { wall: Instant::now(), cpu: Duration::from_nanos(processor_nanos()?) })
    }

    /// The seconds of wall and of processor time since then.
    pub(super) fn since(&self, start: &Self) -> (f64, f64) {
        ((self.wall - start.wall).as_secs_f64(), self.cpu.saturating_sub(start.cpu).as_secs_f64())
    }
}

/// The most memory that was ever resident, and what is now, in KiB.
pub(super) fn memory() -> Result<(u64, u64), Failure> {
    let status = read("/proc/self/status")?;
    Ok((kibibytes(&status, "VmHWM")?, kibibytes(&status, "VmRSS")?))
}

/// How long the threads of this process that live have had a processor, in nanoseconds. What is measured here has no threads
/// that end before it does; the sum that has those that ended too is only told in hundredths of a second.
pub(super) fn processor_nanos() -> Result<u64, Failure> {
    let mut sum = 0;
    for thread in fs::read_dir("/proc/self/task").map_err(|error| untold("/proc/self/task", &error))? {
        // A thread may have ended meanwhile.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        sum += text.split_whitespace().next().ok_or("processor time is not told")?.parse::<u64>()?;
    }
    Ok(sum)
}

fn read(path: &str) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| untold(path, &error))
}

fn untold(path: &str, error: &io::Error) -> Failure {
    format!("the figures come from {path}, as on Linux: {error}").into()
}

fn kibibytes(status: &str, name: &str) -> Result<u64, Failure> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.and_then(|line| line.split_whitespace().next()).ok_or("memory is not told")?;
    Ok(value.parse()?)
}

#[cfg(test)]
mod tests;
