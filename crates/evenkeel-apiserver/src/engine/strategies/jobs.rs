//! Jobs: the default propagation policy deserves a warning.

use super::KindHooks;
use crate::engine::options::DeleteOptions;

#[derive(Debug)]
pub(crate) struct JobHooks;

impl KindHooks for JobHooks {
    /// Warns if the request leaves the propagation policy to the default (DEL-12).
    fn delete_warning(&self, options: &DeleteOptions) -> Option<&'static str> {
        options.requested_propagation().is_none().then_some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning",
        )
    }
}
