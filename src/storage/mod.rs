//! Devices, stripes and the memory that direct I/O accepts.

pub mod buffer;
pub mod device;
pub mod error;
pub mod huge;
pub mod stripe;
pub mod vertex_store;
