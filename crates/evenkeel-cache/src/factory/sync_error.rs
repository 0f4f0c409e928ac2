//! [`SyncError`]: names the informers that have not synced.

use std::fmt;

use crate::informer::InformerStatus;

/// An informer stopped before it synced.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SyncError {
    /// State of each informer that has not synced, by name.
    pub informers: Vec<InformerStatus>,
}

impl SyncError {
    pub(super) fn new(statuses: impl Iterator<Item = InformerStatus>) -> Self {
        let mut informers: Vec<_> = statuses.filter(|status| !status.has_synced).collect();
        informers.sort_by(|a, b| a.name.cmp(&b.name));
        SyncError { informers }
    }
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not all informers have synced: ")?;
        for (index, informer) in self.informers.iter().enumerate() {
            let between = if index == 0 { "" } else { "; " };
            write!(f, "{between}{}", informer.name)?;
            if informer.is_stopped {
                f.write_str(" has stopped")?;
            } else {
                f.write_str(" is not done yet")?;
            }
            if let Some(error) = &informer.reflector.last_error {
                write!(f, " ({})", error.message)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for SyncError {}
