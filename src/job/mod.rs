//! From job files to checked runs.
//!
//! A text becomes a tree whose values know their places (`tree`), a tree becomes layers of typed options
//! (`layer`, by the table of [`options`]), a job becomes the points of its matrix (`file`, `expand`), and a point
//! becomes a [`spec::RunSpec`] (`resolve`). All faults of a batch are gathered on the way.

mod batch;
mod expand;
pub mod external;
pub(crate) mod fault;
pub(crate) mod file;
mod identity;
pub(crate) mod layer;
pub(crate) mod limits;
mod notes;
pub mod options;
pub mod registry;
pub(crate) mod resolve;
pub(crate) mod source;
pub mod spec;
pub(crate) mod suggest;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
pub mod write;

pub use batch::{Batch, Job, JobSource, LoadOptions, find_job_files, load_batch};
pub use fault::{Fault, Faults, Severity};
pub use identity::run_id;
