//! The release of Kubernetes that the server behaves like.

/// A release of Kubernetes, as far as responses depend on it (ARC-7).
///
/// The resources are those of 1.37 in any case. The releases differ in `/version` and in WatchList: 1.33 refuses
/// `sendInitialEvents`, as its default feature gates do, so clients fall back to list and watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ServerVersion {
    /// 1.32
    V1_32,
    /// 1.33, which refuses `sendInitialEvents`
    V1_33,
    /// 1.34
    V1_34,
    /// 1.35
    V1_35,
    /// 1.36
    V1_36,
    /// 1.37
    #[default]
    V1_37,
}

impl ServerVersion {
    pub(crate) fn minor(self) -> u8 {
        match self {
            ServerVersion::V1_32 => 32,
            ServerVersion::V1_33 => 33,
            ServerVersion::V1_34 => 34,
            ServerVersion::V1_35 => 35,
            ServerVersion::V1_36 => 36,
            ServerVersion::V1_37 => 37,
        }
    }

    /// Returns whether a watch may request its initial events.
    pub(crate) fn has_watch_list(self) -> bool {
        self != ServerVersion::V1_33
    }
}
