//! One repetition, from the frozen plan of its job to its row. This is what a child process does; who starts the
//! children, and where, is `cluster`'s matter.

pub mod error;
pub mod external;
pub mod layout;
pub mod lock;
pub mod parameters;
pub mod plan;
pub mod repetition;
pub(crate) mod row;
pub mod scan;
