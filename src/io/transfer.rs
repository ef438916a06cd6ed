//! How far a request has come: what is the same for every engine, whichever call moves the bytes.
//!
//! The kernel may bring fewer bytes than asked for, and in the middle of a file that is no error. The rest is
//! then asked for from the last *aligned* position, since a direct read cannot start elsewhere; where that
//! brings nothing new, the file has ended.

use std::io;
use std::time::Instant;

use super::{Completion, ReadRequest};
use crate::storage::buffer::ALIGNMENT;
use crate::storage::device::DeviceFiles;

/// How often a read is tried again that failed for a reason of the moment.
const TRIES: u32 = 100;

/// A request under way.
#[derive(Debug)]
pub(super) struct Transfer {
    request: ReadRequest,
    submitted: Option<Instant>,
    done: usize,
    tried_again: u32,
}

/// What to do after a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Read the rest.
    Continue,
    /// Complete it.
    Finish,
}

impl Transfer {
    pub(super) fn new(request: ReadRequest) -> Self {
        Self { request, submitted: None, done: 0, tried_again: 0 }
    }

    pub(super) fn device(&self) -> usize {
        self.request.device
    }

    pub(super) fn buffer_id(&self) -> u64 {
        self.request.buffer.id()
    }

    /// Counts a failure that may pass, and says whether to ask for the same once more.
    pub(super) fn try_again(&mut self) -> bool {
        self.tried_again += 1;
        self.tried_again <= TRIES
    }

    /// The kernel has it since `now`. The first time counts.
    pub(super) fn submitted_at(&mut self, now: Instant) {
        self.submitted.get_or_insert(now);
    }

    /// Offset in the file and memory of what is still to be read.
    pub(super) fn rest(&mut self) -> (u64, &mut [u8]) {
        let from = self.aligned();
        (self.request.offset + from as u64, &mut self.request.buffer[from..self.request.len])
    }

    /// Where the rest starts.
    fn aligned(&self) -> usize {
        self.done - self.done % ALIGNMENT
    }

    /// Counts `read` bytes of [`Transfer::rest`] as done.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file has no more.
    pub(super) fn advance(&mut self, read: usize) -> io::Result<Next> {
        let end = self.aligned() + read;
        if end >= self.request.len {
            return Ok(Next::Finish);
        }
        if end <= self.done {
            return Err(unexpected_eof(self.done, self.request.len));
        }
        self.done = end;
        Ok(Next::Continue)
    }

    pub(super) fn complete(self, completed: Instant, result: io::Result<()>) -> Completion {
        let submitted = self.submitted.unwrap_or(completed);
        Completion { request: self.request, submitted, completed, result }
    }

    /// Whether the request makes sense, above all whether it stays inside its buffer.
    ///
    /// # Errors
    /// `InvalidInput`, with what is wrong.
    pub(super) fn check(&self, files: &DeviceFiles) -> io::Result<()> {
        let ReadRequest { device, offset, len, ref buffer, .. } = self.request;
        let wrong = if device >= files.count() {
            format!("device {device} of {} devices", files.count())
        } else if len == 0 || len > buffer.len() {
            format!("{len} bytes for a buffer of {}", buffer.len())
        } else if !len.is_multiple_of(ALIGNMENT) || !offset.is_multiple_of(ALIGNMENT as u64) {
            format!("{len} bytes at {offset}, which are no multiples of {ALIGNMENT}")
        } else if i64::try_from(offset).is_ok_and(|offset| offset.checked_add_unsigned(len as u64).is_some())
        {
            return Ok(());
        } else {
            format!("{len} bytes at {offset}, beyond the end of any file")
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("a read request makes no sense: {wrong}")))
    }
}

/// The error of a read beyond the end of a file.
pub(super) fn unexpected_eof(done: usize, len: usize) -> io::Error {
    let found = format!("the file ends {done} bytes into a read of {len}");
    io::Error::new(io::ErrorKind::UnexpectedEof, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::buffer::AlignedBuffer;

    fn transfer(len: usize) -> Transfer {
        let buffer = AlignedBuffer::new(len);
        Transfer::new(ReadRequest { device: 0, offset: 1 << 20, len, buffer, tag: 0 })
    }

    #[test]
    fn the_rest_of_a_short_read_starts_at_an_aligned_offset() {
        let mut transfer = transfer(16384);
        assert_eq!(transfer.advance(5000).unwrap(), Next::Continue);
        let (offset, memory) = transfer.rest();
        assert_eq!((offset, memory.len()), ((1 << 20) + 4096, 12288));
        assert_eq!(transfer.advance(4096).unwrap(), Next::Continue);
        assert_eq!(transfer.rest().0, (1 << 20) + 8192);
        assert_eq!(transfer.advance(8192).unwrap(), Next::Finish);
    }

    #[test]
    fn a_rest_that_brings_nothing_new_is_the_end_of_the_file() {
        let mut transfer = transfer(16384);
        assert_eq!(transfer.advance(5000).unwrap(), Next::Continue);
        let error = transfer.advance(904).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(error.to_string(), "the file ends 5000 bytes into a read of 16384");
    }
}
