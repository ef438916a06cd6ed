//! The on-disk grid: edges cut into *columns* (ranges of destinations of even work), inside a column sorted by
//! source windows, packed into self-contained chunks, striped over the devices.
//!
//! [`build`] imports an [`EdgeSource`](crate::dataset::EdgeSource) in external memory, [`open`] finds what was
//! built, [`BlockView`] reads a run of chunks that lies in memory, [`EdgeReader`] all edges one after the other,
//! [`verify`] checks every byte. A grid exists exactly when its manifest does: it is written last.

pub mod block;
pub mod chunk;
mod columns;
pub mod compact;
mod consistency;
mod contents;
pub mod derived;
pub mod digest;
mod error;
mod export;
mod files;
mod fold;
mod import;
pub mod inventory;
mod kept;
mod lock;
pub mod manifest;
mod open;
mod orphans;
mod parallel;
pub mod paths;
mod reader;
mod renumbering;
mod verify;
mod written;

pub use block::{BlockView, Chunk, ChunkError, ChunkFault, Edges, Expectation, RawEdges};
pub use compact::Near;
pub use contents::Contents;
pub use error::GridError;
pub use export::{ExportPath, ExportRequest, Exported, export};
pub use fold::{Fold, Lookup, Number, RING_WINDOW, Sum};
pub use import::build;
pub use inventory::{Collected, Layout, gc, list, remove};
pub use kept::KeptBlock;
pub use lock::InUse;
pub use open::{Grid, Ids, open};
pub use paths::{GridPaths, LayoutRequest, layout_key};
pub use reader::EdgeReader;
pub use renumbering::Renumbering;
pub use verify::{Verified, verify};
pub use written::Written;

#[cfg(test)]
mod tests;

#[cfg(not(target_endian = "little"))]
compile_error!("chunks are little endian and read in place, so the host must be little endian too");
