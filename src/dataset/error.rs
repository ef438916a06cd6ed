//! What can be wrong with a data set.

/// An error of a data set: whole sentences that name the file, the place, what was found and what to do.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The sink took no more; its owner knows why.
    #[error("reading stopped because its consumer stopped")]
    Stopped,
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}
