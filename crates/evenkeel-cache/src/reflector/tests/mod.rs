//! The reflector on a desk: a source that follows a script, in virtual time; and against the embedded server.

mod courses;
#[cfg(feature = "client")]
mod end_to_end;
mod hard_cases;
mod lists;
mod measured;
mod watch_lists;
mod watches;
