//! The merge of kubeconfigs without files, for the fuzz targets.

use std::path::PathBuf;

use super::Kubeconfig;
use super::merge::merge;

/// Merges kubeconfigs as [`KubeconfigFiles::load`](super::KubeconfigFiles::load) does with those of several files.
pub fn merge_kubeconfigs(configs: impl IntoIterator<Item = Kubeconfig>) -> Kubeconfig {
    merge(configs.into_iter().map(|config| (PathBuf::new(), config))).0
}
