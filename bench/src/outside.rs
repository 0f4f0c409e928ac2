//! Resource usage of another process.

use std::fs;
use std::time::Duration;

use crate::Failure;

/// Tick of the kernel's accounting in user space, on every platform.
const TICK: Duration = Duration::from_millis(10);

/// Returns the processor time of all threads of a process.
pub(crate) fn cpu(process: u32) -> Result<Duration, Failure> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name may contain anything; user and system time are the 12th and 13th fields after its parenthesis.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    match (times.next(), times.next()) {
        (Some(Ok(user)), Some(Ok(system))) => Ok(TICK * user + TICK * system),
        _ => Err("no processor time in stat".into()),
    }
}

/// Returns a memory figure of a process, such as `VmRSS`, in KiB.
pub(crate) fn memory(process: u32, name: &str) -> Result<u64, Failure> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.and_then(|line| line.split_whitespace().next()).ok_or("no such memory figure")?;
    Ok(value.parse()?)
}

/// Resets the peak of a process' resident memory, `VmHWM`.
pub(crate) fn forget_peak(process: u32) -> Result<(), Failure> {
    Ok(fs::write(format!("/proc/{process}/clear_refs"), "5")?)
}
