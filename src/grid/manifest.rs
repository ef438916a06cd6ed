//! What a built grid says of itself: written last, so that a grid without it does not exist.

use serde::{Deserialize, Serialize};

use crate::job::spec::{EncodingSpec, GridSpec, VertexOrderSpec};
use crate::storage::stripe::Stripes;

use super::chunk::{PAYLOAD, RawEdge};
use super::columns::VERTEX_WORK;
use super::consistency;

/// Version of the on-disk format; a grid of another version is built anew.
pub const FORMAT: u32 = 2;

/// Code of the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u16)]
pub enum Encoding {
    /// (source: u32, destination: u32[, weight: f32 | f64]) relative to the chunk's bases.
    Raw = 0,
    /// Pieces of rows: see [`super::compact`].
    Compact = 1,
}

impl Encoding {
    /// As jobs name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => EncodingSpec::Raw,
            Self::Compact => EncodingSpec::Compact,
        }
        .name()
    }
}

impl From<EncodingSpec> for Encoding {
    fn from(spec: EncodingSpec) -> Self {
        match spec {
            EncodingSpec::Raw => Self::Raw,
            EncodingSpec::Compact => Self::Compact,
        }
    }
}

/// Numbering of the vertices inside the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The dense index itself.
    Natural,
    /// By descending out-degree, dealt to the columns.
    Degree,
}

impl Order {
    /// What a job asks for; `None` where the import is to choose what takes the fewest bytes. Raw edges take the same in
    /// any order.
    pub fn asked(grid: &GridSpec) -> Option<Self> {
        match (grid.order, grid.encoding) {
            (VertexOrderSpec::Natural, _) | (VertexOrderSpec::Auto, EncodingSpec::Raw) => Some(Self::Natural),
            (VertexOrderSpec::Degree, _) => Some(Self::Degree),
            (VertexOrderSpec::Auto, EncodingSpec::Compact) => None,
        }
    }

    /// As jobs name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Natural => VertexOrderSpec::Natural,
            Self::Degree => VertexOrderSpec::Degree,
        }
        .name()
    }
}

/// Weights as stored: the narrowest that holds every weight of the source exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightKind {
    /// None: every weight is 1.
    Unit,
    /// 4 bytes.
    F32,
    /// 8 bytes.
    F64,
}

impl WeightKind {
    /// Bytes of a stored weight.
    pub fn bytes(self) -> usize {
        match self {
            Self::Unit => 0,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Bytes of a stored edge.
    pub fn edge_bytes(self) -> usize {
        size_of::<RawEdge>() + self.bytes()
    }

    /// Edges of a full chunk.
    pub fn edges_per_chunk(self) -> u64 {
        (PAYLOAD / self.edge_bytes()) as u64
    }
}

/// A range of destinations and where its edges lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// First vertex (position).
    pub first_vertex: u64,
    /// One past the last vertex.
    pub end_vertex: u64,
    /// Number of its first chunk.
    pub first_chunk: u64,
    /// Chunks.
    pub chunks: u64,
    /// Edges.
    pub edges: u64,
}

impl Column {
    /// Destinations.
    pub fn width(&self) -> u64 {
        self.end_vertex - self.first_vertex
    }
}

/// The manifest, `manifest.json` in the grid's directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// Random number of this build, in every chunk.
    pub grid_id: u64,
    /// Data set's name when built.
    pub dataset: String,
    /// Fingerprint of source and reading options.
    pub fingerprint: String,
    /// Code of the edges.
    pub encoding: Encoding,
    /// Weights as stored.
    pub weights: WeightKind,
    /// Sources per window, by which a column's edges are sorted.
    pub source_window: u64,
    /// Devices striped over.
    pub ssds: u32,
    /// Bytes of a stripe, a multiple of the chunk.
    pub stripe: u64,
    /// Vertices.
    pub vertices: u64,
    /// `seen`, `range`, `declared` or `given`.
    pub vertex_rule: String,
    /// Arcs.
    pub edges: u64,
    /// Vertices without out-arcs.
    pub dangling: u64,
    /// Arcs from a vertex to itself.
    pub self_loops: u64,
    /// Wrapping sum of all edges' digests, mixed with the vertex count: the data set's checksum, the same for
    /// every layout.
    pub dataset_checksum: u64,
    /// Arcs whose weight is below zero.
    pub negative_weights: u64,
    /// Largest |weight|; 1 where there are none. A string in the file, because JSON readers may round numbers.
    #[serde(with = "exact")]
    pub max_abs_weight: f64,
    /// Largest, over destinations, of the sum of `ceil(2^32 |w| / max_abs_weight)`.
    pub max_in_weight: u64,
    /// The columns, ascending and contiguous over all vertices.
    pub columns: Vec<Column>,
    /// Bytes of each device's file.
    pub part_bytes: Vec<u64>,
    /// Numbering inside the grid.
    pub order: Order,
    /// xxh3 of `order.bin` (dense index of every position, u32 little endian); absent where the order is natural.
    pub order_checksum: Option<u64>,
    /// xxh3 of `contents.bin` (what each chunk holds).
    pub contents_checksum: u64,
    /// xxh3 of `degrees.bin` (out-degree of every vertex by position, u32 little endian).
    pub degrees_checksum: u64,
    /// xxh3 of `ids.bin` (original id of every vertex, u64 little endian, ascending); absent where ids are dense.
    pub ids_checksum: Option<u64>,
    /// Seconds the import took, in whole milliseconds.
    pub import_s: f64,
    /// Peak memory of the importing process, bytes.
    pub import_max_rss_b: u64,
    /// xxh3 of this manifest as JSON with this field zero, so that a damaged one is told from a valid one.
    pub checksum: u64,
}

impl Manifest {
    /// Chunks of the whole grid.
    pub fn chunks(&self) -> u64 {
        self.columns.last().map_or(0, |column| column.first_chunk + column.chunks)
    }

    /// Whether a column has so much more than an even share of the work that one thread at a time on it would leave
    /// others idle: most arcs lead to few destinations then, since columns are cut evenly where they can be, or there are
    /// fewer columns than threads.
    pub fn is_heavy(&self, column: &Column, threads: u32) -> bool {
        let work = |edges: u64, vertices: u64| u128::from(edges) + u128::from(VERTEX_WORK * vertices);
        let shares = u128::from(threads).max(self.columns.len() as u128);
        threads > 1 && 4 * shares * work(column.edges, column.width()) > 5 * work(self.edges, self.vertices)
    }

    /// How the chunks are dealt to the devices.
    pub fn stripes(&self) -> Stripes {
        Stripes::new(self.ssds, self.stripe)
    }

    /// The JSON to write, its checksum set.
    pub(super) fn to_json(&self) -> serde_json::Result<String> {
        let sealed = Self { checksum: self.expected_checksum()?, ..self.clone() };
        serde_json::to_string_pretty(&sealed)
    }

    /// The manifest in `text`, or `None` where it is of another format, damaged or in contradiction with itself.
    /// None of them is an error: such a grid is not there, and is built anew.
    pub(super) fn from_json(text: &str) -> Option<Self> {
        let manifest: Self = serde_json::from_str(text).ok()?;
        let intact = manifest.expected_checksum().is_ok_and(|checksum| checksum == manifest.checksum);
        let sound = manifest.format == FORMAT && consistency::check(&manifest).is_ok();
        (intact && sound).then_some(manifest)
    }

    fn expected_checksum(&self) -> serde_json::Result<u64> {
        let open = Self { checksum: 0, ..self.clone() };
        Ok(xxhash_rust::xxh3::xxh3_64(serde_json::to_string(&open)?.as_bytes()))
    }
}

/// An f64 as the shortest string that parses to the same bits.
mod exact {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
