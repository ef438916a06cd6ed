//! SNAP-like text, plain or gzip: one edge a line (see [`super::line`] for what a line may be), read in blocks of
//! whole lines (see [`super::blocks`]). The vertices are the ids that occur, because such files number their
//! vertices as they please, with gaps and beyond 2^32; `vertices = N` says that they are 0..N instead.

use super::blocks::{
    BLOCK, Block, Blocks, Broken, ByteStream, CountedFile, Options, Shape, StreamError, lines,
};
use super::file::SourceFile;
use super::gzip::GzipStream;
use super::line::{self, Columns, MAX_LINE};
use super::workers::{Batch, Fault, read_pieces};
use super::{Context, DatasetError, EdgeSource, Sink, Summary, VertexSet};
use crate::dataset::error::LineFault;
use crate::job::spec::WeightsSpec;
use crate::progress::Unit;

/// Edges of a text file.
#[derive(Debug)]
pub(super) struct TextSource {
    file: SourceFile,
    gzip: bool,
    vertices: Option<u64>,
    options: Options,
}

impl TextSource {
    /// Text in `file`; `gzip` says whether it is packed.
    pub(super) fn new(
        file: SourceFile,
        gzip: bool,
        vertices: Option<u64>,
        weights: WeightsSpec,
        skip_lines: u64,
    ) -> Self {
        Self { file, gzip, vertices, options: Options { skip_lines, weights, block: BLOCK } }
    }

    /// The same with blocks of another size: that of a test is so small that every line crosses an edge.
    #[cfg(test)]
    pub(super) fn with_block(mut self, block: usize) -> Self {
        self.options.block = block;
        self
    }

    fn read_stream<S: ByteStream>(
        &self,
        stream: S,
        context: Context<'_>,
        sink: &Sink<'_>,
    ) -> Result<Summary, DatasetError> {
        let blocks = Blocks::new(stream, self.options);
        let edges = read_pieces(context, sink, Block::default, |block, batch| {
            let result = match blocks.next(block) {
                Ok(true) => self.parse(block, batch).map(|()| true),
                Ok(false) => Ok(false),
                Err(broken) => Err(self.broken(broken)),
            };
            context.progress.advance(block.consumed);
            result.map_err(|error| Fault { piece: block.sequence, error })
        })?;
        Ok(Summary { edges, weighted: blocks.weighted() })
    }

    fn parse(&self, block: &Block, batch: &mut Batch<'_>) -> Result<(), DatasetError> {
        // Without an edge so far the columns do not matter.
        let shape = block.shape.unwrap_or(Shape { columns: Columns::Pair, first: 0 });
        let limit = self.vertices.unwrap_or(u64::MAX);
        for (number, line) in (block.first_line..).zip(lines(&block.bytes)) {
            match line::parse(line, shape.columns) {
                Ok(None) => {}
                Ok(Some(edge)) if edge.source < limit && edge.target < limit => batch.push(edge)?,
                Ok(Some(edge)) => {
                    let vertex = if edge.source < limit { edge.target } else { edge.source };
                    let path = self.file.path().to_path_buf();
                    return Err(DatasetError::LineVertex { path, line: number, vertex, vertices: limit });
                }
                Err(fault) => return Err(self.line_error(number, fault.report(number, shape.first))),
            }
        }
        Ok(())
    }

    fn line_error(&self, line: u64, fault: LineFault) -> DatasetError {
        DatasetError::Line { path: self.file.path().to_path_buf(), line, fault }
    }

    fn broken(&self, broken: Broken) -> DatasetError {
        let path = self.file.path().to_path_buf();
        match broken {
            Broken::LineTooLong { line } => self.line_error(line, LineFault::TooLong { limit: MAX_LINE }),
            Broken::SkipLinesBeyondEnd { lines } => {
                DatasetError::SkipLinesBeyondEnd { path, skip_lines: self.options.skip_lines, lines }
            }
            Broken::Stream { error, lines } => match error {
                StreamError::Io(reason) => self.file.io_error("reading", reason),
                StreamError::EndsEarly => DatasetError::GzipEndsEarly { path, lines },
                StreamError::Damaged(reason) => DatasetError::GzipDamaged { path, lines, reason },
                StreamError::Trailing { offset } => DatasetError::GzipTrailing { path, offset },
            },
        }
    }
}

impl EdgeSource for TextSource {
    fn describe(&self) -> String {
        self.file.path().display().to_string()
    }

    fn vertices(&self) -> VertexSet {
        self.vertices.map_or(VertexSet::Seen, VertexSet::Given)
    }

    fn size(&self) -> (Option<u64>, Unit) {
        (Some(self.file.len()), Unit::Bytes)
    }

    fn read(&self, context: Context<'_>, sink: &Sink<'_>) -> Result<Summary, DatasetError> {
        self.file.read_unchanged(|file| {
            if self.gzip {
                self.read_stream(GzipStream::new(file, self.file.len()), context, sink)
            } else {
                self.read_stream(CountedFile::new(file, self.file.len()), context, sink)
            }
        })
    }
}
