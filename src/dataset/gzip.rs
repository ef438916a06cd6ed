//! A gzip file (RFC 1952) as one stream of bytes: all members one after the other, as `bgzip`, `pigz` and
//! `cat a.gz b.gz` make them. Stricter than most readers, because a graph that is silently smaller than its file
//! is worse than none: a stream that ends before its trailer and bytes behind the last member are errors (only
//! the zero padding of tapes and block devices is let through).

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use flate2::bufread::GzDecoder;

use super::blocks::{ByteStream, CountedFile, StreamError};

/// First bytes of a member: magic and the only compression method there is.
pub(super) const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// Compressed bytes read at once.
const INPUT: usize = 128 << 10;

type Input = BufReader<CountedFile>;

/// The unpacked bytes of a gzip file.
pub(super) struct GzipStream {
    /// None behind the last member.
    member: Option<GzDecoder<Input>>,
    consumed: u64,
}

impl GzipStream {
    /// Unpacks the `len` bytes of `file`.
    pub(super) fn new(file: File, len: u64) -> Self {
        let input = BufReader::with_capacity(INPUT, CountedFile::new(file, len));
        Self { member: Some(GzDecoder::new(input)), consumed: 0 }
    }
}

impl ByteStream for GzipStream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        while let Some(mut member) = self.member.take() {
            let bytes = member.read(buffer).map_err(stream_error)?;
            self.consumed = member.get_ref().get_ref().bytes;
            if bytes > 0 {
                self.member = Some(member);
                return Ok(bytes);
            }
            let mut input = member.into_inner();
            if another_member(&mut input)? {
                self.member = Some(GzDecoder::new(input));
            }
        }
        Ok(0)
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }
}

/// Whether another member follows; zeros up to the end of the file do not count as one.
fn another_member(input: &mut Input) -> Result<bool, StreamError> {
    let end = input.get_ref().bytes - input.buffer().len() as u64;
    let mut padded = false;
    loop {
        let bytes = input.fill_buf().map_err(StreamError::Io)?;
        match bytes.first() {
            None => return Ok(false),
            Some(&byte) if byte == MAGIC[0] && !padded => return Ok(true),
            Some(0) if bytes.iter().all(|&byte| byte == 0) => {
                padded = true;
                let len = bytes.len();
                input.consume(len);
            }
            Some(_) => return Err(StreamError::Trailing { offset: end }),
        }
    }
}

fn stream_error(error: io::Error) -> StreamError {
    match error.kind() {
        ErrorKind::UnexpectedEof => StreamError::EndsEarly,
        ErrorKind::InvalidInput | ErrorKind::InvalidData => StreamError::Damaged(error.to_string()),
        _ => StreamError::Io(error),
    }
}

/// The first unpacked bytes (at most `len`) of what may be the head of a gzip file; none if it is not.
pub(super) fn unpacked_head(head: &[u8], len: usize) -> Option<Vec<u8>> {
    if !head.starts_with(&MAGIC) {
        return None;
    }
    let mut unpacked = Vec::new();
    match GzDecoder::new(head).take(len as u64).read_to_end(&mut unpacked) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => None,
        _ => Some(unpacked),
    }
}
