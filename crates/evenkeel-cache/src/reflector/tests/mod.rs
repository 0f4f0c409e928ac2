//! The reflector on a desk: a source that follows a script, in virtual time.

mod hard_cases;
mod lists;
mod watch_lists;
mod watches;
