//! What identifies a data set: the same edges, read the same way, have the same fingerprint on every machine, under
//! whatever path or name. It is part of a run's identity and of a layout's key.

use std::fmt::Write as _;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::digest::{hex, sha256};
use super::file::SourceFile;
use super::format::{Layout, layout};
use super::kronecker::GENERATOR_VERSION;
use super::{Context, DatasetError};
use crate::job::spec::{DatasetSpec, FormatSpec, KroneckerSpec, SourceSpec, WeightsSpec};

/// Hexadecimal digits of a fingerprint.
const DIGITS: usize = 32;

/// The fingerprint of a data set: a letter (spreadsheets mistake digits for numbers), `k` for a generated graph
/// and `f` for a file, and 32 hexadecimal digits of the sha256 of what makes its edges: the generator's version
/// and parameters, or the file's sha256 and format; and `vertices`, `directed`, `weights` and `skip_lines`.
///
/// The digest of a file is remembered in `cache_dir`; where it must be computed, `context` sees a stage.
/// Errors: those of opening and reading the file, and a digest other than the `sha256` of the data set.
pub fn fingerprint(
    spec: &DatasetSpec,
    cache_dir: &Path,
    context: Context<'_>,
) -> Result<String, DatasetError> {
    let (letter, mut identity) = match &spec.source {
        SourceSpec::Kronecker(kronecker) => ('k', kronecker_identity(*kronecker, spec.weights)),
        SourceSpec::File { path, format, sha256: expected } => {
            let file = SourceFile::open(path)?;
            let found = sha256(&file, &spec.name, cache_dir, context)?;
            if let Some(expected) =
                expected.as_ref().filter(|expected| !expected.eq_ignore_ascii_case(&found))
            {
                let (path, expected) = (path.clone(), expected.clone());
                return Err(DatasetError::DigestMismatch { path, expected, found });
            }
            ('f', file_identity(&file, *format, spec, &found)?)
        }
    };
    // Writing to a string cannot fail.
    let _ = write!(identity, " directed={}", spec.directed);
    if let Some(vertices) = spec.vertices {
        let _ = write!(identity, " vertices={vertices}");
    }
    let digest = hex(&Sha256::digest(identity));
    Ok(format!("{letter}{}", &digest[..DIGITS]))
}

/// The sha256 of another file that a run reads (SpMV's x), in hexadecimal digits, remembered in `cache_dir`.
/// Errors: those of opening and reading the file.
pub fn file_digest(path: &Path, cache_dir: &Path, context: Context<'_>) -> Result<String, DatasetError> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    sha256(&SourceFile::open(path)?, &name, cache_dir, context)
}

fn kronecker_identity(spec: KroneckerSpec, weights: WeightsSpec) -> String {
    let KroneckerSpec { scale, edge_factor, seed, .. } = spec;
    let weights = spec.weights && weights == WeightsSpec::Auto;
    format!(
        "kronecker version={GENERATOR_VERSION} scale={scale} edge_factor={edge_factor} seed={seed} weights={weights}"
    )
}

/// `auto` is resolved, because what it stands for may depend on the file's name.
fn file_identity(
    file: &SourceFile,
    format: FormatSpec,
    spec: &DatasetSpec,
    digest: &str,
) -> Result<String, DatasetError> {
    let format = match layout(file, format)? {
        Layout::Text | Layout::GzipText => "text",
        Layout::Pairs { weight: false, .. } => "pairs",
        Layout::Pairs { weight: true, .. } => "weighted_pairs",
    };
    let weights = spec.weights == WeightsSpec::Auto;
    Ok(format!("file sha256={digest} format={format} weights={weights} skip_lines={}", spec.skip_lines))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs::File;
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::dataset::tests::{Recorder, context, file_spec};
    use crate::interrupt::Interrupt;

    const KRONECKER: KroneckerSpec = KroneckerSpec { scale: 10, edge_factor: 16, seed: 1, weights: false };

    fn kronecker(spec: KroneckerSpec) -> DatasetSpec {
        DatasetSpec { source: SourceSpec::Kronecker(spec), ..file_spec(Path::new("")) }
    }

    struct Place {
        dir: tempfile::TempDir,
        progress: Recorder,
    }

    impl Place {
        fn new() -> Self {
            Self { dir: tempfile::tempdir().unwrap(), progress: Recorder::default() }
        }

        /// A file whose last change is an hour ago, as that of a data set mostly is.
        fn file(&self, name: &str, content: &[u8]) -> PathBuf {
            let path = self.dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            Self::date(&path, 3600);
            path
        }

        fn date(path: &Path, seconds_ago: u64) {
            let time = SystemTime::now() - Duration::from_secs(seconds_ago);
            File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }

        fn cache(&self) -> PathBuf {
            self.dir.path().join("cache")
        }

        fn fingerprint(&self, spec: &DatasetSpec) -> Result<String, DatasetError> {
            let interrupt = Interrupt::new();
            fingerprint(spec, &self.cache(), Context { progress: &self.progress, ..context(1, &interrupt) })
        }

        /// How often a file was digested so far.
        fn digested(&self) -> usize {
            self.progress.stages().len()
        }
    }

    #[test]
    fn fingerprints_begin_with_a_letter_and_stay_the_same() {
        let place = Place::new();
        let print = place.fingerprint(&kronecker(KRONECKER)).unwrap();
        insta::assert_snapshot!(print, @"k29dfbb79684f79215fe6bfac26b02e88");
        let print = place.fingerprint(&file_spec(&place.file("e.txt", b"1 2\n"))).unwrap();
        insta::assert_snapshot!(print, @"f7c9f4853cf034b83cc4322b44361d378");
    }

    #[test]
    fn whatever_changes_the_edges_changes_the_fingerprint() {
        let place = Place::new();
        let path = place.file("e.txt", b"1 2\n");
        let plain = file_spec(&path);
        let generated = kronecker(KRONECKER);
        let specs = [
            DatasetSpec { vertices: Some(2000), ..plain.clone() },
            DatasetSpec { directed: false, ..plain.clone() },
            DatasetSpec { weights: WeightsSpec::None, ..plain.clone() },
            DatasetSpec { skip_lines: 1, ..plain.clone() },
            file_spec(&place.file("other.txt", b"1 3\n")),
            file_spec(&place.file("e.bin", &[0; 24])),
            file_spec(&place.file("e.wbin", &[0; 24])),
            plain,
            DatasetSpec { vertices: Some(2000), ..generated.clone() },
            DatasetSpec { directed: false, ..generated.clone() },
            kronecker(KroneckerSpec { scale: 11, ..KRONECKER }),
            kronecker(KroneckerSpec { edge_factor: 8, ..KRONECKER }),
            kronecker(KroneckerSpec { seed: 2, ..KRONECKER }),
            kronecker(KroneckerSpec { weights: true, ..KRONECKER }),
            generated,
        ];
        let prints: HashSet<String> = specs.iter().map(|spec| place.fingerprint(spec).unwrap()).collect();
        assert_eq!(prints.len(), specs.len());
    }

    #[test]
    fn names_and_paths_do_not_matter() {
        let place = Place::new();
        let one = file_spec(&place.file("one.txt", b"1 2\n"));
        let other = DatasetSpec {
            name: "another".into(),
            edges: Some(1),
            source: SourceSpec::File {
                path: place.file("other", b"1 2\n"),
                format: FormatSpec::Snap,
                sha256: None,
            },
            ..one.clone()
        };
        assert_eq!(place.fingerprint(&one).unwrap(), place.fingerprint(&other).unwrap());
    }

    #[test]
    fn a_file_is_digested_once_and_again_when_it_changed() {
        let place = Place::new();
        let path = place.file("e.txt", b"1 2\n");
        let first = place.fingerprint(&file_spec(&path)).unwrap();
        assert_eq!(place.fingerprint(&file_spec(&path)).unwrap(), first);
        assert_eq!(place.digested(), 1);

        std::fs::write(&path, b"1 3\n").unwrap();
        Place::date(&path, 1800);
        let second = place.fingerprint(&file_spec(&path)).unwrap();
        assert_ne!(second, first);
        assert_eq!(place.digested(), 2);
    }

    #[test]
    fn the_digest_of_a_file_written_just_now_is_not_trusted_later() {
        let place = Place::new();
        let path = place.file("e.txt", b"1 2\n");
        Place::date(&path, 0);
        place.fingerprint(&file_spec(&path)).unwrap();
        place.fingerprint(&file_spec(&path)).unwrap();
        assert_eq!(place.digested(), 2);
    }

    #[test]
    fn a_corrupt_cache_is_ignored_and_replaced() {
        let place = Place::new();
        let spec = file_spec(&place.file("e.txt", b"1 2\n"));
        let right = place.fingerprint(&spec).unwrap();
        let cache = place.cache().join("digests.json");
        let valid = std::fs::read_to_string(&cache).unwrap();
        let digest_cut = valid.replace("\"sha256\": \"", "\"sha256\": \"x");
        assert_ne!(digest_cut, valid);
        for corrupt in ["", "{", "[]", "\0\u{ff}", "{\"files\": 3}", digest_cut.as_str()] {
            std::fs::write(&cache, corrupt).unwrap();
            assert_eq!(place.fingerprint(&spec).unwrap(), right, "{corrupt:?}");
            assert_eq!(std::fs::read_to_string(&cache).unwrap(), valid);
        }
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_a_note() {
        let place = Place::new();
        std::fs::write(place.cache(), b"in the way").unwrap();
        place.fingerprint(&file_spec(&place.file("e.txt", b"1 2\n"))).unwrap();
        let notes = place.progress.notes();
        assert!(matches!(&notes[..], [note] if note.contains("e.txt is not remembered")), "{notes:?}");
    }

    #[test]
    fn a_digest_that_differs_is_an_error_with_both() {
        let place = Place::new();
        let path = place.file("e.txt", b"1 2\n");
        let with = |sha256: &str| {
            let sha256 = Some(sha256.to_owned());
            let source = SourceSpec::File { path: path.clone(), format: FormatSpec::Auto, sha256 };
            place.fingerprint(&DatasetSpec { source, ..file_spec(&path) })
        };
        let error = with("1234").unwrap_err().to_string();
        let dir = place.dir.path().to_str().unwrap();
        insta::assert_snapshot!(error.replace(dir, "DIR"), @"DIR/e.txt has the sha256 f251ddc12234e0da8d3b778bd0f7463fb477f16f47757f5617dc8b4ff4d4f14a, but the data set says 1234; fetch the file again, or correct `sha256` if the new content is meant");
        let digest = hex(&Sha256::digest(b"1 2\n"));
        assert_eq!(with(&digest.to_uppercase()).unwrap(), place.fingerprint(&file_spec(&path)).unwrap());
    }

    #[test]
    fn an_interrupt_ends_digesting() {
        let place = Place::new();
        let interrupt = Interrupt::new();
        interrupt.raise();
        let spec = file_spec(&place.file("e.txt", b"1 2\n"));
        let result = fingerprint(&spec, &place.cache(), context(1, &interrupt));
        assert!(matches!(result, Err(DatasetError::Interrupted)));
    }
}
