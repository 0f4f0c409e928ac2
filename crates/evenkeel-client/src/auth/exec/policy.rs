//! [`ExecPolicy`]: which commands may run.

use std::path::{Component, Path, PathBuf};

/// Which commands may run as exec plugins. Evaluated before every run.
///
/// It protects programs that read kubeconfigs which others can write.
/// [`Config::from_untrusted`](crate::Config::from_untrusted) denies all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecPolicy {
    /// Allows every command.
    #[default]
    AllowAll,
    /// Denies every command.
    DenyAll,
    /// Allows these commands: absolute paths without `.`, `..` and repeated separators, or names to look up in `PATH`.
    ///
    /// A command is allowed if it resolves to the same file as an entry, and that file is run: an entry `aws` does not
    /// allow `/tmp/aws`, unless `PATH` leads there.
    Allowlist(Vec<PathBuf>),
}

impl ExecPolicy {
    /// Returns why the policy is invalid.
    pub(crate) fn problem(&self) -> Option<String> {
        let ExecPolicy::Allowlist(entries) = self else { return None };
        if entries.is_empty() {
            return Some("the allowlist of exec plugins is empty; use DenyAll to deny every command".to_owned());
        }
        let entry = entries.iter().find(|entry| !(is_name(entry) || entry.is_absolute() && is_clean(entry)))?;
        Some(format!(
            "the allowlist of exec plugins has {:?}, which is neither a name nor a clean absolute path",
            entry.display()
        ))
    }

    /// Returns whether a command that resolves to this file may run. `lookup` resolves the name of an entry.
    pub(super) fn allows(&self, resolved: &Path, lookup: impl Fn(&Path) -> Option<PathBuf>) -> bool {
        match self {
            ExecPolicy::AllowAll => true,
            ExecPolicy::DenyAll => false,
            ExecPolicy::Allowlist(entries) => entries.iter().any(|entry| {
                if is_name(entry) {
                    // Only a file of the same name can match, so other names are not looked up.
                    resolved.file_name() == Some(entry.as_os_str())
                        && lookup(entry).is_some_and(|path| path == resolved)
                } else {
                    entry == resolved
                }
            }),
        }
    }
}

/// Returns whether the entry is a name to look up.
fn is_name(entry: &Path) -> bool {
    let mut components = entry.components();
    matches!(components.next(), Some(Component::Normal(name)) if name == entry.as_os_str())
}

fn is_clean(entry: &Path) -> bool {
    let climbs = entry.components().any(|component| matches!(component, Component::CurDir | Component::ParentDir));
    !climbs && entry.components().collect::<PathBuf>().as_os_str() == entry.as_os_str()
}
