//! The Linux kernel's asynchronous I/O: `io_setup`, `io_submit`, `io_getevents`, `io_destroy`.
//!
//! The C library has no wrappers for these calls, and the user-space library of the same name adds a ring that
//! is read behind the kernel's back; so this crate makes the calls themselves and nothing more. Structures are
//! those of `include/uapi/linux/aio_abi.h`; semantics are those of `io_submit(2)` and its neighbours.
//!
//! # Who guarantees what
//! The kernel copies an [`Iocb`] during `io_submit` and does not look at it again. The *memory it names* is
//! written until the request's [`IoEvent`] has been returned by [`Context::events`]: whoever calls
//! [`Context::submit`] keeps it alive until then. Dropping a [`Context`] destroys the kernel's context, which
//! cancels nothing that a disk has begun, and frees no memory of the caller. Today's kernels wait in
//! `io_destroy` for what is in flight, some (3.11 to 3.14) did not: reap every event before the drop.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", target_endian = "little")))]
compile_error!(
    "libaio-sys knows the layout of the kernel's AIO structures on 64-bit little-endian Linux only"
);

use std::io;
use std::mem::offset_of;
use std::os::fd::RawFd;
use std::time::Duration;

/// A request: `struct iocb`, 64 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Iocb {
    /// Returned in [`IoEvent::data`].
    pub data: u64,
    /// Written by the kernel at submission.
    pub key: u32,
    /// `RWF_*` flags.
    pub rw_flags: i32,
    /// [`Iocb::PREAD`] and others.
    pub opcode: u16,
    /// I/O priority, if `flags` says so.
    pub priority: i16,
    /// File descriptor.
    pub fd: u32,
    /// Address of the memory.
    pub buffer: u64,
    /// Bytes.
    pub bytes: u64,
    /// Position in the file.
    pub offset: i64,
    /// Must be zero.
    pub reserved: u64,
    /// `IOCB_FLAG_*`.
    pub flags: u32,
    /// An eventfd to signal, if `flags` says so.
    pub result_fd: u32,
}

/// A request that is done: `struct io_event`, 32 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct IoEvent {
    /// [`Iocb::data`] of the request.
    pub data: u64,
    /// Where its [`Iocb`] was. It need not be there any more.
    pub iocb: u64,
    /// Bytes transferred, or a negated error number.
    pub result: i64,
    /// Always 0 for reads.
    pub result2: i64,
}

const _: () = {
    assert!(size_of::<Iocb>() == 64 && align_of::<Iocb>() == 8);
    assert!(offset_of!(Iocb, data) == 0 && offset_of!(Iocb, key) == 8 && offset_of!(Iocb, rw_flags) == 12);
    assert!(offset_of!(Iocb, opcode) == 16 && offset_of!(Iocb, priority) == 18 && offset_of!(Iocb, fd) == 20);
    assert!(
        offset_of!(Iocb, buffer) == 24 && offset_of!(Iocb, bytes) == 32 && offset_of!(Iocb, offset) == 40
    );
    assert!(offset_of!(Iocb, reserved) == 48 && offset_of!(Iocb, flags) == 56);
    assert!(offset_of!(Iocb, result_fd) == 60);
    assert!(size_of::<IoEvent>() == 32 && align_of::<IoEvent>() == 8);
    assert!(offset_of!(IoEvent, data) == 0 && offset_of!(IoEvent, iocb) == 8);
    assert!(offset_of!(IoEvent, result) == 16 && offset_of!(IoEvent, result2) == 24);
    assert!(size_of::<libc::c_ulong>() == 8 && size_of::<libc::timespec>() == 16);
};

impl Iocb {
    /// `IOCB_CMD_PREAD`.
    pub const PREAD: u16 = 0;

    /// A read of `bytes` at `offset` of `fd` to `buffer`. Offsets from 2^63 on are refused by the kernel.
    pub fn pread(fd: RawFd, buffer: *mut u8, bytes: usize, offset: u64, data: u64) -> Self {
        Self {
            data,
            opcode: Self::PREAD,
            fd: fd.cast_unsigned(),
            buffer: buffer as u64,
            bytes: bytes as u64,
            offset: offset.cast_signed(),
            ..Self::default()
        }
    }
}

/// An AIO context of this process. It may be used from any of its threads, and is not inherited by `fork`.
#[derive(Debug)]
pub struct Context {
    id: libc::c_ulong,
}

impl Context {
    /// `io_setup`: a context for `capacity` requests in flight.
    ///
    /// # Errors
    /// `EAGAIN` where the machine's limit `fs.aio-max-nr` is reached, `EINVAL` for a capacity of 0 or one that
    /// no kernel allows, `ENOSYS` where the kernel was built without AIO.
    pub fn new(capacity: u32) -> io::Result<Self> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: io_setup writes one aio_context_t (an unsigned long) to `id`, which must be 0 before.
        check(unsafe { libc::syscall(libc::SYS_io_setup, libc::c_ulong::from(capacity), &raw mut id) })?;
        Ok(Self { id })
    }

    /// `io_submit`: hands requests to the kernel, in order, and returns how many it took: at least one, unless
    /// there were none. An error is the first request's; those behind it have not been looked at.
    ///
    /// # Errors
    /// `EAGAIN` where there is no room, `EBADF` and `EINVAL` for a request that makes no sense, `EFAULT`.
    ///
    /// # Safety
    /// Every pointer is valid for reads and writes of an [`Iocb`] during the call. The memory a request names
    /// stays allocated, and nobody else touches it, until [`Context::events`] has returned its event or
    /// `submit` has returned without taking the request.
    pub unsafe fn submit(&self, requests: &[*mut Iocb]) -> io::Result<usize> {
        // SAFETY: the array has as many pointers as its length says; what they point to, the caller vouches for.
        check(unsafe { libc::syscall(libc::SYS_io_submit, self.id, requests.len(), requests.as_ptr()) })
    }

    /// `io_getevents`: waits until `min` requests are done or `timeout` is over (`None`: never), writes the
    /// events of at most `events.len()` to the front of `events` and returns how many.
    ///
    /// # Errors
    /// `EINTR` where a signal came before any event, `EINVAL` where `min` is above the slice's length.
    pub fn events(&self, min: usize, events: &mut [IoEvent], timeout: Option<Duration>) -> io::Result<usize> {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the kernel writes at most `events.len()` whole events to the slice, any bits of which are
        // valid, and reads one timespec, which lives to the end of this function, or none.
        check(unsafe {
            libc::syscall(libc::SYS_io_getevents, self.id, min, events.len(), events.as_mut_ptr(), timeout)
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the id came from io_setup and is destroyed once. No memory is freed here, so a request that
        // is still in flight writes where its submitter has promised that it may.
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}

fn check(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    fn submit(context: &Context, requests: &mut [Iocb]) -> io::Result<usize> {
        let pointers: Vec<_> = requests.iter_mut().map(std::ptr::from_mut).collect();
        // SAFETY: the requests outlive the call, and every test reaps before its buffer goes.
        unsafe { context.submit(&pointers) }
    }

    #[test]
    fn reads_bring_the_bytes_of_the_file_and_the_mark_of_the_request() {
        let mut file = tempfile::tempfile().unwrap();
        let written: Vec<u8> = (0..=255).collect();
        file.write_all(&written).unwrap();
        let context = Context::new(4).unwrap();
        let mut memory = [[0_u8; 100]; 3];
        let mut requests: Vec<_> = memory
            .iter_mut()
            .zip([0_u64, 78, 200])
            .map(|(part, offset)| Iocb::pread(file.as_raw_fd(), part.as_mut_ptr(), 100, offset, offset + 1))
            .collect();
        assert_eq!(submit(&context, &mut requests).unwrap(), 3);
        let mut events = [IoEvent::default(); 4];
        assert_eq!(context.events(3, &mut events, SECOND).unwrap(), 3);
        events[..3].sort_by_key(|event| event.data);
        assert_eq!(events.map(|event| (event.data, event.result)), [(1, 100), (79, 100), (201, 56), (0, 0)]);
        assert_eq!(memory[0], written[..100]);
        assert_eq!(memory[1], written[78..178]);
        assert_eq!(memory[2][..56], written[200..]);
    }

    #[test]
    fn a_bad_descriptor_is_an_error_of_the_first_request_only() {
        let file = tempfile::tempfile().unwrap();
        let context = Context::new(2).unwrap();
        let mut memory = [0_u8; 8];
        let bad = Iocb::pread(-1, memory.as_mut_ptr(), 8, 0, 0);
        let good = Iocb::pread(file.as_raw_fd(), memory.as_mut_ptr(), 8, 0, 0);
        assert_eq!(submit(&context, &mut [bad, good]).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(submit(&context, &mut [good, bad]).unwrap(), 1);
        let mut events = [IoEvent::default(); 2];
        assert_eq!(context.events(1, &mut events, SECOND).unwrap(), 1);
    }

    #[test]
    fn no_requests_and_no_events_are_fine() {
        let context = Context::new(1).unwrap();
        assert_eq!(submit(&context, &mut []).unwrap(), 0);
        let mut events = [IoEvent::default(); 1];
        assert_eq!(context.events(1, &mut events, Some(Duration::from_millis(1))).unwrap(), 0);
    }

    #[test]
    fn what_makes_no_sense_is_einval() {
        assert_eq!(Context::new(0).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let context = Context::new(1).unwrap();
        let mut events = [IoEvent::default(); 1];
        assert_eq!(context.events(2, &mut events, SECOND).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let file = tempfile::tempfile().unwrap();
        let mut memory = [0_u8; 8];
        let mut request = Iocb { reserved: 1, ..Iocb::pread(file.as_raw_fd(), memory.as_mut_ptr(), 8, 0, 0) };
        let error = submit(&context, std::slice::from_mut(&mut request)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
