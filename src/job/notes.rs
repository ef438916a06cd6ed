//! What a batch lacks on this machine. Jobs are written on one machine and run on another, so this is no part
//! of checking a job: `check` notes it, `run` refuses.

use super::batch::{Batch, Job};
use super::external::find_program;
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

    /// Programs of externals that selected runs need and this machine does not have, as notes. Apart from what else is
    /// missing, because without them the runs can still be identified.
    pub fn missing_programs(&self) -> Faults {
        let mut faults = Faults::new();
        for job in &self.jobs {
            let programs = job.needed.iter().filter(|needed| needed.kind == NeededKind::Program);
            for Needed { path, origin, .. } in programs {
                let word = path.to_string_lossy();
                // What a placeholder stands for is there when the data set is.
                if !needs(job, &word) || word.contains('{') || find_program(&word, &job.project).is_some() {
                    continue;
                }
                let place =
                    if word.contains('/') { "no such file, or it is not executable" } else { "not in PATH" };
                let fault = Fault::new(format!("the program `{word}` is not found: {place}")).at(origin);
                let help = "install it, correct the path, or leave the external out by --only";
                faults.push(fault.help(help).note());
            }
        }
        faults
    }
}

/// Whether a selected run of a job starts this program.
fn needs(job: &Job, program: &str) -> bool {
    let externals = job.runs.iter().filter_map(|run| run.algorithm.external());
    externals
        .flat_map(|external| external.command.first().into_iter().chain(external.prepare.first()))
        .any(|first| first == program)
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
        // Not by its path alone: see `missing_programs`.
        NeededKind::Program => return None,
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
