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
