//! A process seen from outside.

use std::fs;
use std::time::Duration;

use crate::Failure;

/// How long one tick of the kernel's accounting is. It has been this for user space on every platform for decades.
const TICK: Duration = Duration::from_millis(10);

/// The processor time that a process has used so far, by all of its threads.
pub(crate) fn cpu(process: u32) -> Result<Duration, Failure> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name before the parenthesis may contain anything; behind it, user and system time are the 12th and 13th.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    match (times.next(), times.next()) {
        (Some(Ok(user)), Some(Ok(system))) => Ok(TICK * user + TICK * system),
        _ => Err("processor time is not told".into()),
    }
}

/// What a process says of its memory under this name, such as `VmRSS`, in KiB.
pub(crate) fn memory(process: u32, name: &str) -> Result<u64, Failure> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.and_then(|line| line.split_whitespace().next()).ok_or("memory is not told")?;
    Ok(value.parse()?)
}

/// Lets the peak of a process' resident memory, `VmHWM`, begin anew at what it is now.
pub(crate) fn forget_peak(process: u32) -> Result<(), Failure> {
    Ok(fs::write(format!("/proc/{process}/clear_refs"), "5")?)
}
