//! The client as a program uses it, mostly against an API server in this process. One program: each further one costs a link.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is a finding")]

mod access_recorder;
mod answers;
mod api;
mod certificates;
mod copy;
mod debug_container;
mod derived;
mod discovery;
mod exec;
mod faults;
mod helpers;
mod hostile;
mod in_process;
mod kubeconfig;
mod logs_and_tokens;
mod port_forward;
mod requests;
mod scales;
mod send;
mod shards;
mod write_observer;
mod writes;
