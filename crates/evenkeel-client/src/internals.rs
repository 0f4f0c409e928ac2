//! Parts of the client as functions, for the fuzz targets. Semantic versioning does not cover them.

pub use crate::auth::exec_internals::{ParsedExecCredential, parse_exec_credential};
pub use crate::config::kubeconfig::internals::merge_kubeconfigs;
