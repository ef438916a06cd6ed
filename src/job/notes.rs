//! What a batch lacks on this machine. Jobs are written on one machine and run on another, so this is no part
//! of checking a job: `check` notes it, `run` refuses.

use super::batch::Batch;
use super::fault::{Fault, Faults};
use super::resolve::{Needed, NeededKind};
use crate::file_id::FileId;

impl Batch {
    /// Notes on the job files themselves: entries of `exclude` without effect.
    pub fn notes(&self) -> &Faults {
        &self.notes
    }

    /// What selected jobs need and this machine does not have, as notes: directories of devices, files of data
    /// sets and vectors. For `run`: [`Faults::into_errors`].
    pub fn missing(&self) -> Faults {
        let mut faults = Faults::new();
        for job in &self.jobs {
            let mut devices: Vec<(FileId, &Needed)> = Vec::new();
            for needed in &job.needed {
                match lacking(needed) {
                    Some(fault) => faults.push(fault.at(&needed.origin).note()),
                    None if needed.kind == NeededKind::DeviceDirectory => {
                        devices.extend(alias(needed, &devices, &mut faults));
                    }
                    None => {}
                }
            }
        }
        faults
    }
}

/// Two names of one directory, by links, `..` or mounts, would be two devices with the same files.
fn alias<'a>(
    needed: &'a Needed,
    known: &[(FileId, &Needed)],
    faults: &mut Faults,
) -> Option<(FileId, &'a Needed)> {
    let id = FileId::at(&needed.path)?;
    if let Some((_, other)) = known.iter().find(|(known, _)| *known == id) {
        let (this, other) = (needed.path.display(), other.path.display());
        let fault =
            Fault::new(format!("the device directories {this} and {other} are the same")).at(&needed.origin);
        faults.push(fault.help("give each SSD a directory of its own").note());
    }
    Some((id, needed))
}

fn lacking(needed: &Needed) -> Option<Fault> {
    let path = needed.path.display();
    let (what, directory, help) = match needed.kind {
        NeededKind::DeviceDirectory => {
            ("the device directory", true, "mount the device, or create the directory")
        }
        NeededKind::DatasetFile => ("the data set's file", false, "fetch it, or correct the path"),
        NeededKind::VectorFile => ("the vector's file", false, "create it, or correct the path"),
    };
    let message = match std::fs::metadata(&needed.path) {
        Ok(meta) if meta.is_dir() == directory => return None,
        Ok(_) if directory => format!("{what} {path} is not a directory"),
        Ok(_) => format!("{what} {path} is a directory"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => format!("{what} {path} does not exist"),
        Err(error) => format!("{what} {path} cannot be read: {error}"),
    };
    Some(Fault::new(message).help(help))
}
