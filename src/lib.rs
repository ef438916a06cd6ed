//! Reproducible out-of-core graph experiments on one machine.
//!
//! Data flows one way: `job` (what to run) → `dataset` (edges) → `grid` (edges on disk) → `storage`, `io`
//! (blocks in memory) → `engine` (threads and queues) → `algorithm` (results) → `report` (rows).
//! The engine knows no algorithm by name, an algorithm knows no I/O, and `io` knows no grid.
//! Nothing here prints: progress is passed in, errors are returned.

pub mod algorithm;
mod atomic_file;
pub mod cli;
pub mod cluster;
pub mod dataset;
pub mod engine;
mod file_id;
mod file_lock;
pub mod grid;
pub mod interrupt;
pub mod io;
mod io_advice;
pub mod job;
pub mod measure;
pub mod progress;
mod regular_file;
pub mod report;
pub mod run;
pub mod storage;
pub mod units;
