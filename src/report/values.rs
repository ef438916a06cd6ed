//! The values of a run, `OUT/<report>/<run_id>.values.csv` or wherever the user wants them: `vertex,value`, a line
//! per vertex, streamed, since a graph of a billion vertices has 20 GB of them. Bytes are formatted into one buffer
//! and handed on by the megabyte; a reader sees the whole file or none.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::ReportError;
use super::cell::{push_count, push_number};
use crate::atomic_file::AtomicFile;
use crate::regular_file;

/// Bytes gathered before they are written.
const BATCH: usize = 1 << 20;

/// Longest line: 20 digits, a comma, 24 characters of a number, a line feed.
const LINE: usize = 64;

/// Writes a values file. Dropped before [`ValuesWriter::finish`], it leaves nothing.
#[derive(Debug)]
pub struct ValuesWriter {
    file: AtomicFile,
    path: PathBuf,
    batch: Vec<u8>,
}

impl ValuesWriter {
    /// Begins the file; missing folders are made. A file that is there stays until [`Self::finish`] replaces it; what is
    /// no regular file is refused.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        let file = AtomicFile::create(path)?;
        let mut batch = Vec::with_capacity(BATCH + LINE);
        batch.extend_from_slice(b"vertex,value\n");
        Ok(Self { file, path: path.to_owned(), batch })
    }

    /// One vertex by its original id. The value is written as the shortest text that reads back as the same f64; a
    /// value that is not finite (a vertex that was not reached) leaves its cell empty.
    pub fn push(&mut self, vertex: u64, value: f64) -> Result<(), ReportError> {
        push_count(&mut self.batch, vertex);
        self.batch.push(b',');
        push_number(&mut self.batch, value);
        self.batch.push(b'\n');
        if self.batch.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    /// Puts the file in its place.
    pub fn finish(mut self) -> Result<PathBuf, ReportError> {
        self.flush()?;
        self.file.commit()?;
        Ok(self.path)
    }

    fn flush(&mut self) -> Result<(), ReportError> {
        self.file.write(&self.batch)?;
        self.batch.clear();
        Ok(())
    }
}

/// Copies a values file to where the user wants it, whole or not at all.
pub fn copy_values(from: &Path, to: &Path) -> Result<(), ReportError> {
    let mut source = regular_file::open(from).map_err(ReportError::io("read", from))?;
    let mut writer = ValuesWriter::create(to)?;
    writer.batch.resize(BATCH, 0);
    loop {
        match source.read(&mut writer.batch).map_err(ReportError::io("read", from))? {
            0 => break,
            length => writer.batch.truncate(length),
        }
        writer.flush()?;
        writer.batch.resize(BATCH, 0);
    }
    writer.batch.clear();
    writer.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(values: &[(u64, f64)]) -> String {
        let out = tempfile::tempdir().expect("tempdir");
        let mut writer = ValuesWriter::create(&out.path().join("a/r1.values.csv")).expect("create");
        for &(vertex, value) in values {
            writer.push(vertex, value).expect("push");
        }
        let path = writer.finish().expect("finish");
        std::fs::read_to_string(path).expect("read")
    }

    #[test]
    fn values_are_short_and_exact() {
        let text =
            written(&[(0, 0.1), (7, 3.0), (u64::MAX, 1e-300), (8, 5e300), (9, f64::INFINITY), (10, -0.0)]);
        assert_eq!(text, "vertex,value\n0,0.1\n7,3\n18446744073709551615,1e-300\n8,5e+300\n9,\n10,-0\n");
    }

    #[test]
    fn many_batches_lose_no_line() {
        let count = 200_000;
        let values: Vec<(u64, f64)> = (0..count).map(|vertex| (vertex, 1.0 / (vertex + 1) as f64)).collect();
        let text = written(&values);
        assert!(text.len() > 2 * BATCH);
        for (line, (vertex, value)) in text.lines().skip(1).zip(&values) {
            let (left, right) = line.split_once(',').expect("two cells");
            assert_eq!((left.parse(), right.parse()), (Ok(*vertex), Ok(*value)));
        }
        assert_eq!(text.lines().count() as u64, count + 1);
    }

    #[test]
    fn a_copy_is_the_same() {
        let out = tempfile::tempdir().expect("tempdir");
        let mut writer = ValuesWriter::create(&out.path().join("r1.values.csv")).expect("create");
        (0..200_000).for_each(|vertex| writer.push(vertex, 0.1).expect("push"));
        let from = writer.finish().expect("finish");
        let to = out.path().join("below/copy.csv");
        copy_values(&from, &to).expect("copy");
        assert!(std::fs::read(&from).expect("read") == std::fs::read(&to).expect("read"));
    }

    #[test]
    fn an_unfinished_file_is_not_there() {
        let out = tempfile::tempdir().expect("tempdir");
        let path = out.path().join("r1.values.csv");
        let mut writer = ValuesWriter::create(&path).expect("create");
        writer.push(1, 1.0).expect("push");
        drop(writer);
        assert_eq!(std::fs::read_dir(out.path()).expect("folder").count(), 0);
    }

    #[test]
    fn a_device_is_refused_and_stays_one() {
        let error = ValuesWriter::create(Path::new("/dev/full")).expect_err("no file").to_string();
        assert!(error.starts_with("/dev/full is a device and not a regular file"), "{error}");
        assert!(!Path::new("/dev/full").is_file());
    }

    #[test]
    fn no_line_outgrows_its_allowance() {
        let mut line = Vec::new();
        push_count(&mut line, u64::MAX);
        push_number(&mut line, -f64::MIN_POSITIVE);
        assert!(line.len() + 2 <= LINE);
    }
}
