//! The metrics of the process, from `/proc`. Other systems than Linux have none.

/// What the operating system reports about this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessStats {
    pub(crate) cpu_seconds: f64,
    pub(crate) start_time_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) virtual_bytes: u64,
    pub(crate) open_fds: u64,
    pub(crate) max_fds: u64,
}

/// The unit of times in `/proc`, which Linux fixes for programs (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads the metrics of this process.
pub(crate) fn read() -> Option<ProcessStats> {
    let file = |path: &str| std::fs::read_to_string(path).ok();
    let fds = std::fs::read_dir("/proc/self/fd").ok()?.count();
    let mut stats = parse(
        &file("/proc/self/stat")?,
        &file("/proc/self/status")?,
        &file("/proc/self/limits")?,
        &file("/proc/stat")?,
    )?;
    // One of them is the directory itself.
    stats.open_fds = (fds as u64).saturating_sub(1);
    Some(stats)
}

fn parse(stat: &str, status: &str, limits: &str, system: &str) -> Option<ProcessStats> {
    // The name of the program, in parentheses, may contain anything. The fields after it start with the third.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|value| value * 1024)
    };
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let max_fds = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    Some(ProcessStats {
        cpu_seconds: (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND,
        start_time_seconds: boot + ticks(22)? / TICKS_PER_SECOND,
        resident_bytes: kilobytes("VmRSS:")?,
        virtual_bytes: kilobytes("VmSize:")?,
        open_fds: 0,
        // `unlimited` is no number.
        max_fds: max_fds.split_ascii_whitespace().next()?.parse().unwrap_or(u64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_linux_are_read() {
        let stat = "7 (a )b) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 1234 9 9";
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t     512 kB\n";
        let limits =
            "Limit  Soft  Hard  Units\nMax open files            1024                 4096                 files\n";
        let stats = parse(stat, status, limits, "cpu 1\nbtime 1000\n").unwrap();
        let expected = ProcessStats {
            cpu_seconds: 3.0,
            start_time_seconds: 1012.34,
            resident_bytes: 512 * 1024,
            virtual_bytes: 2048 * 1024,
            open_fds: 0,
            max_fds: 1024,
        };
        assert_eq!(stats, expected);
        assert_eq!(parse("", status, limits, ""), None);
    }
}
