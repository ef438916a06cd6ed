//! Reads by the kernel's asynchronous I/O: many requests per `io_submit`, many completions per `io_getevents`,
//! as the IOC paper's I/O threads do it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use libaio_sys::{Context, IoEvent, Iocb};
use rustix::io::Errno;

use super::asynchronous::{AsynchronousEngine, Event, Kernel, Read};
use crate::storage::device::DeviceFiles;

/// An engine for `capacity` requests in flight.
///
/// # Errors
/// What `io_setup` says, with what to do: the kernel's limit on requests is reached, it knows no AIO, or the
/// capacity is 0 or absurd.
pub fn open(files: Arc<DeviceFiles>, capacity: usize) -> io::Result<AsynchronousEngine> {
    // More than u32::MAX is as impossible as u32::MAX, and the kernel will say so.
    let requests = u32::try_from(capacity).unwrap_or(u32::MAX);
    let context = Context::new(requests).map_err(|cause| explain_setup(&cause, capacity))?;
    let aio = Aio { context, iocbs: Vec::new(), events: vec![IoEvent::default(); capacity] };
    Ok(AsynchronousEngine::on(Box::new(aio), files, capacity))
}

/// A context, and room for what its calls take and give.
struct Aio {
    context: Context,
    iocbs: Vec<Iocb>,
    events: Vec<IoEvent>,
}

impl Kernel for Aio {
    unsafe fn submit(&mut self, reads: &[Read]) -> io::Result<usize> {
        let iocb = |read: &Read| Iocb::pread(read.fd, read.address, read.len, read.offset, read.mark);
        self.iocbs.clear();
        self.iocbs.extend(reads.iter().map(iocb));
        let pointers: Vec<_> = self.iocbs.iter_mut().map(std::ptr::from_mut).collect();
        // SAFETY: the pointers are to our own structures, which outlive the call; for the memory that the reads
        // name, our caller vouches.
        unsafe { self.context.submit(&pointers) }
    }

    fn events(&mut self, least: usize, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        let seen = match self.context.events(least, &mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            result => result?,
        };
        events
            .extend(self.events[..seen].iter().map(|event| Event { mark: event.data, result: event.result }));
        Ok(())
    }
}

fn explain_setup(cause: &io::Error, capacity: usize) -> io::Error {
    let what = match cause.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN) => format!(
            "the kernel has no room for {capacity} more asynchronous requests (fs.aio-nr = {}, fs.aio-max-nr = {}); \
             raise the limit with `sysctl fs.aio-max-nr=1048576`, lower `engine.io_depth`, or set engine.io = \"psync\"",
            kernel_setting(RESERVED),
            kernel_setting(LIMIT),
        ),
        Some(Errno::NOSYS | Errno::PERM) => {
            "this kernel or sandbox offers no asynchronous I/O (io_setup); set engine.io = \"psync\""
                .to_owned()
        }
        _ => format!(
            "a queue of {capacity} asynchronous requests cannot be set up: {cause}; change `engine.io_depth`"
        ),
    };
    io::Error::new(cause.kind(), what)
}

/// Requests that the kernel has room for at this moment, of all processes together.
pub(crate) fn free_requests() -> Option<u64> {
    let number = |path| kernel_setting(path).parse::<u64>().ok();
    Some(number(LIMIT)?.saturating_sub(number(RESERVED)?))
}

const RESERVED: &str = "/proc/sys/fs/aio-nr";
const LIMIT: &str = "/proc/sys/fs/aio-max-nr";

fn kernel_setting(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |value| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::testing::Disk;

    #[test]
    fn a_kernel_without_room_is_explained_with_what_to_do() {
        let error = explain_setup(&Errno::AGAIN.into(), 512);
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let text = error.to_string();
        assert!(text.starts_with("the kernel has no room for 512 more asynchronous requests"), "{text}");
        assert!(text.contains("sysctl fs.aio-max-nr") && text.contains("psync"), "{text}");
        let text = explain_setup(&Errno::NOSYS.into(), 512).to_string();
        assert!(text.contains("offers no asynchronous I/O"), "{text}");
    }

    #[test]
    fn the_real_kernel_refuses_more_than_its_limit_and_is_explained() {
        let disk = Disk::new(1, 4096);
        let Err(error) = open(Arc::clone(&disk.files), 8_000_000) else { return };
        let text = error.to_string();
        assert!(text.contains("8000000") && text.contains("engine.io_depth"), "{text}");
        let Err(error) = open(Arc::clone(&disk.files), usize::MAX) else { panic!("accepted") };
        assert!(error.to_string().contains("cannot be set up: Invalid argument"), "{error}");
    }
}
