//! Reading a large collection in pages.

/// Why reading page by page was given up: the server's pages do not come to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PagingError {
    /// A page says that the next one begins where an earlier one began.
    #[error("page {page} of the list leads back to an earlier page; given up, as it would never end")]
    Loop {
        /// Which page, counted from 1.
        page: u32,
    },
    /// There are more pages than any collection has.
    #[error("the list has more than {limit} pages; given up")]
    TooManyPages {
        /// The limit.
        limit: u32,
    },
}
