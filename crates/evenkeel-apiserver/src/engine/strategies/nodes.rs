//! Nodes: a kubelet registers its node together with its status.

use super::KindHooks;

#[derive(Debug)]
pub(crate) struct NodeHooks;

impl KindHooks for NodeHooks {
    fn keeps_status_on_create(&self) -> bool {
        true
    }
}
