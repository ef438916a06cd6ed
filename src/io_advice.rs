//! What to do about an error of the operating system: what it means to whoever runs `ioc`, where that is not plain from
//! its words. Each begins with a semicolon, to follow the error.

use std::io::{self, ErrorKind};

use rustix::io::Errno;

/// What to do where no more files can be opened, whichever they are.
pub(crate) fn out_of_files(reason: &io::Error) -> Option<&'static str> {
    let is = |errno: Errno| reason.raw_os_error() == Some(errno.raw_os_error());
    if is(Errno::MFILE) {
        Some("; raise the limit on open files (`ulimit -n`)")
    } else if is(Errno::NFILE) {
        Some("; the system has as many files open as it may (`sysctl fs.file-max`): end other programs")
    } else {
        None
    }
}

/// Advice about an error at a path; `elsewhere` says how another one is chosen (`choose another place`).
pub(crate) fn advice(reason: &io::Error, elsewhere: &str) -> String {
    if let Some(limit) = out_of_files(reason) {
        return limit.to_owned();
    }
    let what = match reason.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some room",
        ErrorKind::PermissionDenied => "change the permissions",
        ErrorKind::ReadOnlyFilesystem => "mount the file system to be written to",
        ErrorKind::NotADirectory => "a file is in the way of a directory: move it away",
        ErrorKind::InvalidFilename => "the name is too long: shorten it",
        ErrorKind::FileTooLarge => "raise the limit on the size of a file (`ulimit -f`)",
        // Ours, and says it all.
        ErrorKind::InvalidInput => return String::new(),
        _ => "check the disk",
    };
    format!("; {what}, or {elsewhere}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_fits_the_cause() {
        let about = |errno: Errno| advice(&errno.into(), "choose another place");
        assert_eq!(about(Errno::MFILE), "; raise the limit on open files (`ulimit -n`)");
        assert_eq!(about(Errno::ACCESS), "; change the permissions, or choose another place");
        assert_eq!(about(Errno::NOSPC), "; free some room, or choose another place");
        assert_eq!(about(Errno::ROFS), "; mount the file system to be written to, or choose another place");
        assert_eq!(about(Errno::IO), "; check the disk, or choose another place");
        for errno in [Errno::ACCESS, Errno::MFILE, Errno::NFILE] {
            assert!(!about(errno).contains("room"), "{errno}");
        }
    }
}
