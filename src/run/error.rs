//! Why a repetition failed, with the word for it that the report's `error_class` holds.

use serde::{Deserialize, Serialize};

use crate::algorithm::{SetupError, ValuesError};
use crate::engine::EngineError;
use crate::grid::GridError;
use crate::job::external::UnknownPlaceholder;
use crate::report::ReportError;
use crate::storage::error::StorageError;

/// The class of what was interrupted.
pub const INTERRUPTED: &str = "interrupted";

/// A failure as a row tells it: a word for scripts, a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The word.
    pub class: String,
    /// The sentence.
    pub text: String,
}

impl From<&RunError> for Failure {
    fn from(error: &RunError) -> Self {
        Self { class: error.class().to_owned(), text: error.to_string() }
    }
}

/// A failed repetition.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Ctrl-C or SIGTERM.
    #[error("stopped before its end; --resume runs it again")]
    Interrupted,
    /// Parameters that only the grid shows to be impossible.
    #[error("{0}")]
    Config(String),
    /// The vertex state and buffers do not fit the budget.
    #[error("{0}")]
    Memory(String),
    /// The grid is missing or damaged, or cannot be built.
    #[error("{0}")]
    Dataset(String),
    /// A device failed.
    #[error("{0}")]
    Io(String),
    /// The system grants no more threads.
    #[error("{0}")]
    Resources(String),
    /// The result is wrong.
    #[error("{0}")]
    Verify(String),
    /// A command of another program failed, or did not say what it was to say.
    #[error("{0}")]
    External(String),
    /// It took too long.
    #[error("{0}")]
    TimedOut(String),
    /// A defect of ioc.
    #[error("{0}")]
    Crash(String),
}

impl RunError {
    /// The word for the report.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Interrupted => INTERRUPTED,
            Self::Config(_) => "config",
            Self::Memory(_) => "memory",
            Self::Dataset(_) => "dataset",
            Self::Io(_) => "io",
            Self::Resources(_) => "resources",
            Self::Verify(_) => "verify",
            Self::External(_) => "external",
            Self::TimedOut(_) => "timeout",
            Self::Crash(_) => "crash",
        }
    }
}

impl From<EngineError> for RunError {
    fn from(error: EngineError) -> Self {
        let text = error.to_string();
        match error {
            EngineError::Interrupted => Self::Interrupted,
            EngineError::Plan(_) => Self::Config(text),
            EngineError::Memory(_) => Self::Memory(text),
            EngineError::Damaged { .. } | EngineError::Edges { .. } => Self::Dataset(text),
            EngineError::Read { .. } | EngineError::Engine { .. } | EngineError::State(_) => Self::Io(text),
            EngineError::Threads(_) => Self::Resources(text),
            EngineError::Panicked(_) => Self::Crash(text),
            EngineError::Grid(error) => error.into(),
        }
    }
}

impl From<SetupError> for RunError {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::Grid(error) => error.into(),
            SetupError::State(error) => error.into(),
            SetupError::Overflow { .. }
            | SetupError::Vector(_)
            | SetupError::Root { .. }
            | SetupError::InMemory(_)
            | SetupError::External(_) => Self::Config(error.to_string()),
            SetupError::Negative { .. } | SetupError::Label { .. } => Self::Dataset(error.to_string()),
        }
    }
}

impl From<ValuesError> for RunError {
    fn from(error: ValuesError) -> Self {
        SetupError::from(error).into()
    }
}

impl From<GridError> for RunError {
    fn from(error: GridError) -> Self {
        let text = error.to_string();
        match error {
            GridError::Interrupted => Self::Interrupted,
            GridError::Memory { .. } | GridError::ExportMemory { .. } => Self::Memory(text),
            GridError::Threads { .. } => Self::Resources(text),
            GridError::Io { .. } | GridError::Device { .. } | GridError::Unmounted { .. } => Self::Io(text),
            GridError::Devices { .. } | GridError::Stripe { .. } => Self::Config(text),
            _ => Self::Dataset(text),
        }
    }
}

impl From<UnknownPlaceholder> for RunError {
    fn from(error: UnknownPlaceholder) -> Self {
        Self::Config(error.to_string())
    }
}

impl From<StorageError> for RunError {
    fn from(error: StorageError) -> Self {
        Self::Io(error.to_string())
    }
}

impl From<ReportError> for RunError {
    fn from(error: ReportError) -> Self {
        Self::Io(error.to_string())
    }
}
