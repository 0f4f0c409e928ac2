//! [`AdmissionSwitches`]: which plugins run (ADM-002).

use super::{AdmissionPlugin, PLUGINS};

/// The check that the verbs make themselves. It cannot be switched off: the sweep of a namespace relies on it.
const NAMESPACE_LIFECYCLE: &str = "NamespaceLifecycle";

/// A bit per plugin of [`PLUGINS`], which is therefore at most 64 long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdmissionSwitches(u64);

impl Default for AdmissionSwitches {
    fn default() -> Self {
        let on = PLUGINS.iter().enumerate().filter(|(_, plugin)| plugin.is_on_by_default());
        AdmissionSwitches(on.fold(0, |bits, (index, _)| bits | bit(index)))
    }
}

impl AdmissionSwitches {
    /// Switches a plugin on or off.
    pub(crate) fn set(&mut self, name: &str, on: bool) -> Result<(), AdmissionPluginError> {
        if name == NAMESPACE_LIFECYCLE {
            return if on { Ok(()) } else { Err(AdmissionPluginError::AlwaysOn(NAMESPACE_LIFECYCLE)) };
        }
        let Some(index) = PLUGINS.iter().position(|plugin| plugin.name() == name) else {
            return Err(AdmissionPluginError::Unknown(name.to_owned()));
        };
        self.0 = if on { self.0 | bit(index) } else { self.0 & !bit(index) };
        Ok(())
    }

    /// Returns the names of all plugins in the order in which they run, and whether each is on.
    pub(crate) fn list(self) -> impl Iterator<Item = (&'static str, bool)> {
        let plugins = PLUGINS.iter().enumerate().map(move |(index, plugin)| (plugin.name(), self.0 & bit(index) != 0));
        std::iter::once((NAMESPACE_LIFECYCLE, true)).chain(plugins)
    }

    /// Returns the plugins that are on, in the order in which they run.
    pub(super) fn active(self) -> impl Iterator<Item = &'static dyn AdmissionPlugin> {
        PLUGINS.iter().enumerate().filter(move |(index, _)| self.0 & bit(*index) != 0).map(|(_, plugin)| *plugin)
    }
}

fn bit(index: usize) -> u64 {
    1 << index
}

/// An admission plugin cannot be switched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionPluginError {
    /// There is no plugin of this name.
    Unknown(String),
    /// The plugin of this name cannot be switched off.
    AlwaysOn(&'static str),
}

impl std::fmt::Display for AdmissionPluginError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AdmissionPluginError::Unknown(name) => {
                let names: Vec<&str> = AdmissionSwitches::default().list().map(|(name, _)| name).collect();
                write!(f, "admission plugin {name:?} is unknown; there are {}", names.join(", "))
            }
            AdmissionPluginError::AlwaysOn(name) => {
                write!(f, "admission plugin {name} cannot be switched off: the deletion of namespaces relies on it")
            }
        }
    }
}

impl std::error::Error for AdmissionPluginError {}
