//! What this process has used, as Linux tells it.

use std::time::Duration;
use std::{fs, io};

use tokio::time::Instant;

use crate::Failure;

/// How long one tick of the kernel's accounting is. It has been this for user space on every platform for decades.
const TICK: Duration = Duration::from_millis(10);

/// A point in wall and processor time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    wall: Instant,
    cpu: Duration,
}

impl Moment {
    pub(super) fn now() -> Result<Self, Failure> {
        Ok(Moment { wall: Instant::now(), cpu: processor_time(&read("/proc/self/stat")?)? })
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

/// How long the threads of this process that live have had a processor, in nanoseconds: finer than [`Moment`] tells it.
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

fn processor_time(stat: &str) -> Result<Duration, Failure> {
    // The name before the parenthesis may contain anything; behind it, user and system time are the 12th and 13th.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    match (times.next(), times.next()) {
        (Some(Ok(user)), Some(Ok(system))) => Ok(TICK * user + TICK * system),
        _ => Err("processor time is not told".into()),
    }
}

fn kibibytes(status: &str, name: &str) -> Result<u64, Failure> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.and_then(|line| line.split_whitespace().next()).ok_or("memory is not told")?;
    Ok(value.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_whatever_the_name_of_the_process() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 12 30 0 0 20 0 4 0 100 0 0";
        assert_eq!(processor_time(stat).unwrap(), Duration::from_millis(420));
        assert!(processor_time("7 (x) S").is_err());
        let status = "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n";
        assert_eq!((kibibytes(status, "VmHWM").unwrap(), kibibytes(status, "VmRSS").unwrap()), (2048, 1024));
        assert!(kibibytes(status, "VmSwap").is_err());
    }
}
