//! The environment of the process.

/// Returns the name of the host or pod.
pub(crate) fn hostname() -> String {
    let kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let variable = |name: &str| std::env::var(name).ok();
    [kernel(), variable("HOSTNAME"), variable("COMPUTERNAME")]
        .into_iter()
        .flatten()
        .map(|name| name.trim().to_owned())
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests;
