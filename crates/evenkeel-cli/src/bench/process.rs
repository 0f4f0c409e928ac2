//! Resource usage of this process, from Linux's /proc.

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

    /// Returns the seconds of wall and of processor time since `start`.
    pub(super) fn since(&self, start: &Self) -> (f64, f64) {
        ((self.wall - start.wall).as_secs_f64(), self.cpu.saturating_sub(start.cpu).as_secs_f64())
    }
}

/// Returns the peak and the current resident memory, in KiB.
pub(super) fn memory() -> Result<(u64, u64), Failure> {
    let status = read("/proc/self/status")?;
    Ok((kibibytes(&status, "VmHWM")?, kibibytes(&status, "VmRSS")?))
}

/// Returns the processor time of the live threads of this process, in nanoseconds. No thread under test ends before
/// the measurement; the total that includes ended threads has a resolution of only 10 ms.
pub(super) fn processor_nanos() -> Result<u64, Failure> {
    let mut sum = 0;
    for thread in fs::read_dir("/proc/self/task").map_err(|error| untold("/proc/self/task", &error))? {
        // A thread may have ended meanwhile.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        sum += text.split_whitespace().next().ok_or("no processor time in schedstat")?.parse::<u64>()?;
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
    let value = line.and_then(|line| line.split_whitespace().next()).ok_or("no such memory figure")?;
    Ok(value.parse()?)
}

#[cfg(test)]
mod tests;
