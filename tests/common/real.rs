//! The real graphs and small cases beside the project, and the independent answers to them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

/// A file of the shared folder; where that is missing, says that the test is skipped.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")).join(name);
    if path.exists() {
        return Some(path);
    }
    skipped(&format!("there is no {}", path.display()));
    None
}

/// Says why a test shows nothing here.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// `answers.json`.
pub fn answers() -> Option<Value> {
    // Written by Python, whose JSON knows infinite and missing numbers.
    let text = std::fs::read_to_string(shared("data/answers.json")?).unwrap();
    let text = text.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null");
    Some(serde_json::from_str(&text).unwrap())
}

/// The arrays of a `.npz`: a zip of `.npy`, one-dimensional, of 64-bit integers or floats. Ids fit an f64 exactly.
pub fn vectors(name: &str) -> Option<BTreeMap<String, Vec<f64>>> {
    let bytes = std::fs::read(shared(&format!("data/vectors/{name}"))?).unwrap();
    Some(unzip(&bytes).into_iter().map(|(name, npy)| (name.replace(".npy", ""), array(&npy))).collect())
}

fn number(bytes: &[u8], at: usize, length: usize) -> usize {
    bytes[at..at + length].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// The members of a zip archive, by its central directory; stored or deflated.
fn unzip(zip: &[u8]) -> Vec<(String, Vec<u8>)> {
    let end = zip.windows(4).rposition(|window| window == b"PK\x05\x06").expect("a zip archive");
    let mut at = number(zip, end + 16, 4);
    let mut members = Vec::new();
    for _ in 0..number(zip, end + 10, 2) {
        assert_eq!(&zip[at..at + 4], b"PK\x01\x02");
        let (packed, name) = (number(zip, at + 20, 4), number(zip, at + 28, 2));
        let text = String::from_utf8(zip[at + 46..at + 46 + name].to_vec()).unwrap();
        let local = number(zip, at + 42, 4);
        let start = local + 30 + number(zip, local + 26, 2) + number(zip, local + 28, 2);
        let content = &zip[start..start + packed];
        members.push((text, unpack(content, number(zip, at + 10, 2))));
        at += 46 + name + number(zip, at + 30, 2) + number(zip, at + 32, 2);
    }
    members
}

fn unpack(content: &[u8], method: usize) -> Vec<u8> {
    let mut unpacked = Vec::new();
    match method {
        0 => unpacked.extend_from_slice(content),
        8 => drop(flate2::read::DeflateDecoder::new(content).read_to_end(&mut unpacked).unwrap()),
        other => panic!("zip method {other}"),
    }
    unpacked
}

fn array(npy: &[u8]) -> Vec<f64> {
    assert_eq!(&npy[..8], b"\x93NUMPY\x01\x00");
    let start = 10 + number(npy, 8, 2);
    let header = std::str::from_utf8(&npy[10..start]).unwrap();
    let numbers = npy[start..].chunks_exact(8).map(|bytes| <[u8; 8]>::try_from(bytes).unwrap());
    if header.contains("'<f8'") {
        numbers.map(f64::from_le_bytes).collect()
    } else {
        assert!(header.contains("'<i8'"), "{header}");
        numbers.map(|bytes| i64::from_le_bytes(bytes) as f64).collect()
    }
}

/// A values file: the value of each vertex.
pub fn values(csv: &str) -> BTreeMap<u64, f64> {
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("vertex,value"));
    let cells = |line: &str| {
        let (vertex, value) = line.split_once(',').unwrap();
        // A vertex that was not reached has none.
        (vertex.parse().unwrap(), if value.is_empty() { f64::INFINITY } else { value.parse().unwrap() })
    };
    lines.map(cells).collect()
}
