//! The budget is kept. `VmHWM` is of a whole process, so the import runs in one of its own.

#![expect(clippy::print_stderr, reason = "a child tells its parent, and the figures are of interest")]

use super::*;

/// A pseudo-random graph that takes no memory.
struct Scattered {
    vertices: u64,
    edges: u64,
    weighted: bool,
    /// Ids are multiples of this (modulo 2^64), and the vertices are those seen; 1 for declared vertices.
    gap: u64,
}

/// Edges of a batch.
const BATCH: u64 = 4096;

impl Scattered {
    fn edge(&self, number: u64) -> Edge {
        let id = |seed: u64| {
            let mixed = crate::grid::digest::digest(number, seed, 0);
            // The product of two fractions: few ids are frequent, most are rare.
            let (left, right) = (mixed & 0xffff_ffff, mixed >> 32);
            let id = (((left * right) >> 32) * self.vertices) >> 32;
            id.wrapping_mul(self.gap)
        };
        let weight = if self.weighted { (number % 1000) as f64 / 7.0 } else { 1.0 };
        Edge { source: id(1), target: id(2), weight }
    }
}

impl EdgeSource for Scattered {
    fn describe(&self) -> String {
        "scattered".to_owned()
    }

    fn vertices(&self) -> VertexSet {
        if self.gap > 1 { VertexSet::Seen } else { VertexSet::Declared(self.vertices) }
    }

    fn size(&self) -> (Option<u64>, Unit) {
        (Some(self.edges), Unit::Edges)
    }

    fn read(&self, context: Context<'_>, sink: &Sink<'_>) -> Result<Summary, DatasetError> {
        let next = std::sync::atomic::AtomicU64::new(0);
        let read = |worker| {
            let mut batch = Vec::new();
            loop {
                let start = next.fetch_add(BATCH, std::sync::atomic::Ordering::Relaxed);
                if start >= self.edges {
                    return Ok(());
                }
                batch.clear();
                batch.extend((start..self.edges.min(start + BATCH)).map(|number| self.edge(number)));
                sink(worker, &batch).map_err(|_| DatasetError::Stopped)?;
            }
        };
        std::thread::scope(|scope| {
            let read = &read;
            let threads: Vec<_> =
                (0..context.threads).map(|worker| scope.spawn(move || read(worker))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap())
        })?;
        Ok(Summary { edges: self.edges, weighted: self.weighted })
    }
}

/// Tells how long each stage took.
struct Stages(std::sync::Mutex<(String, std::time::Instant)>);

impl crate::progress::Progress for Stages {
    fn begin(&self, stage: &str, _total: Option<u64>, _unit: Unit) {
        *self.0.lock().unwrap() = (stage.to_owned(), std::time::Instant::now());
    }
    fn advance(&self, _amount: u64) {}
    fn end(&self) {
        let stage = self.0.lock().unwrap();
        eprintln!("    {}: {:.3} s", stage.0, stage.1.elapsed().as_secs_f64());
    }
    fn note(&self, _text: &str) {}
}

/// Set to the parameters where this process is the one to measure.
const CHILD: &str = "IOC_GRID_MEMORY_TEST";

/// Imports and prints figures: `SCALE,EDGE_FACTOR,WEIGHTED,GAP,MIB`, and `,1` for the compact code in the order that is
/// found best.
fn import(parameters: &str) {
    let numbers: Vec<u64> = parameters.split(',').map(|number| number.parse().unwrap()).collect();
    let (numbers, compact) = numbers.split_at(5);
    let [scale, edge_factor, weighted, gap, mib] = *numbers else { panic!("{parameters}") };
    let (vertices, weighted) = (1 << scale, weighted == 1);
    let source = Scattered { vertices, edges: edge_factor << scale, weighted, gap };
    let interrupt = Interrupt::new();
    let stages = Stages(std::sync::Mutex::new((String::new(), std::time::Instant::now())));
    let context = Context { threads: 2, interrupt: &interrupt, progress: &stages };
    let data = tempfile::tempdir_in(
        std::env::var("IOC_GRID_MEMORY_DIR").unwrap_or(std::env::temp_dir().display().to_string()),
    )
    .unwrap();
    let mut setup = Setup::default();
    if compact == [1] {
        setup.grid.encoding = EncodingSpec::Compact;
    }
    let grid = crate::grid::build(data.path(), &setup.request(), &source, None, mib << 20, context).unwrap();
    let peak = grid.manifest.import_max_rss_b;
    let seconds = grid.manifest.import_s;
    let rate = source.edges as f64 / seconds / 1e6;
    eprintln!("{parameters}: {} MiB of {mib}, {seconds} s, {rate:.1} M edges/s", peak >> 20);
    assert!(peak > 0 && peak <= mib << 20, "{peak} bytes");
    verify(&grid).unwrap();
}

fn measure(parameters: &[&str]) {
    for parameters in parameters {
        let program = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(program);
        child.args(["--exact", "grid::tests::memory::child", "--ignored", "--nocapture", "--test-threads=1"]);
        let output = child.env(CHILD, parameters).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains(" MiB of "), "{parameters}: {text}");
        eprint!("{text}");
    }
}

#[test]
#[ignore = "is run by the tests below in a process of its own"]
fn child() {
    if let Ok(parameters) = std::env::var(CHILD) {
        import(&parameters);
    }
}

#[test]
fn peak_memory_stays_within_the_budget() {
    measure(&["18,8,0,1,28", "18,8,1,1,40", "18,8,0,3,32", "18,8,1,11400714819323198485,40"]);
    measure(&["18,8,0,1,28,1", "18,8,1,1,40,1", "20,4,0,1,36,1", "18,8,1,11400714819323198485,40,1"]);
}

#[test]
#[ignore = "takes minutes and gigabytes: `cargo test --release --lib grid::tests::memory -- --ignored`"]
fn scale_22_stays_within_256_mib() {
    measure(&[
        "22,16,0,1,256",
        "22,16,1,1,256",
        "22,16,1,3,256",
        "22,16,0,11400714819323198485,256",
        "22,16,0,1,64",
        "22,16,0,1,80,1",
        "22,16,0,1,256,1",
    ]);
}
