//! Cuts a stream of text into blocks of whole lines, for many workers to parse. The stream is read by one worker
//! at a time, under a lock that also keeps the line count, while the others parse: copying from the page cache
//! (some GB/s) or unpacking (some hundred MB/s) cannot be split up anyway or need not be, and parsing, which is
//! most of the work, runs beside it on all threads. So plain and packed files share one path, and every error
//! knows its line without reading anything again.

use std::fs::File;
use std::io::{ErrorKind, Read, Take};
use std::sync::{Mutex, PoisonError};

use memchr::{memchr, memchr_iter, memrchr};

use super::line::{self, Columns, MAX_LINE};
use crate::job::spec::WeightsSpec;

/// Bytes of a block, about: some tens of batches, and little beside a thread's stack.
pub(super) const BLOCK: usize = 256 << 10;

/// Mark that some editors put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Where text comes from.
pub(super) trait ByteStream: Send {
    /// Some bytes, at most as many as `buffer` holds; 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError>;
    /// Bytes of the file read so far, for progress.
    fn consumed(&self) -> u64;
}

/// Why a stream gives no more.
#[derive(Debug)]
pub(super) enum StreamError {
    /// The operating system says so.
    Io(std::io::Error),
    /// A packed stream without its end.
    EndsEarly,
    /// A packed stream that does not unpack.
    Damaged(String),
    /// Something behind a packed stream's end at this offset.
    Trailing { offset: u64 },
}

/// A file that knows how much of it was read: plain text as it is, or what an unpacker reads from.
pub(super) struct CountedFile {
    file: Take<File>,
    /// Bytes read so far.
    pub(super) bytes: u64,
}

impl CountedFile {
    /// Reads `len` bytes at most, so that a file that grows as fast as it is read has an end.
    pub(super) fn new(file: File, len: u64) -> Self {
        Self { file: file.take(len), bytes: 0 }
    }
}

impl Read for CountedFile {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.file.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(bytes) => {
                    self.bytes += bytes as u64;
                    return Ok(bytes);
                }
            }
        }
    }
}

impl ByteStream for CountedFile {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        Read::read(self, buffer).map_err(StreamError::Io)
    }

    fn consumed(&self) -> u64 {
        self.bytes
    }
}

/// The columns of a file's edges, and the line of the first edge, which set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) columns: Columns,
    pub(super) first: u64,
}

/// Whole lines. A worker keeps one and fills it again and again.
#[derive(Default)]
pub(super) struct Block {
    /// The lines; the file's last may lack its newline.
    pub(super) bytes: Vec<u8>,
    /// The block's place in the stream.
    pub(super) sequence: u64,
    /// Number of its first line, from 1.
    pub(super) first_line: u64,
    /// None as long as no line of the stream held an edge.
    pub(super) shape: Option<Shape>,
    /// Bytes of the file that were read for it.
    pub(super) consumed: u64,
}

/// Why there is no next block. `lines`: whole lines before.
#[derive(Debug)]
pub(super) enum Broken {
    Stream { error: StreamError, lines: u64 },
    LineTooLong { line: u64 },
    SkipLinesBeyondEnd { lines: u64 },
}

/// Reading options of a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// Lines to leave out at the start.
    pub(super) skip_lines: u64,
    /// What a third column is.
    pub(super) weights: WeightsSpec,
    /// Bytes of a block, about.
    pub(super) block: usize,
}

/// Hands out the blocks of a stream, in order, to whoever asks.
pub(super) struct Blocks<S>(Mutex<State<S>>);

struct State<S> {
    stream: S,
    options: Options,
    /// Bytes behind the last newline of the block handed out last.
    rest: Vec<u8>,
    /// The stream gives no more.
    ended: bool,
    /// Why not, where that is an error; due after the lines before it.
    failed: Option<StreamError>,
    sequence: u64,
    /// Newlines passed.
    lines: u64,
    shape: Option<Shape>,
    reported: u64,
}

impl<S: ByteStream> Blocks<S> {
    pub(super) fn new(stream: S, options: Options) -> Self {
        Self(Mutex::new(State {
            stream,
            options,
            rest: Vec::new(),
            ended: false,
            failed: None,
            sequence: 0,
            lines: 0,
            shape: None,
            reported: 0,
        }))
    }

    /// Fills `block` with the next lines; false if there are none. The block's `sequence` is set in any case.
    pub(super) fn next(&self, block: &mut Block) -> Result<bool, Broken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next(block)
    }

    /// Whether the stream's edges carry weights, as far as is known.
    pub(super) fn weighted(&self) -> bool {
        let shape = self.0.lock().unwrap_or_else(PoisonError::into_inner).shape;
        shape.is_some_and(|shape| shape.columns == Columns::Weighted)
    }
}

impl<S: ByteStream> State<S> {
    fn next(&mut self, block: &mut Block) -> Result<bool, Broken> {
        block.sequence = self.sequence;
        self.sequence += 1;
        if block.sequence == 0 {
            self.start()?;
        }
        self.fill(&mut block.bytes)?;
        block.consumed = self.stream.consumed() - self.reported;
        self.reported += block.consumed;
        if block.bytes.is_empty() {
            return match self.failed.take() {
                Some(error) => Err(Broken::Stream { error, lines: self.lines }),
                None => Ok(false),
            };
        }
        block.first_line = self.lines + 1;
        self.lines += memchr_iter(b'\n', &block.bytes).count() as u64;
        if self.shape.is_none() {
            self.shape = first_edge(block, self.options.weights);
        }
        block.shape = self.shape;
        Ok(true)
    }

    /// Passes over the byte order mark and the lines to leave out.
    fn start(&mut self) -> Result<(), Broken> {
        let mut bytes = Vec::new();
        self.read_to(&mut bytes, self.options.block.max(BYTE_ORDER_MARK.len()));
        let mut at = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let mut inside_line = false;
        while self.lines < self.options.skip_lines {
            if let Some(newline) = memchr(b'\n', &bytes[at..]) {
                at += newline + 1;
                self.lines += 1;
                inside_line = false;
                continue;
            }
            inside_line |= at < bytes.len();
            bytes.clear();
            at = 0;
            self.read_to(&mut bytes, self.options.block);
            if bytes.is_empty() {
                self.lines += u64::from(inside_line);
                break;
            }
        }
        if self.lines < self.options.skip_lines && self.failed.is_none() {
            return Err(Broken::SkipLinesBeyondEnd { lines: self.lines });
        }
        bytes.drain(..at);
        self.rest = bytes;
        Ok(())
    }

    /// The next whole lines, about a block of them; at the end of the stream whatever is left.
    fn fill(&mut self, bytes: &mut Vec<u8>) -> Result<(), Broken> {
        bytes.clear();
        bytes.append(&mut self.rest);
        let mut goal = self.options.block;
        loop {
            self.read_to(bytes, goal);
            let whole = memrchr(b'\n', bytes).map(|newline| newline + 1);
            if self.failed.is_some() {
                bytes.truncate(whole.unwrap_or(0));
            }
            if self.ended {
                return Ok(());
            }
            if let Some(whole) = whole {
                self.rest.extend_from_slice(&bytes[whole..]);
                bytes.truncate(whole);
                return Ok(());
            }
            if bytes.len() > MAX_LINE {
                self.ended = true;
                bytes.clear();
                return Err(Broken::LineTooLong { line: self.lines + 1 });
            }
            goal = bytes.len() + self.options.block;
        }
    }

    /// Reads until `bytes` has `goal` bytes or the stream ends.
    fn read_to(&mut self, bytes: &mut Vec<u8>, goal: usize) {
        let mut filled = bytes.len();
        bytes.resize(goal.max(filled), 0);
        while filled < goal && !self.ended {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => self.ended = true,
                Ok(read) => filled += read,
                Err(error) => {
                    self.ended = true;
                    self.failed = Some(error);
                }
            }
        }
        bytes.truncate(filled);
    }
}

/// The lines of a block, without their newlines.
pub(super) fn lines(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let end = memchr(b'\n', bytes).unwrap_or(bytes.len());
        let line = &bytes[..end];
        bytes = bytes.get(end + 1..).unwrap_or_default();
        Some(line)
    })
}

/// The first edge of a block sets the columns of the whole stream.
fn first_edge(block: &Block, weights: WeightsSpec) -> Option<Shape> {
    (block.first_line..).zip(lines(&block.bytes)).find_map(|(first, line)| {
        let third = line::third_column(line)?;
        let columns = match weights {
            WeightsSpec::None => Columns::PairOfMany,
            WeightsSpec::Auto if third => Columns::Weighted,
            WeightsSpec::Auto => Columns::Pair,
        };
        Some(Shape { columns, first })
    })
}
