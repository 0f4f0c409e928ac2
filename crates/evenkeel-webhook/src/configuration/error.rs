//! [`ConfigurationError`]: why there is no configuration for a hook.

/// Why there is no configuration that API servers accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// The name of the program cannot be part of the name of a configuration.
    #[error("{program:?} cannot be the start of a configuration's name: use lower case letters, digits and -")]
    Program {
        /// The name of the program.
        program: String,
    },
    /// The name of a webhook is no domain name of at least three segments.
    #[error(
        "{name:?}, the name of the {hook}, is no domain name of at least three segments, such as pods.hooks.example.com"
    )]
    Name {
        /// The hook.
        hook: String,
        /// The name.
        name: String,
    },
    /// Two webhooks of a configuration have one name.
    #[error("two webhooks of one configuration have the name {name}")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A timeout is out of range.
    #[error("the timeout of the {hook} is {seconds} seconds; the timeout value must be between 1 and 30 seconds")]
    Timeout {
        /// The hook.
        hook: String,
        /// The timeout.
        seconds: i32,
    },
    /// The Service has no valid name or namespace.
    #[error("a Service needs a namespace and a name, found {namespace:?} and {name:?}")]
    Service {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// The URL is none that API servers call.
    #[error("API servers do not call {url:?}: {problem}")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}
