//! Arguments of the commands that select objects of a resource.

use clap::builder::NonEmptyStringValueParser;
use evenkeel_core::{FieldSelector, LabelSelector};

#[derive(Debug, clap::Args)]
pub(crate) struct ObjectSelection {
    /// Only objects in this namespace [default: that of the context]
    #[arg(short, long, value_name = "NS", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Option<String>,
    /// Objects in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Only objects whose labels match, such as app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = LabelSelector::parse)]
    pub(crate) selector: Option<LabelSelector>,
    /// Only objects whose fields match, such as spec.nodeName=node-1
    #[arg(long, value_name = "SELECTOR", value_parser = FieldSelector::parse)]
    pub(crate) field_selector: Option<FieldSelector>,
}
