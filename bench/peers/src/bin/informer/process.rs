//! Resource usage of this process.

use std::fs;
use std::time::{Duration, Instant};

use crate::Failure;

/// A point in wall and processor time.
pub(crate) struct Moment {
    wall: Instant,
    cpu: Duration,
}

impl Moment {
    pub(crate) fn now() -> Self {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let cpu = Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec.unsigned_abs() as u32);
        Moment { wall: Instant::now(), cpu }
    }

    pub(crate) fn since(&self, start: &Self) -> (f64, f64) {
        ((self.wall - start.wall).as_secs_f64(), (self.cpu - start.cpu).as_secs_f64())
    }
}

/// Returns a figure of this process, such as VmRSS, in KiB.
pub(crate) fn memory(name: &str) -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.and_then(|line| line.split_whitespace().next()).ok_or("no such memory figure")?;
    Ok(value.parse()?)
}
